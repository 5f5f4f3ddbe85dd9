"""Rendering of a Snapshot as a page, once per publication and never on the scrape path.

All gauges (an info metric is written as a gauge that is 1) are the same bytes in text 0.0.4 and,
before the closing ``# EOF``, in OpenMetrics 1.0, without timestamps. The few counters come after
them, once for each format, because the formats name their families differently.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from alerts.exposition.catalogue import FAMILIES, PAGE, Family, MetricKind
from alerts.exposition.incident_facts import IncidentFacts
from alerts.exposition.pieces import GZIP_LEVEL, PagePart, Piece, Press, head_text
from alerts.exposition.row_samples import row_blocks
from alerts.exposition.samples import Blocks, Samples, label_text
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
    """Rendered slice page, kept in the forms that scrapes ask for.

    Attributes:
        texts: the gauges piece by piece, without an end marker; empty when nothing is shown.
        deflated: the gauges as open deflate blocks, which :func:`gzipped` continues.
        crc: CRC-32 of the texts.
        size: bytes of the texts.
        series: number of series.
        dropped: names of families that the budget left out.
        dropped_series: number of series of these families.
        counters: the counters in text 0.0.4.
        openmetrics_counters: the counters in OpenMetrics.
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
    def from_pieces(cls, pieces: Sequence[Piece], **attributes: Any) -> Page:
        """Return a page with these pieces as gauges, and with further fields of a page."""
        crc = size = 0
        for piece in pieces:
            crc, size = zlib.crc32(piece.text, crc), size + len(piece.text)
        deflated = b"".join([piece.deflated for piece in pieces])
        return cls(tuple(piece.text for piece in pieces), deflated, crc, size, **attributes)

    @property
    def plain(self) -> bytes:
        """Return the text of the gauges, joined on demand as most scrapes take them compressed."""
        return b"".join(self.texts)

    @property
    def text(self) -> bytes:
        """Return the whole page in Prometheus's text format 0.0.4."""
        return self.plain + self.counters


EMPTY = Page()
"""Page while the slice metrics are withheld."""


def gzipped(page: Page, tail: bytes) -> tuple[bytes, ...]:
    """Return page and tail as parts of one gzip member, which share the page's compressed form.

    Some clients read only the first member.
    """
    packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    last = packer.compress(tail) + packer.flush()
    size = (page.size + len(tail)) & 0xFFFFFFFF
    checks = struct.pack("<LL", zlib.crc32(tail, page.crc), size)
    return (_GZIP_HEAD, page.deflated, last, checks)


_Families = Mapping[Family, Sequence[Piece]]


MAX_SERIES = 50_000
"""Most series of the slice page: a scrape of more takes Prometheus seconds, and its memory."""


class Renderer:
    """Renderer of Snapshots to pages; it does not write unchanged rows again."""

    def __init__(self, max_series: int) -> None:
        self._max_series = max_series
        self._rows: Made[Blocks] = {}
        self._press = Press()

    def render(self, snapshot: Snapshot) -> Page:
        """Return a Snapshot's page, without the least important families beyond ``max_series``.

        Whole tiers of families are left out, the least needed first. States, contracts and probe
        sets always stay, even if they exceed the budget alone.
        """
        families = self._families(snapshot)
        shown_families = _within_budget(families, self._max_series)
        series = _size(shown_families)
        gauges = [
            piece
            for family, pieces in shown_families.items()
            if family.kind is not MetricKind.COUNTER
            for piece in (self._press.head(family), *pieces)
        ]
        counters = {f: shown_families[f] for f in shown_families if f.kind is MetricKind.COUNTER}
        return Page.from_pieces(
            gauges,
            series=series,
            dropped=tuple(family.name for family in families if family not in shown_families),
            dropped_series=_size(families) - series,
            counters=_counter_lines(counters),
            openmetrics_counters=_counter_lines(counters, stems=True),
        )

    def _families(self, snapshot: Snapshot) -> _Families:
        """Return the pieces of the families that have lines, in the order of the catalogue."""
        self._rows = each_row(snapshot, row_blocks, self._rows)
        pieces = self._press.pieces(_parts(snapshot, self._rows))
        return {family: pieces[family] for family in PAGE if family in pieces}


def _parts(snapshot: Snapshot, rows: Made[Blocks]) -> Iterator[PagePart]:
    """Yield the part of lines around the rows, then a part of rows per group-by and window."""
    yield "", [_lines_without_rows(snapshot)]
    parts: dict[Hashable, list[Blocks]] = {}
    for place, (_, blocks) in rows.items():
        parts.setdefault((place.contract, place.window, place.group_by), []).append(blocks)
    yield from parts.items()


def _lines_without_rows(snapshot: Snapshot) -> Blocks:
    """Return the lines of contracts, windows, incidents and probe sets, but not of rows."""
    samples = _SnapshotSamples()
    samples.add("watermark_timestamp_seconds", "", _seconds(snapshot.watermark))
    samples.add("label_frontier_timestamp_seconds", "", _seconds(snapshot.frontier))
    for table in snapshot.contracts:
        samples.add_contract(table)
    for probe_set in snapshot.probes:
        samples.add_probe_set(probe_set)
    return samples.blocks()


class _SnapshotSamples(Samples):
    """Samples of contracts, windows, incidents and probe sets."""

    def add_contract(self, table: ContractTable) -> None:
        """Add the samples of a contract: limits, faults of labels, incidents and windows."""
        name = table.contract
        identity = (table.version, table.owner, str(table.synthetic).lower(), str(table.k))
        self.put("contract_info", 1, name, *identity, table.primary)
        for limit_name, limits in (
            ("contract_max_gap_ratio", table.max_gaps),
            ("contract_min_relative_rate_ratio", table.min_ratios),
            ("contract_min_level_ratio", table.min_levels),
            ("contract_max_level_ratio", table.max_levels),
            ("contract_min_support", table.min_supports),
        ):
            self.put_by_metric(limit_name, limits, name)
        for limit in table.own_limits:
            labels = (limit.metric, limit.group_by, limit.slice, limit.kind)
            self.put("contract_own_limit_ratio", limit.value, name, *labels)
        self.put("contract_review_due_timestamp_seconds", _seconds(table.review_due), name)
        self.put("contract_max_age_seconds", _seconds(table.max_age), name)
        for request in table.requests_at_fault:
            stratum = (request.route.name.lower(), f"{request.audit_rate:g}", request.fault)
            at = _seconds(request.latest)
            self.put("label_request_faults", request.count, name, *stratum)
            self.put("label_request_fault_timestamp_seconds", at, name, *stratum)
        for fault in table.labels_at_fault:
            place = (fault.group_by, fault.slice, fault.route.name.lower(), fault.fault)
            at = _seconds(fault.since)
            self.put("labels_at_fault_since_timestamp_seconds", at, name, *place)
            self.put("labels_at_fault_ratio", fault.share, name, *place)
        for incident in table.incidents:
            self._add_incident(table, incident)
        for window in table.windows:
            self._add_window(name, window)

    def _add_window(self, contract: str, window: WindowTable) -> None:
        """Add the samples of a window: periods, losses and spreads of its groups."""
        name = window.window
        self._add_periods((contract, "", name), window)
        self.put("window_data_lost", window.data_lost, contract, name)
        self.put("window_excluded", window.excluded, contract, name)
        for group in window.groups:
            self._add_periods((contract, group.group_by, name), group)
            for spread in group.spreads:
                labels = (contract, spread.metric, group.group_by, name)
                self.put("group_spread_ratio", spread.difference, *labels)

    def _add_periods(self, labels: tuple[str, str, str], table: WindowTable | GroupTable) -> None:
        for kind, period in (("decisions", table.decisions), ("labelled", table.labelled)):
            if period is not None:
                self.put("window_start_timestamp_seconds", _seconds(period.start), *labels, kind)
                self.put("window_end_timestamp_seconds", _seconds(period.end), *labels, kind)

    def _add_incident(self, table: ContractTable, incident: ShownIncident) -> None:
        """Add the samples of an incident: if it pages, its facts, value, limit and times."""
        labels = (table.contract, incident.metric, str(incident.id))
        accepted = incident.accepted_until is not None
        facts = IncidentFacts.from_incident(table, incident)
        if incident.kind is IncidentKind.BREACH:
            self.put("page", not accepted, *labels, incident.severity)
        else:
            self.put("ticket", not accepted, *labels)
        state = "accepted" if accepted else "acknowledged" if incident.acknowledged else "open"
        info = (
            *(incident.kind, incident.severity, state, incident.group_by, incident.slice),
            *(incident.share or "", incident.stage.stage if incident.stage else ""),
            *(incident.sampling, str(incident.snapshot), incident.behind or ""),
            *(facts.window_says, facts.versions),
        )
        self.put("incident_info", 1, *labels, *info)
        if incident.latest is not None:
            text = label_text(FAMILIES["ticket"].labels, labels)
            self.add_interval("incident_latest", text, incident.latest)
        for side_rate in facts.sides:
            side = (side_rate.side, side_rate.slice, side_rate.bound)
            self.put("incident_rate_ratio", side_rate.rate, *labels, *side)
        self.put("incident_relative_rate_ratio", facts.relative, *labels)
        if incident.limit is not None:
            self.put("incident_limit_ratio", incident.limit.value, *labels, incident.limit.kind)
        self.put("incident_window_end_timestamp_seconds", _seconds(facts.window_end), *labels)
        self.put("incident_since_timestamp_seconds", _seconds(incident.since), *labels)
        versions_at, settings_at = incident.versions_changed_at, incident.settings_changed_at
        for what, changed_at in (("versions", versions_at), ("settings", settings_at)):
            self.put("incident_change_timestamp_seconds", _seconds(changed_at), *labels, what)

    def add_probe_set(self, probe_set: ShownProbeSet) -> None:
        """Add the samples of a probe set: at most 10 series, and 60 per variant."""
        name = probe_set.name
        self.put("probe_set_info", 1, name, probe_set.digest, "true")
        self.put("probe_covered_timestamp_seconds", probe_set.covered / SECOND, name)
        self.put("probe_cadence_seconds", probe_set.every / SECOND, name)
        self.put("probe_max_flip_ratio", probe_set.max_flip_ratio, name)
        for direction in FlipDirection:
            self.put("probe_page", direction in probe_set.pages, name, direction)
        for direction, crossed in sorted(probe_set.pages.items()):
            self.put("probe_page_since_timestamp_seconds", crossed / SECOND, name, direction)
        self.put("probe_pairs_total", probe_set.compared, name)
        self.put("probe_pairs_incomplete_total", probe_set.incomplete, name)
        # All possible series exist from the beginning: ``increase`` needs a first sample, and an
        # absent series means unknown.
        since, now = _counts(probe_set.flips), _counts(probe_set.standing)
        for flip_labels in product(probe_set.variants, FlipDirection, _FLIP_STAGES, Expected):
            self.put("probe_pair_flips_total", since.get(flip_labels, 0), name, *flip_labels)
            self.put("probe_pairs_flipping", now.get(flip_labels, 0), name, *flip_labels)


def _counts(flips: Iterable[ShownFlips]) -> dict[tuple[str, str, str, str], int]:
    return {(flip.variant, flip.direction, flip.stage, flip.expected): flip.count for flip in flips}


def _seconds(micros: int | None) -> float | None:
    return None if micros is None else micros / SECOND


def _size(families: _Families) -> int:
    return sum(piece.series for pieces in families.values() for piece in pieces)


def _within_budget(families: _Families, max_series: int) -> _Families:
    """Return the families that fit; whole tiers are left out until they do."""
    remaining = families
    for tier in sorted({family.tier for family in families if family.tier}):
        if _size(remaining) <= max_series:
            break
        remaining = {family: pieces for family, pieces in remaining.items() if family.tier != tier}
    return remaining


def _counter_lines(families: _Families, *, stems: bool = False) -> bytes:
    """Return the counters; OpenMetrics declares a counter by its stem."""
    written = []
    for family, pieces in families.items():
        declared = family.stem if stems else family.name
        written.append(head_text(declared, family.help, "counter").encode())
        written.extend(piece.text for piece in pieces)
    return b"".join(written)
