"""Snapshot to page: rendered once per publication, never on the scrape path.

All gauges (an info metric is written as a gauge that is 1) are the same bytes in text 0.0.4 and,
before the closing ``# EOF``, in OpenMetrics 1.0, without timestamps. The few counters come after
them, once for each format: their families are named differently.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from alerts.exposition import catalogue
from alerts.exposition.catalogue import Family, Interval, Kind
from alerts.exposition.incident_facts import IncidentFacts
from monitor.core.contract import Metric, State, Verdict, role_of
from monitor.core.probes.flips import Expected, FlipCause, FlipDirection, FlipStage
from monitor.core.publish.annotations import IncidentKind
from monitor.core.publish.snapshot import (
    ContractTable,
    GroupTable,
    PublishedValue,
    ShownFlips,
    ShownGap,
    ShownIncident,
    ShownProbeSet,
    ShownRate,
    SliceRow,
    Snapshot,
    WindowTable,
)
from monitor.core.time import SECOND, WEEK

_GZIP_LEVEL = 1  # a fifth of the time of level 6 for a page a tenth larger
_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"  # no name, no time, fastest, any system
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

_FLIP_STAGES: tuple[str, ...] = (FlipStage.EVIDENCE_GATE, *FlipCause)
"""Stages of a flip: the evidence gate, or one of the causes behind it."""

Samples = Mapping[Family, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Page:
    """A rendered slice page, kept in the forms that scrapes ask for.

    Attributes:
        plain: the gauges, without an end marker; empty when nothing is shown.
        deflated: the same as open deflate blocks, to be continued by :func:`gzipped`.
        crc: CRC-32 of ``plain``.
        series: number of series on it.
        dropped: names of families that the budget left out.
        dropped_series: number of series they had.
        counters: what follows the gauges, in text 0.0.4.
        openmetrics_counters: the same in OpenMetrics.
    """

    plain: bytes
    deflated: bytes
    crc: int
    series: int = 0
    dropped: tuple[str, ...] = ()
    dropped_series: int = 0
    counters: bytes = b""
    openmetrics_counters: bytes = b""

    @property
    def text(self) -> bytes:
        """The whole page in text 0.0.4."""
        return self.plain + self.counters


EMPTY = Page(b"", b"", 0)
"""The page while the slice metrics are withheld."""


def gzipped(page: Page, tail: bytes) -> bytes:
    """Page and tail as one gzip member, without compressing the page again.

    One member, not two: some clients read only the first.
    """
    packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    last = packer.compress(tail) + packer.flush()
    size = (len(page.plain) + len(tail)) & 0xFFFFFFFF
    checks = struct.pack("<LL", zlib.crc32(tail, page.crc), size)
    return b"".join((_GZIP_HEAD, page.deflated, last, checks))


class Renderer:
    """Renders Snapshots; label texts are kept from one rendering to the next."""

    def __init__(self, max_series: int) -> None:
        self._max_series = max_series
        self._texts: dict[tuple[tuple[str, ...], tuple[str, ...]], str] = {}

    def render(self, snapshot: Snapshot) -> Page:
        """The page of a Snapshot, within the series budget.

        Whole tiers of families are left out, the least needed first; states, contracts and probe
        sets never are, also when they alone exceed the budget.
        """
        samples = self._collect(snapshot)
        kept = _within(samples, self._max_series)
        series = _size(kept)
        counters = _counters(kept)
        # Gauge also for info, so that one body serves both formats.
        plain = _written({f: kept[f] for f in kept if f not in counters}, "gauge")
        dropped = tuple(family.name for family in samples if samples[family] and family not in kept)
        return Page(
            *(plain, _deflated(plain), zlib.crc32(plain)),
            *(series, dropped, _size(samples) - series),
            counters=_written(counters, "counter"),
            openmetrics_counters=_written(counters, "counter", stems=True),
        )

    def _collect(self, snapshot: Snapshot) -> Samples:
        # Texts of slices that have gone are dropped; rebuilding all costs one rendering.
        if len(self._texts) > 4 * max(self._max_series, 1_000):
            self._texts.clear()
        collected = _Collected(self._texts)
        collected.add(catalogue.WATERMARK, "", _seconds(snapshot.watermark))
        collected.add(catalogue.FRONTIER, "", _seconds(snapshot.frontier))
        for table in snapshot.contracts:
            collected.add_contract(table)
        for probe_set in snapshot.probes:
            collected.add_probe_set(probe_set)
        return collected.samples


class _Collected:
    """Samples of one rendering, by family and label text: unique by construction."""

    def __init__(self, texts: dict[tuple[tuple[str, ...], tuple[str, ...]], str]) -> None:
        self._texts = texts
        self.samples: dict[Family, dict[str, float]] = {family: {} for family in catalogue.PAGE}

    def add(self, family: Family, labels: str, value: float | None) -> None:
        """Keep a number; what is withheld, and anything that is no number, stays absent."""
        if value is not None and math.isfinite(value):
            self.samples[family][labels] = float(value)

    def labels(self, names: tuple[str, ...], *values: str) -> str:
        text = self._texts.get((names, values))
        if text is None:
            text = self._texts[names, values] = label_text(names, values)
        return text

    def put(self, family: Family, value: float | None, *labels: str) -> None:
        """Keep a number under the values of all labels of its family."""
        self.add(family, self.labels(family.labels, *labels), value)

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
            self._add_by_metric(family, limits, name)
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
            self._add_window(name, window, decides=window.window == table.window)

    def _add_by_metric(
        self, family: Family, values: Mapping[Metric, float], contract: str, *where: str
    ) -> None:
        # Sorted here and below: encoding a Snapshot forgets the order of its mappings.
        for metric, value in sorted(values.items()):
            self.put(family, value, contract, metric.value, *where)

    def _add_window(self, contract: str, window: WindowTable, decides: bool) -> None:
        name = window.window
        self._add_periods((contract, "", name), window)
        self.put(catalogue.DATA_LOST, window.data_lost, contract, name)
        self.put(catalogue.EXCLUDED, window.excluded, contract, name)
        self._add_row((contract, "", window.total.slice, name), window.total, decides)
        for group in window.groups:
            self._add_periods((contract, group.group_by, name), group)
            self.put(catalogue.LEFT_OUT, group.left_out, contract, group.group_by)
            for row in group.rows:
                self._add_row((contract, group.group_by, row.slice, name), row, decides)
            for spread in group.spreads:
                labels = (contract, spread.metric.value, group.group_by, name)
                self.put(catalogue.SPREAD, spread.difference, *labels)

    def _add_periods(self, where: tuple[str, str, str], table: WindowTable | GroupTable) -> None:
        for kind, period in (("decisions", table.decisions), ("labelled", table.labelled)):
            if period is not None:
                self.put(catalogue.WINDOW_START, _seconds(period.start), *where, kind)
                self.put(catalogue.WINDOW_END, _seconds(period.end), *where, kind)

    def _add_row(self, cell: tuple[str, str, str, str], row: SliceRow, decides: bool) -> None:
        contract, *where = cell
        self.put(catalogue.COMPLETENESS, row.completeness, *cell)
        if decides:
            for metric, state in sorted(row.states.items()):
                self._add_one_of(catalogue.STATE, (contract, metric.value, *where), state)
            self._add_findings(cell, row)
            self._add_diagnosis(cell, row)
        for metric, rate in sorted(row.rates.items()):
            self._add_rate(self.labels(catalogue.SLICE, contract, metric.value, *where), rate)
        for metric, gap in sorted(row.gaps.items()):
            labels = (contract, metric.value, *where, gap.reference)
            self._add_gap(self.labels(catalogue.COMPARISON, *labels), gap)
            if decides and gap.verdict is not None:
                self._add_one_of(catalogue.VERDICT, labels, gap.verdict)
        self._add_by_metric(catalogue.AS_LABELLED, row.as_labelled, contract, *where)
        for band in row.calibration:
            if band.rate is not None:
                text = self.labels(catalogue.BAND, *cell, band.band)
                self._add_interval(catalogue.CALIBRATION, text, band.rate)
                self.add(catalogue.CALIBRATION_SUPPORT, text, band.rate.support)

    def _add_findings(self, cell: tuple[str, str, str, str], row: SliceRow) -> None:
        contract, *where = cell
        since = {metric: at / SECOND for metric, at in row.breach_since.items()}
        self._add_by_metric(catalogue.BREACH_SINCE, since, contract, *where)
        self._add_by_metric(catalogue.EVIDENCE, row.evidence, contract, *where)
        self._add_by_metric(catalogue.DETECTABLE, row.detectable_gaps, contract, *where)
        needs = {metric: weeks * WEEK / SECOND for metric, weeks in row.label_needs.items()}
        self._add_by_metric(catalogue.LABEL_NEED, needs, contract, *where)
        for one in row.noted:
            metric = one.metric.value if one.metric else ""
            labels = (contract, metric, *where, one.annotation.value)
            self.put(catalogue.FINDINGS, one.count, *labels)
            self.put(catalogue.FOUND_AT, _seconds(one.latest), *labels)

    def _add_diagnosis(self, cell: tuple[str, str, str, str], row: SliceRow) -> None:
        contract, *where = cell
        for metric, shown in sorted(row.stages.items()):
            stage = (shown.stage.value, shown.share.value if shown.share else "")
            self.put(catalogue.STAGE, 1, contract, metric.value, *where, *stage)
        self.put(catalogue.VERSIONS_DIFFER, row.versions_differ, *cell)
        if (agreement := row.agreement) is not None:
            self.put(catalogue.AGREEMENT.value, agreement.kappa, *cell)
            self.put(catalogue.AGREEMENT.lower, agreement.lower, *cell)
            self.put(catalogue.AGREEMENT.upper, agreement.upper, *cell)
            self.put(catalogue.AGREEMENT_AT_LEAST, agreement.at_least, *cell)

    def _add_incident(self, table: ContractTable, one: ShownIncident) -> None:
        which = (table.contract, one.metric.value, str(one.id))
        accepted = one.accepted_until is not None
        facts = IncidentFacts.of(table, one)
        if one.kind is IncidentKind.PAGE:
            self.put(catalogue.PAGING, not accepted, *which, role_of(one.metric, table.primary))
        else:
            self.put(catalogue.TICKET, not accepted, *which)
        about = (
            one.kind.value,
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
                self._add_interval(interval, self.labels(catalogue.INCIDENT, *which), shown)
        for known in facts.sides:
            self.put(catalogue.INCIDENT_RATE, known.rate, *which, known.side, known.slice)
        self.put(catalogue.INCIDENT_RELATIVE, facts.relative, *which)
        for kind, limit in facts.own_limits.items():
            self.put(catalogue.INCIDENT_LIMIT, limit, *which, kind.value)
        self.put(catalogue.INCIDENT_SUPPORT, facts.support, *which)
        self.put(catalogue.INCIDENT_WINDOW_END, _seconds(facts.window_end), *which)
        self.put(catalogue.INCIDENT_SINCE, _seconds(one.since), *which)
        self.put(catalogue.RESOLVABLE, _seconds(one.resolvable_at), *which)
        self.put(catalogue.ACCEPTED_UNTIL, _seconds(one.accepted_until), *which)
        self.put(catalogue.INCIDENT_CHANGE, _seconds(one.versions_changed_at), *which, "versions")
        self.put(catalogue.INCIDENT_CHANGE, _seconds(one.settings_changed_at), *which, "settings")

    def _add_one_of(self, family: Family, labels: tuple[str, ...], value: State | Verdict) -> None:
        for possible in type(value):
            self.put(family, possible is value, *labels, possible.value)

    def _add_rate(self, labels: str, rate: ShownRate) -> None:
        self._add_interval(catalogue.RATE, labels, rate)
        self.add(catalogue.AT_LEAST, labels, rate.at_least)
        self.add(catalogue.AT_MOST, labels, rate.at_most)
        self.add(catalogue.SUPPORT, labels, rate.support)

    def _add_interval(
        self, interval: Interval, labels: str, shown: ShownRate | ShownGap | PublishedValue
    ) -> None:
        self.add(interval.value, labels, shown.value)
        self.add(interval.lower, labels, shown.lower)
        self.add(interval.upper, labels, shown.upper)

    def _add_gap(self, labels: str, gap: ShownGap) -> None:
        self._add_interval(catalogue.GAP, labels, gap)
        self.add(catalogue.RELATIVE.value, labels, gap.ratio)
        self.add(catalogue.RELATIVE.lower, labels, gap.ratio_lower)
        self.add(catalogue.RELATIVE.upper, labels, gap.ratio_upper)

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


def label_text(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    r"""Labels as written, escaped.

    Example:
        >>> label_text(("slice", "window"), ('a="b"', "7d"))
        '{slice="a=\\"b\\"",window="7d"}'
    """
    pairs = zip(names, values, strict=True)
    return "{" + ",".join(f'{n}="{v.translate(_ESCAPES)}"' for n, v in pairs) + "}"


def _seconds(micros: int | None) -> float | None:
    return None if micros is None else micros / SECOND


def _size(samples: Samples) -> int:
    return sum(map(len, samples.values()))


def _within(samples: Samples, max_series: int) -> Samples:
    kept = samples
    for tier in sorted({family.tier for family in samples if family.tier}):
        if _size(kept) <= max_series:
            break
        kept = {family: lines for family, lines in kept.items() if family.tier != tier}
    return kept


def _counters(samples: Samples) -> Samples:
    return {family: lines for family, lines in samples.items() if family.kind is Kind.COUNTER}


def _written(samples: Samples, kind: str, *, stems: bool = False) -> bytes:
    """Families of one type; OpenMetrics declares a counter by its stem."""
    return "".join(_lines(samples, kind, stems)).encode()


def _lines(samples: Samples, kind: str, stems: bool) -> Iterator[str]:
    for family, values in samples.items():
        if values:
            declared, name = family.stem if stems else family.name, family.name
            yield f"# HELP {declared} {family.help}\n# TYPE {declared} {kind}\n"
            yield "".join([f"{name}{labels} {value!r}\n" for labels, value in values.items()])


def _deflated(plain: bytes) -> bytes:
    packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    # A full flush ends on a byte and forgets history: anything may follow.
    return packer.compress(plain) + packer.flush(zlib.Z_FULL_FLUSH)
