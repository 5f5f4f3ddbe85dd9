"""Snapshot to page: rendered once per publication, never on the scrape path.

All gauges (an info metric is written as a gauge that is 1) are the same bytes in text 0.0.4 and,
before the closing ``# EOF``, in OpenMetrics 1.0, without timestamps. The few counters come after
them, once for each format: their families are named differently.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from alerts.exposition import catalogue
from alerts.exposition.catalogue import Family, MetricKind
from alerts.exposition.incident_facts import IncidentFacts
from alerts.exposition.pieces import GZIP_LEVEL, PagePart, Piece, Press, head_text
from alerts.exposition.row_samples import row_blocks
from alerts.exposition.samples import Blocks, Samples, label_text
from monitor.core.contract import role_of
from monitor.core.probes.flips import Expected, FlipCause, FlipDirection, FlipStage
from monitor.core.publish.annotations import IncidentKind
from monitor.core.publish.each_row import Made, each_row
from monitor.core.publish.snapshot import (
    ContractTable,
    GroupTable,
    ShownFlips,
    ShownIncident,
    ShownProbeSet,
    Snapshot,
    WindowTable,
)
from monitor.core.time import SECOND

_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"  # no name, no time, fastest, any system

_FLIP_STAGES: tuple[str, ...] = (FlipStage.EVIDENCE_GATE, *FlipCause)
"""Stages of a flip: the evidence gate, or one of the causes behind it."""


@dataclass(frozen=True, slots=True)
class Page:
    """A rendered slice page, kept in the forms that scrapes ask for.

    Attributes:
        texts: the gauges piece by piece, without an end marker; none when nothing is shown.
        deflated: the same as open deflate blocks, to be continued by :func:`gzipped`.
        crc: CRC-32 of the texts.
        size: their bytes.
        series: number of series on it.
        dropped: names of families that the budget left out.
        dropped_series: number of series they had.
        counters: what follows the gauges, in text 0.0.4.
        openmetrics_counters: the same in OpenMetrics.
    """

    texts: Sequence[bytes] = ()
    deflated: bytes = b""
    crc: int = 0
    size: int = 0
    series: int = 0
    dropped: tuple[str, ...] = ()
    dropped_series: int = 0
    counters: bytes = b""
    openmetrics_counters: bytes = b""

    @classmethod
    def of(cls, pieces: Sequence[Piece], **more: Any) -> Page:
        """A page whose gauges are these pieces; ``more`` are its further attributes."""
        crc = size = 0
        for piece in pieces:
            crc, size = zlib.crc32(piece.text, crc), size + len(piece.text)
        deflated = b"".join([piece.deflated for piece in pieces])
        return cls(tuple(piece.text for piece in pieces), deflated, crc, size, **more)

    @property
    def plain(self) -> bytes:
        """The gauges; put together where they are asked for, as most scrapes take them packed."""
        return b"".join(self.texts)

    @property
    def text(self) -> bytes:
        """The whole page in text 0.0.4."""
        return self.plain + self.counters


EMPTY = Page()
"""The page while the slice metrics are withheld."""


def gzipped(page: Page, tail: bytes) -> bytes:
    """Page and tail as one gzip member, without compressing the page again.

    One member, not two: some clients read only the first.
    """
    packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    last = packer.compress(tail) + packer.flush()
    size = (page.size + len(tail)) & 0xFFFFFFFF
    checks = struct.pack("<LL", zlib.crc32(tail, page.crc), size)
    return b"".join((_GZIP_HEAD, page.deflated, last, checks))


_Families = Mapping[Family, Sequence[Piece]]


class Renderer:
    """Renders Snapshots; a row that the last page had already is not written again."""

    def __init__(self, max_series: int) -> None:
        self._max_series = max_series
        self._rows: Made[Blocks] = {}
        self._press = Press()

    def render(self, snapshot: Snapshot) -> Page:
        """The page of a Snapshot, within the series budget.

        Whole tiers of families are left out, the least needed first; states, contracts and probe
        sets never are, also when they alone exceed the budget.
        """
        families = self._families(snapshot)
        kept = _within(families, self._max_series)
        series = _size(kept)
        gauges = [
            piece
            for family, pieces in kept.items()
            if family.kind is not MetricKind.COUNTER
            for piece in (self._press.head(family), *pieces)
        ]
        counters = {f: kept[f] for f in kept if f.kind is MetricKind.COUNTER}
        return Page.of(
            gauges,
            series=series,
            dropped=tuple(family.name for family in families if family not in kept),
            dropped_series=_size(families) - series,
            counters=_counted(counters),
            openmetrics_counters=_counted(counters, stems=True),
        )

    def _families(self, snapshot: Snapshot) -> _Families:
        """What is to be written, in the order of the catalogue; no family is without lines."""
        self._rows = each_row(snapshot, row_blocks, self._rows)
        pieces = self._press.pieces(_parts(snapshot, self._rows))
        return {family: pieces[family] for family in catalogue.PAGE if family in pieces}


def _parts(snapshot: Snapshot, rows: Made[Blocks]) -> Iterator[PagePart]:
    """What is around the rows, and the rows of every group-by of every window."""
    yield "", [_around_rows(snapshot)]
    parts: dict[Hashable, list[Blocks]] = {}
    for place, (_, blocks) in rows.items():
        parts.setdefault((place.contract, place.window, place.group_by), []).append(blocks)
    yield from parts.items()


def _around_rows(snapshot: Snapshot) -> Blocks:
    """The lines of everything but rows: no family has lines of both."""
    about = _About()
    about.add(catalogue.WATERMARK, "", _seconds(snapshot.watermark))
    about.add(catalogue.FRONTIER, "", _seconds(snapshot.frontier))
    for table in snapshot.contracts:
        about.add_contract(table)
    for probe_set in snapshot.probes:
        about.add_probe_set(probe_set)
    return about.blocks()


class _About(Samples):
    """Samples of contracts, windows, incidents and probe sets."""

    def add_contract(self, table: ContractTable) -> None:
        name = table.contract
        identity = (table.version, table.owner, str(table.synthetic).lower(), str(table.k))
        self.put(catalogue.CONTRACT_INFO, 1, name, *identity, table.primary.value)
        for family, limits in (
            (catalogue.MAX_GAP, table.max_gaps),
            (catalogue.MIN_RATIO, table.min_ratios),
            (catalogue.MIN_LEVEL, table.min_levels),
            (catalogue.MAX_LEVEL, table.max_levels),
            (catalogue.MIN_SUPPORT, table.min_supports),
        ):
            self.put_by_metric(family, limits, name)
        for own in table.own_limits:
            which = (name, own.metric.value, own.group_by, own.slice, own.kind.value)
            self.put(catalogue.OWN_LIMIT, own.value, *which)
        self.put(catalogue.REVIEW_DUE, _seconds(table.review_due), name)
        self.put(catalogue.MAX_AGE, _seconds(table.max_age), name)
        for one in table.requests_at_fault:
            stratum = (name, one.route.name.lower(), f"{one.audit_rate:g}", one.fault.value)
            self.put(catalogue.REQUEST_FAULTS, one.count, *stratum)
            self.put(catalogue.REQUEST_FAULT_AT, _seconds(one.latest), *stratum)
        for fault in table.labels_at_fault:
            where = (fault.group_by, fault.slice, fault.route.name.lower(), fault.fault.value)
            self.put(catalogue.LABELS_SINCE, _seconds(fault.since), name, *where)
            self.put(catalogue.LABELS_SHARE, fault.share, name, *where)
        for incident in table.incidents:
            self._add_incident(table, incident)
        for window in table.windows:
            self._add_window(name, window)

    def _add_window(self, contract: str, window: WindowTable) -> None:
        name = window.window
        self._add_periods((contract, "", name), window)
        self.put(catalogue.DATA_LOST, window.data_lost, contract, name)
        self.put(catalogue.EXCLUDED, window.excluded, contract, name)
        for group in window.groups:
            self._add_periods((contract, group.group_by, name), group)
            for spread in group.spreads:
                labels = (contract, spread.metric.value, group.group_by, name)
                self.put(catalogue.SPREAD, spread.difference, *labels)

    def _add_periods(self, where: tuple[str, str, str], table: WindowTable | GroupTable) -> None:
        for kind, period in (("decisions", table.decisions), ("labelled", table.labelled)):
            if period is not None:
                self.put(catalogue.WINDOW_START, _seconds(period.start), *where, kind)
                self.put(catalogue.WINDOW_END, _seconds(period.end), *where, kind)

    def _add_incident(self, table: ContractTable, one: ShownIncident) -> None:
        which = (table.contract, one.metric.value, str(one.id))
        accepted = one.accepted_until is not None
        facts = IncidentFacts.of(table, one)
        if one.kind is IncidentKind.BREACH:
            self.put(catalogue.PAGING, not accepted, *which, role_of(one.metric, table.primary))
        else:
            self.put(catalogue.TICKET, not accepted, *which)
        about = (
            one.kind.value,
            one.severity.value,
            "accepted" if accepted else "acknowledged" if one.acknowledged else "open",
            one.group_by,
            one.slice,
            one.share.value if one.share else "",
            one.stage.stage.value if one.stage else "",
            one.sampling,
            str(one.snapshot),
            one.behind.value if one.behind else "",
            facts.window_says.value,
            facts.versions,
        )
        self.put(catalogue.INCIDENT_INFO, 1, *which, *about)
        for inherited in one.inherited:
            self.put(catalogue.INHERITED, 1, *which, inherited)
        for interval, shown in (
            (catalogue.INCIDENT_FIRST, one.first),
            (catalogue.INCIDENT_LATEST, one.latest),
        ):
            if shown is not None:
                self.add_interval(interval, label_text(catalogue.INCIDENT, which), shown)
        for known in facts.sides:
            side = (known.side, known.slice, known.bound)
            self.put(catalogue.INCIDENT_RATE, known.rate, *which, *side)
        self.put(catalogue.INCIDENT_RELATIVE, facts.relative, *which)
        if one.limit is not None:
            self.put(catalogue.INCIDENT_LIMIT, one.limit.value, *which, one.limit.kind.value)
        self.put(catalogue.INCIDENT_SUPPORT, facts.support, *which)
        self.put(catalogue.INCIDENT_WINDOW_END, _seconds(facts.window_end), *which)
        self.put(catalogue.INCIDENT_SINCE, _seconds(one.since), *which)
        self.put(catalogue.RESOLVABLE, _seconds(one.resolvable_at), *which)
        self.put(catalogue.ACCEPTED_UNTIL, _seconds(one.accepted_until), *which)
        self.put(catalogue.INCIDENT_CHANGE, _seconds(one.versions_changed_at), *which, "versions")
        self.put(catalogue.INCIDENT_CHANGE, _seconds(one.settings_changed_at), *which, "settings")

    def add_probe_set(self, one: ShownProbeSet) -> None:
        """The series of a set, all of synthetic requests: 10 + 60 for each variant at most."""
        name = one.name
        self.put(catalogue.PROBE_SET_INFO, 1, name, one.digest, "true")
        self.put(catalogue.PROBE_COVERED, one.covered / SECOND, name)
        self.put(catalogue.PROBE_CADENCE, one.every / SECOND, name)
        self.put(catalogue.PROBE_MAX_FLIP, one.max_flip_ratio, name)
        for direction in FlipDirection:
            self.put(catalogue.PROBE_PAGING, direction in one.pages, name, direction)
        for direction, crossed in sorted(one.pages.items()):
            self.put(catalogue.PROBE_PAGING_SINCE, crossed / SECOND, name, direction)
        self.put(catalogue.PROBE_PAIRS, one.compared, name)
        self.put(catalogue.PROBE_INCOMPLETE, one.incomplete, name)
        # All possible series exist from the beginning: ``increase`` needs a first sample, and what
        # is absent is unknown.
        since, now = _counts(one.flips), _counts(one.standing)
        for what in product(one.variants, FlipDirection, _FLIP_STAGES, Expected):
            self.put(catalogue.PROBE_FLIPS, since.get(what, 0), name, *what)
            self.put(catalogue.PROBE_FLIPPING, now.get(what, 0), name, *what)


def _counts(flips: Iterable[ShownFlips]) -> dict[tuple[str, str, str, str], int]:
    return {(one.variant, one.direction, one.stage, one.expected): one.count for one in flips}


def _seconds(micros: int | None) -> float | None:
    return None if micros is None else micros / SECOND


def _size(families: _Families) -> int:
    return sum(piece.series for pieces in families.values() for piece in pieces)


def _within(families: _Families, max_series: int) -> _Families:
    kept = families
    for tier in sorted({family.tier for family in families if family.tier}):
        if _size(kept) <= max_series:
            break
        kept = {family: some for family, some in kept.items() if family.tier != tier}
    return kept


def _counted(families: _Families, *, stems: bool = False) -> bytes:
    """The counters; OpenMetrics declares one by its stem."""
    written = []
    for family, pieces in families.items():
        declared = family.stem if stems else family.name
        written.append(head_text(declared, family.help, "counter").encode())
        written.extend(piece.text for piece in pieces)
    return b"".join(written)
