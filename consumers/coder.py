"""Coder from a decision's fields to its cell: one dictionary look-up, a full check on a miss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TypeVar
from unicodedata import normalize

import msgspec
import numpy as np
import numpy.typing as npt

from consumers.cardinality import UnlistedValues
from consumers.events import MAX_NESTED_BYTES, AttributeValue, FastDecision, Versions
from consumers.field_values import value_text
from consumers.tolerance import decode_tolerantly
from consumers.unknown_fields import MAX_LENGTH, MAX_NAMES, unknown_names
from monitor.core.counts.cells import OTHER, Int64s, Route, Stratum, atom_text, content_id, escaped
from monitor.core.counts.clusters import Where, population_of
from monitor.core.counts.coding import Coding, CodingHistory
from monitor.flushes import Dictionary

MAX_VERSIONS = 64
"""Version tuples that are counted apart; each multiplies the cells, and a month has a few."""
MAX_KEYS = 65_536
"""Most distinct nested parts in memory: every combination of a large site."""
MAX_KEY_BYTES = 32 << 20
"""Most memory for them."""
MAX_STRAY_BYTES = 2 << 20
"""Most memory for parts that a producer can make up without end: about 4,000 frequent ones."""
MAX_SPELLINGS = 16
"""Keys with one meaning before further ones count as made up: serializers, values of audit_p."""
NUMBERS_EACH = 16
"""Factor to that where an attribute has ranges: all numbers of a range mean the same."""
_KEY_BYTES = 400  # memory of a key besides its nested parts, as measured, with its place in a dict

Nested = TypeVar("Nested")
Key = tuple[str, float, bool, str | None, bool, float | None, bytes]
Meaning = tuple[tuple[str, ...], str, Route, int, bool, bool]
"""Atom in each era, version text, route, audit rate, evidence passed, probe."""
MAX_DROPPED = 8
"""Most unknown fields of a nested part that are counted by name; further ones are not."""
_ROUTES = {route.name.lower(): route for route in Route}
_ATTRIBUTES = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)
_VALUE = msgspec.json.Decoder(AttributeValue)
_VERSIONS = msgspec.json.Decoder(Versions | None)


class RejectedError(ValueError):
    """Error for an unacceptable nested part of a decision; it holds the reason and the field."""

    def __init__(self, reason: str, field: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.field = field


def _nested(decoder: msgspec.json.Decoder[Nested], part: bytes, field: str) -> Nested:
    """Decode a part of an event; the RejectedError names its field."""
    try:
        return decode_tolerantly(decoder.decode, part)
    except msgspec.ValidationError:
        raise RejectedError("wrong_type", field) from None
    except (ValueError, RecursionError):
        raise RejectedError("malformed_json", field) from None


Detail = tuple[float, float, tuple[str, ...]]
"""Details of a code besides its meaning, which decides the cell: the probability with which a
requested label is kept, the score that auto_serve needs, and the names of dropped fields."""


class _Content:
    """Codes, by detail, of the keys that share one meaning, and the number of these keys."""

    __slots__ = ("codes", "keys", "meaning")

    def __init__(self, meaning: Meaning) -> None:
        self.meaning = meaning
        self.codes: dict[Detail, int] = {}
        self.keys = 0


@dataclass(frozen=True, slots=True)
class _CodeTables:
    """Arrays of what each code stands for, so that a batch is looked up at once."""

    routes: Int64s
    atoms: Int64s
    populations: Int64s
    keep: npt.NDArray[np.float64]
    floors: npt.NDArray[np.float64]
    is_probe: npt.NDArray[np.bool_]


def keys_of(decisions: Iterable[FastDecision]) -> list[Key]:
    """Return the key of each decision: the fields that decide its cell, except the score band.

    Nested parts are JSON values, whose ends are unambiguous, so they are joined into one text. One
    call for both takes half the time of two copies.
    """
    join = b"\n".join
    return [
        (
            decision.route,
            decision.audit_p,
            decision.label_requested,
            decision.traffic,
            decision.evidence_passed,
            decision.threshold,
            join((decision.attributes, decision.versions)),  # Raw is a buffer
        )
        for decision in decisions
    ]


def _atom(coding: Coding, values: Mapping[str, str]) -> str:
    return atom_text({a.name: a.code(values.get(a.name)) for a in coding.attributes})


class Coder:
    """Coder from decisions to codes, and from codes to cell ids; codes are dropped between batches.

    A code stands for the content of a decision; its cell depends on the era of its time. Memory is
    bounded whatever producers send. Keys take at most ``MAX_KEY_BYTES``. Keys that could be made up
    without end (unlisted values, versions without room, ever new spellings) take at most
    ``MAX_STRAY_BYTES``. Further keys are checked anew each time.

    Attributes:
        codes: by key, as far as they are in memory.
        crowded: a version tuple found no room.
        turned_away: number of times that a version tuple found no room, never decreasing.
        unlisted: distinct values outside the allow-list, in all events read.
        rejects_unknown: undeclared attributes, like all unknown fields, make an event unreadable.

    Args:
        eras: allow-lists by event time; score bands and audit rates are the same in all.
        max_versions: live version tuples; later ones are counted as ``__other__``.
        versions: texts of the version tuples that are live already.
        use_cases: attribute values that decide which decisions belong to each use case.
        rejects_unknown: reject undeclared attributes; else they are dropped, and counted by name.
    """

    def __init__(
        self,
        eras: CodingHistory,
        max_versions: int,
        versions: Iterable[str] = (),
        use_cases: Iterable[Where] = ((),),
    ) -> None:
        self._eras = eras
        self._use_cases = tuple(use_cases)
        self._codings = [era.coding for era in eras.eras]
        self._coding = coding = eras.newest
        self._max_versions = max_versions
        self._versions = set(versions) - {OTHER}
        self.crowded = False
        self.turned_away = 0
        self._declared = {a.name: a for a in coding.attributes}
        self._by_version = {a.name: a.version_of for a in coding.attributes if a.version_of}
        self._names = self._declared.keys() - self._by_version.keys()
        has_ranges = any(a.edges for a in coding.attributes)
        self._spellings = MAX_SPELLINGS * (NUMBERS_EACH if has_ranges else 1)
        self.unlisted = UnlistedValues(self._declared)
        self._atoms: dict[int, str] = {}
        self._version_texts: dict[int, str] = {}
        self._cells: dict[int, tuple[int, int, int]] = {}
        self.codes: dict[Key, int] = {}
        self.forget_codes()

    def forget_codes(self) -> None:
        """Drop all codes: keys are checked again, and dictionary rows go to the store again."""
        self.codes.clear()
        self._full = False
        self._key_bytes = self._stray_bytes = 0
        self._contents: dict[Meaning, _Content] = {}
        self._meanings: list[Meaning] = []
        self._newest_atoms: list[int] = []
        self._populations: list[int] = []
        self._production: dict[int, int] = {}
        self._table = np.zeros((256, len(self._codings) * self._coding.bands), np.int64)
        self._keep: list[float] = []
        self._floors: list[float] = []
        self._dropped: dict[str, list[int]] = {}
        self._unlisted: dict[str, list[int]] = {name: [] for name in self._declared}
        self._tables: _CodeTables | None = None

    def begin_day(self) -> None:
        """Restart the estimates of distinct unlisted values, and drop all codes."""
        self.unlisted.clear()
        self.forget_codes()  # a value is seen when its key is checked

    def renew_versions(self, live: Iterable[str]) -> None:
        """Keep only the ``live`` version tuples, to make room for new ones, and drop all codes."""
        self._versions = set(live) - {OTHER}
        self.crowded = False
        self.forget_codes()

    def trim(self) -> None:
        """Drop all codes if a key found no room; call between batches, never within one."""
        if self._full:
            self.forget_codes()

    @property
    def dictionary(self) -> Dictionary:
        """Return atoms, version texts and cells, by id, coded since the last :meth:`settled`."""
        return Dictionary(self._atoms, self._version_texts, self._cells)

    def settled(self) -> None:
        """Empty the dictionary, since the store has its rows now."""
        self._atoms, self._version_texts, self._cells = {}, {}, {}

    def code(self, key: Key, decision: FastDecision) -> int:
        """Check a key that ``codes`` lacks, using a decision with it; return and remember its code.

        Raises:
            RejectedError: wrong type, or an oversized nested part.
        """
        route, audit_p, _, traffic, evidence, threshold, _ = key
        audit_p = min(audit_p, 1.0)
        threshold = None if threshold is None else min(max(threshold, 0.0), 1.0)
        sent, version, dropped = self._check_nested(
            bytes(decision.attributes), bytes(decision.versions)
        )
        values = sent | self._version_attributes(version)
        rate = self._coding.rate_index(audit_p)
        meaning = (
            tuple(_atom(coding, values) for coding in self._codings),
            self._version(version, threshold),
            _ROUTES[route],
            rate,
            evidence,
            traffic == "probe",
        )
        unlisted = [n for n, value in values.items() if self._declared[n].code(value) == OTHER]
        for name in unlisted:
            self.unlisted.add(name, values[name])
        keep = min(1.0, self._coding.audit_rates[rate] / audit_p)
        floor = -inf if threshold is None or meaning[2] is not Route.AUTO_SERVE else threshold
        detail = keep, floor, dropped
        content = self._content_of(meaning)
        code = self._code(content, detail, unlisted)
        if meaning[-1]:
            production = self._content_of((*meaning[:-1], False))
            self._production[code] = self._code(production, detail, unlisted)
        content.keys += 1
        made_up = not sent.keys().isdisjoint(unlisted) or meaning[1] == OTHER
        endless = made_up or content.keys > self._spellings
        self._remember(key, code, endless)
        return code

    def _content_of(self, meaning: Meaning) -> _Content:
        return self._contents.setdefault(meaning, _Content(meaning))

    def _code(self, content: _Content, detail: Detail, unlisted: Iterable[str]) -> int:
        """Return the code of a content with this detail; create the code on first use."""
        code = content.codes.get(detail)
        if code is None:
            code = content.codes[detail] = len(self._meanings)
            self._tables = None
            keep, floor, dropped = detail
            self._meanings.append(content.meaning)
            self._newest_atoms.append(content_id(content.meaning[0][-1]))
            self._populations.append(population_of(content.meaning[0][-1], self._use_cases))
            self._keep.append(keep)
            self._floors.append(floor)
            for name in unlisted:
                self._unlisted[name].append(code)
            for name in dropped:
                self._dropped.setdefault(name, []).append(code)
        return code

    def _remember(self, key: Key, code: int, endless: bool) -> None:
        """Remember the code of a key, unless memory for keys is used up."""
        size = _KEY_BYTES + len(key[-1])
        keys, strays = self._key_bytes + size, self._stray_bytes + size * endless
        if keys > MAX_KEY_BYTES or strays > MAX_STRAY_BYTES or len(self.codes) >= MAX_KEYS:
            self._full = True
            return
        self._key_bytes, self._stray_bytes = keys, strays
        self.codes[key] = code

    def _check_nested(
        self, attributes: bytes, versions: bytes
    ) -> tuple[dict[str, str], Versions, tuple[str, ...]]:
        """Check both parts; return declared attributes' values, versions, and dropped names."""
        for part, field in ((attributes, "attributes"), (versions, "versions")):
            if len(part) > MAX_NESTED_BYTES:
                raise RejectedError("too_large", field)
        parts = _nested(_ATTRIBUTES, attributes, "attributes")
        if parts is None:
            raise RejectedError("missing_field", "attributes")
        values = self._attribute_texts(parts)
        version, unknown = self._checked_versions(versions)
        undeclared = parts.keys() - self._names
        dropped = self._full_names("attributes", undeclared) | self._full_names("versions", unknown)
        return values, version, tuple(sorted(dropped))

    def _version_attributes(self, versions: Versions) -> dict[str, str]:
        """Return the values of attributes declared as versions, by name, without absent ones."""
        sent = ((name, getattr(versions, part)) for name, part in self._by_version.items())
        return {name: version for name, version in sent if version is not None}

    def _full_names(self, part: str, names: Iterable[str]) -> set[str]:
        """Return at most MAX_DROPPED names as ``part.name``; new ones without room become OTHER."""
        named = sorted(f"{part}.{name[:MAX_LENGTH]}" for name in names)
        dropped = self._dropped
        return {
            n if n in dropped or len(dropped) < MAX_NAMES else OTHER for n in named[:MAX_DROPPED]
        }

    def _attribute_texts(self, parts: Mapping[str, msgspec.Raw]) -> dict[str, str]:
        """Return the values of declared attributes as texts, by name; null values are left out."""
        sent = (
            (name, _nested(_VALUE, bytes(parts[name]), "attributes"))
            for name in self._names & parts.keys()
        )
        # A text may be composed otherwise than in the settings, and still be the same text.
        return {n: normalize("NFC", value_text(v)) for n, v in sent if v is not None}

    def _checked_versions(self, part: bytes) -> tuple[Versions, set[str]]:
        """Return the versions of an event and the names of unknown fields; refuse unfit ones."""
        version = _nested(_VERSIONS, part, "versions")
        if version is None:
            return Versions(), set()
        texts = [text for text in msgspec.structs.astuple(version) if text is not None]
        if any(text.endswith("\n") for text in texts):
            # The $ of the pattern lets a newline pass.
            raise RejectedError("invalid_value", "versions")
        return version, unknown_names(part, Versions.__struct_fields__)

    def _version(self, versions: Versions, threshold: float | None) -> str:
        """Return the text of versions and threshold, or OTHER if there are too many versions."""
        named = msgspec.structs.asdict(versions).items()
        parts = [f"{name}={escaped(v)}" for name, v in named if v]
        if threshold is not None:
            # 0.0 and -0.0 are one key above, so they must have one text, whichever came first.
            parts.append(f"threshold={threshold + 0.0!r}")
        text = ",".join(parts)
        if text not in self._versions and len(self._versions) >= self._max_versions:
            self.crowded = True
            self.turned_away += 1
            return OTHER
        self._versions.add(text)
        return text

    def cells(self, codes: Int64s, bands: Int64s, ts: Int64s) -> Int64s:
        """Return the cell id of each decision by code, score band and time, and note new cells."""
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
        """Return the id of a code's cell in an era, and note what the id means."""
        texts, version_text, route, rate, evidence, probe = self._meanings[code]
        atom, version = content_id(texts[era]), content_id(version_text)
        stratum = Stratum(route, band, rate, evidence, probe).code
        cell = content_id(f"{atom}/{version}/{stratum}")
        self._atoms[atom], self._version_texts[version] = texts[era], version_text
        self._cells[cell] = (atom, version, stratum)
        return cell

    @property
    def _by_code(self) -> _CodeTables:
        """Return the tables of all codes; a new code makes them anew."""
        if self._tables is None:
            self._tables = _CodeTables(
                routes=np.array([meaning[2] for meaning in self._meanings], np.int64),
                atoms=np.array(self._newest_atoms, np.int64),
                populations=np.array(self._populations, np.int64),
                keep=np.array(self._keep, np.float64),
                floors=np.array(self._floors, np.float64),
                is_probe=np.isin(np.arange(len(self._meanings)), list(self._production)),
            )
        return self._tables

    def routes(self, codes: Int64s) -> Int64s:
        """Return the number of the route for each code."""
        return self._by_code.routes[codes]

    def atoms(self, codes: Int64s) -> Int64s:
        """Return the atom id, in the newest era, for each code."""
        return self._by_code.atoms[codes]

    def populations(self, codes: Int64s) -> Int64s:
        """Return the population of the use case, in the newest era, for each code; 0 outside."""
        return self._by_code.populations[codes]

    def probe_rows(self, codes: Int64s) -> Int64s:
        """Return the indices of codes whose decisions call themselves probes."""
        return np.flatnonzero(self._by_code.is_probe[codes])

    def as_production(self, codes: Int64s) -> Int64s:
        """Return, for each code of a probe, the code of the same decision as production traffic."""
        return np.array([self._production[code] for code in codes.tolist()], np.int64)

    def keep_probability(self, codes: Int64s) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Return each code's chance of keeping a requested label: at most grid rate / audit_p."""
        return self._by_code.keep[codes]

    def floors(self, codes: Int64s) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Return, per code, the score that its route needed: auto_serve's threshold, or -inf."""
        return self._by_code.floors[codes]

    def unknown_values(self, codes: Int64s) -> dict[str, int]:
        """Return the number of decisions with an unlisted value, by attribute."""
        return _count_by_name(codes, self._unlisted)

    def dropped(self, codes: Int64s) -> dict[str, int]:
        """Return the number of decisions with an undeclared nested field, by the full name."""
        return _count_by_name(codes, self._dropped)


def _count_by_name(codes: Int64s, of_name: Mapping[str, Sequence[int]]) -> dict[str, int]:
    return {name: int(np.isin(codes, wanted).sum()) for name, wanted in of_name.items() if wanted}
