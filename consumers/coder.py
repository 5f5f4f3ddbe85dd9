"""From a decision's fields to its cell: one dictionary look-up, a full check on a miss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec
import numpy as np

from consumers.cardinality import UnlistedValues
from consumers.events import AttributeName, AttributeValue, FastDecision, Versions
from monitor.core.counts.cells import OTHER, Int64s, Route, Stratum, atom_text, content_id
from monitor.core.counts.coding import Coding, CodingHistory
from monitor.ports import Dictionary

MAX_KEYS = 65_536
"""Distinct nested parts remembered: every combination of a large site."""
MAX_KEY_BYTES = 32 << 20
"""Memory that these may take."""
MAX_STRAY_BYTES = 2 << 20
"""Memory for those that a producer can make up without end: some 4,000, the frequent ones."""
MAX_SPELLINGS = 16
"""Keys that may mean the same before more count as made up: serializers, values of audit_p."""
MAX_NESTED_BYTES = 4_096  # no allow-listed set of attributes is longer
_KEY_BYTES = 400  # what a key takes besides its nested parts: measured, with its place in a dict

Nested = TypeVar("Nested")
Key = tuple[str, float, bool, str, bool, float, bytes, bytes]
Meaning = tuple[tuple[str, ...], str, Route, int, bool, bool]
"""Atom in each era, version text, route, audit rate, evidence passed, probe."""
_ROUTES = {route.name.lower(): route for route in Route}
_ATTRIBUTES = msgspec.json.Decoder(dict[AttributeName, AttributeValue])
_VERSIONS = msgspec.json.Decoder(Versions)


class RejectedError(ValueError):
    """A nested part of a decision is not acceptable; names the reason and the field."""

    def __init__(self, reason: str, field: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.field = field


def _nested(decoder: msgspec.json.Decoder[Nested], part: bytes, field: str) -> Nested:
    try:
        return decoder.decode(part)
    except msgspec.ValidationError:
        raise RejectedError("wrong_type", field) from None
    except (ValueError, RecursionError):
        # Raw parts were only skipped over until now: their UTF-8 has not been looked at yet.
        raise RejectedError("malformed_json", field) from None


class _Said:
    """Content of keys, however they spell it: its codes by keep probability, how many keys."""

    __slots__ = ("codes", "keys", "meaning")

    def __init__(self, meaning: Meaning) -> None:
        self.meaning = meaning
        self.codes: dict[float, int] = {}
        self.keys = 0


def key_of(decision: FastDecision) -> Key:
    """Fields that decide the cell of a decision, but for its score band."""
    return (
        decision.route,
        decision.audit_p,
        decision.label_requested,
        decision.traffic,
        decision.evidence_passed,
        decision.threshold,
        bytes(decision.attributes),
        bytes(decision.versions),
    )


def _atom(coding: Coding, values: Mapping[str, str], versions: Versions) -> str:
    return atom_text(
        {
            a.name: a.code(
                values.get(a.name) if a.version_of is None else getattr(versions, a.version_of)
            )
            for a in coding.attributes
        }
    )


class Coder:
    """Codes decisions; codes stay valid until they are forgotten, or :meth:`trim` empties them.

    A code stands for what a decision says; which cell that is depends on the era of its time.
    Memory is bounded whatever producers send: keys take at most ``MAX_KEY_BYTES``, and those that
    could be made up without end (unlisted values, versions without room, ever new spellings) at
    most ``MAX_STRAY_BYTES``; the others are checked anew each time.

    Attributes:
        codes: by key, as far as they are remembered.
        crowded: a version tuple found no room.
        turned_away: how often that was found out, never decreasing.
        unlisted: distinct values outside the allow-list, in whatever event was read.

    Args:
        eras: allow-lists by event time; score bands and audit rates are the same in all.
        max_versions: live version tuples; later ones are counted as ``__other__``.
        versions: texts of the version tuples that are live already.
    """

    def __init__(
        self, eras: CodingHistory, max_versions: int, versions: Iterable[str] = ()
    ) -> None:
        self._eras = eras
        self._codings = [era.coding for era in eras.eras]
        self._coding = coding = eras.newest
        self._max_versions = max_versions
        self._versions = set(versions) - {OTHER}
        self.crowded = False
        self.turned_away = 0
        self._listed = {a.name: set(a.values) for a in coding.attributes if a.version_of is None}
        self._names = self._listed.keys()
        self.unlisted = UnlistedValues(self._names)
        self._atoms: dict[int, str] = {}
        self._version_texts: dict[int, str] = {}
        self._cells: dict[int, tuple[int, int, int]] = {}
        self.codes: dict[Key, int] = {}
        self.forget_codes()

    def forget_codes(self) -> None:
        """Check and code every key anew, so that its dictionary rows go to the store again."""
        self.codes.clear()
        self._full = False
        self._key_bytes = self._stray_bytes = 0
        self._said: dict[Meaning, _Said] = {}
        self._meanings: list[Meaning] = []
        self._production: dict[int, int] = {}
        self._table = np.zeros((256, len(self._codings) * self._coding.bands), np.int64)
        self._keep: list[float] = []
        self._unlisted: dict[str, list[int]] = {name: [] for name in self._names}

    def begin_day(self) -> None:
        """Count distinct unlisted values from none again."""
        self.unlisted.clear()
        self.forget_codes()  # a value is seen when its key is checked

    def renew_versions(self, live: Iterable[str]) -> None:
        """Make room for new version tuples: those that are not live any more are dropped."""
        self._versions = set(live) - {OTHER}
        self.crowded = False
        self.forget_codes()

    def trim(self) -> None:
        """Empty the dictionary if a key found no room; call between batches, never within one."""
        if self._full:
            self.forget_codes()

    @property
    def dictionary(self) -> Dictionary:
        """Content ids coded since :meth:`settled` was last called."""
        return Dictionary(self._atoms, self._version_texts, self._cells)

    def settled(self) -> None:
        """The dictionary is in the store now."""
        self._atoms, self._version_texts, self._cells = {}, {}, {}

    def code(self, key: Key) -> int:
        """The code of a key that is not in ``codes`` yet.

        Raises:
            RejectedError: unknown attribute name, wrong type, oversized nested part.
        """
        route, audit_p, _, traffic, evidence, threshold, attributes, versions = key
        values, version = self._checked(attributes, versions)
        rate = self._coding.rate_index(audit_p)
        meaning = (
            tuple(_atom(coding, values, version) for coding in self._codings),
            self._version(version, threshold),
            _ROUTES[route],
            rate,
            evidence,
            traffic == "probe",
        )
        unlisted = [name for name, value in values.items() if value not in self._listed[name]]
        for name in unlisted:
            self.unlisted.add(name, values[name])
        keep = min(1.0, self._coding.audit_rates[rate] / audit_p)
        said = self._said_as(meaning)
        code = self._code(said, keep, unlisted)
        if meaning[-1]:
            production = self._said_as((*meaning[:-1], False))
            self._production[code] = self._code(production, keep, unlisted)
        said.keys += 1
        endless = bool(unlisted) or meaning[1] == OTHER or said.keys > MAX_SPELLINGS
        self._remember(key, code, endless)
        return code

    def _said_as(self, meaning: Meaning) -> _Said:
        return self._said.setdefault(meaning, _Said(meaning))

    def _code(self, said: _Said, keep: float, unlisted: Iterable[str]) -> int:
        """One code for all keys that say the same."""
        code = said.codes.get(keep)
        if code is None:
            code = said.codes[keep] = len(self._meanings)
            self._meanings.append(said.meaning)
            self._keep.append(keep)
            for name in unlisted:
                self._unlisted[name].append(code)
        return code

    def _remember(self, key: Key, code: int, endless: bool) -> None:
        size = _KEY_BYTES + len(key[-2]) + len(key[-1])
        keys, strays = self._key_bytes + size, self._stray_bytes + size * endless
        if keys > MAX_KEY_BYTES or strays > MAX_STRAY_BYTES or len(self.codes) >= MAX_KEYS:
            self._full = True
            return
        self._key_bytes, self._stray_bytes = keys, strays
        self.codes[key] = code

    def _checked(self, attributes: bytes, versions: bytes) -> tuple[dict[str, str], Versions]:
        for part, field in ((attributes, "attributes"), (versions, "versions")):
            if len(part) > MAX_NESTED_BYTES:
                raise RejectedError("too_large", field)
        values = _nested(_ATTRIBUTES, attributes, "attributes")
        if not values.keys() <= self._names:
            raise RejectedError("unknown_attribute", "attributes")
        version = _nested(_VERSIONS, versions, "versions")
        if any(text.endswith("\n") for text in msgspec.structs.astuple(version)):
            raise RejectedError("invalid_value", "versions")  # the pattern's $ lets one through
        return values, version

    def _version(self, versions: Versions, threshold: float) -> str:
        text = ",".join(
            f"{name}={value}" for name, value in msgspec.structs.asdict(versions).items()
        )
        # 0.0 and -0.0 are one key above, so they must be one text, whichever came first.
        text = f"{text},threshold={threshold + 0.0!r}"
        if text not in self._versions and len(self._versions) >= self._max_versions:
            self.crowded = True
            self.turned_away += 1
            return OTHER
        self._versions.add(text)
        return text

    def cells(self, codes: Int64s, bands: Int64s, ts: Int64s) -> Int64s:
        """Cell ids of decisions by code, score band and time."""
        if len(self._meanings) > len(self._table):
            grown = np.zeros((2 * len(self._meanings), self._table.shape[1]), np.int64)
            grown[: len(self._table)] = self._table
            self._table = grown
        columns = bands
        if len(self._codings) > 1:
            columns = self._eras.index(ts) * self._coding.bands + bands
        cells = self._table[codes, columns]
        if not cells.all():
            missing = cells == 0
            for code, column in set(
                zip(codes[missing].tolist(), columns[missing].tolist(), strict=True)
            ):
                self._table[code, column] = self._cell(code, *divmod(column, self._coding.bands))
            cells = self._table[codes, columns]
        return cells

    def _cell(self, code: int, era: int, band: int) -> int:
        texts, version_text, route, rate, evidence, probe = self._meanings[code]
        atom, version = content_id(texts[era]), content_id(version_text)
        stratum = Stratum(route, band, rate, evidence, probe).code
        cell = content_id(f"{atom}/{version}/{stratum}")
        self._atoms[atom], self._version_texts[version] = texts[era], version_text
        self._cells[cell] = (atom, version, stratum)
        return cell

    def routes(self, codes: Int64s) -> Int64s:
        """Route code of each decision."""
        table = np.array([meaning[2] for meaning in self._meanings], np.int64)
        return table[codes]

    def probe_rows(self, codes: Int64s) -> Int64s:
        """Rows that call themselves probes; none at once where none was ever read."""
        if not self._production:
            return np.empty(0, np.int64)
        is_probe = np.zeros(len(self._meanings), np.bool_)
        is_probe[list(self._production)] = True
        return np.flatnonzero(is_probe[codes])

    def as_production(self, codes: Int64s) -> Int64s:
        """The codes of what says the same as these probes, as production traffic."""
        return np.array([self._production[code] for code in codes.tolist()], np.int64)

    def keep_probability(self, codes: Int64s) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Probability with which a requested label is kept: grid rate / audit_p, at most 1."""
        return np.array(self._keep, np.float64)[codes]

    def unknown_values(self, codes: Int64s) -> dict[str, int]:
        """Decisions with a value outside the allow-list, by attribute."""
        return {
            name: int(np.isin(codes, unlisted).sum())
            for name, unlisted in self._unlisted.items()
            if unlisted
        }
