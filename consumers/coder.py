"""From a decision's fields to its cell: one dictionary look-up, a full check on a miss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec
import numpy as np

from consumers.events import AttributeName, AttributeValue, FastDecision, Versions
from monitor.core.atoms import OTHER, atom_text, content_id
from monitor.core.cells import Int64s, Route, Stratum
from monitor.core.coding import Coding, Eras
from monitor.ports import Dictionary

MAX_KEYS = 65_536  # distinct nested parts remembered; a flood of values empties the dictionary
MAX_KEY_BYTES = 32 << 20  # and so many bytes of them
MAX_NESTED_BYTES = 4_096  # no allow-listed set of attributes is longer

Nested = TypeVar("Nested")
Key = tuple[str, float, bool, str, bool, float, bytes, bytes]
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


def key_of(decision: FastDecision) -> Key:
    """What decides the cell of a decision, but for its score band."""
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
    ``crowded`` tells that a version tuple found no room.

    Args:
        eras: allow-lists by event time; score bands and audit rates are the same in all.
        max_versions: live version tuples; later ones are counted as ``__other__``.
        versions: texts of the version tuples that are live already.
    """

    def __init__(self, eras: Eras, max_versions: int, versions: Iterable[str] = ()) -> None:
        self._eras = eras
        self._codings = [era.coding for era in eras.eras]
        self._coding = coding = eras.newest
        self._max_versions = max_versions
        self._versions = set(versions) - {OTHER}
        self.crowded = False
        self._listed = {a.name: set(a.values) for a in coding.attributes if a.version_of is None}
        self._names = self._listed.keys()
        self._atoms: dict[int, str] = {}
        self._version_texts: dict[int, str] = {}
        self._cells: dict[int, tuple[int, int, int]] = {}
        self.codes: dict[Key, int] = {}
        self.forget_codes()

    def forget_codes(self) -> None:
        """Check and code every key anew, so that its dictionary rows go to the store again."""
        self.codes.clear()
        self._key_bytes = 0
        self._parts: list[tuple[tuple[str, ...], int, Route, int, bool, bool]] = []
        self._table = np.zeros((256, len(self._codings) * self._coding.bands), np.int64)
        self._keep: list[float] = []
        self._unlisted: dict[str, list[int]] = {name: [] for name in self._names}

    def renew_versions(self, live: Iterable[str]) -> None:
        """Make room for new version tuples: those that are not live any more are let go."""
        self._versions = set(live) - {OTHER}
        self.crowded = False
        self.forget_codes()

    def trim(self) -> None:
        """Empty the dictionary when it is full; call between batches, never within one."""
        if len(self.codes) >= MAX_KEYS or self._key_bytes >= MAX_KEY_BYTES:
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
        part = (
            tuple(_atom(coding, values, version) for coding in self._codings),
            self._version(version, threshold),
            _ROUTES[route],
            rate,
            evidence,
            traffic == "probe",
        )
        self._parts.append(part)
        self._keep.append(min(1.0, self._coding.audit_rates[rate] / audit_p))
        code = self.codes[key] = len(self._parts) - 1
        self._key_bytes += len(attributes) + len(versions)
        for name, value in values.items():
            if value not in self._listed[name]:
                self._unlisted[name].append(code)
        return code

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

    def _version(self, versions: Versions, threshold: float) -> int:
        text = ",".join(
            f"{name}={value}" for name, value in msgspec.structs.asdict(versions).items()
        )
        # 0.0 and -0.0 are one key above, so they must be one text, whichever came first.
        text = f"{text},threshold={threshold + 0.0!r}"
        if text not in self._versions and len(self._versions) >= self._max_versions:
            text, self.crowded = OTHER, True
        else:
            self._versions.add(text)
        version = content_id(text)
        self._version_texts[version] = text
        return version

    def cells(self, codes: Int64s, bands: Int64s, ts: Int64s) -> Int64s:
        """Cell ids of decisions by code, score band and time."""
        if len(self._parts) > len(self._table):
            grown = np.zeros((2 * len(self._parts), self._table.shape[1]), np.int64)
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
        texts, version, route, rate, evidence, probe = self._parts[code]
        atom = content_id(texts[era])
        stratum = Stratum(route, band, rate, evidence, probe).code
        cell = content_id(f"{atom}/{version}/{stratum}")
        self._atoms[atom] = texts[era]
        self._cells[cell] = (atom, version, stratum)
        return cell

    def routes(self, codes: Int64s) -> Int64s:
        """Route code of each decision."""
        table = np.array([part[2] for part in self._parts], np.int64)
        return table[codes]

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
