"""Label faults of slices: labels that are not requested as stated, or that do not come.

Both are judged in each slice and route, where they go wrong. If nobody labels a slice with 5 % of
the traffic any more, the pool hides it: 95 % of the labels still come. Two bets are made on every
hour of a slice and route, each against a tolerated null:

    requests    q ~ Binomial(N, pi) within 2 % of the stated rate, as for all slices together
    labels      P(missing | slice) - P(missing | the other slices) <= 0.05

Labels are counted after their usual delay: labels that are missing then are late or lost. The
e-values of the hours enter Shiryaev-Roberts mixtures, so at most one false alarm per year is
expected over all slices, under any dependence between them. A fault lasts until its latest labels
are within tolerance again.

Source: Turner and Gruenwald (2023), two samples; Shin, Ramdas and Rinaldo (2024), e-detectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np

from monitor.core.contract import GroupBy
from monitor.core.counts.cells import Counter, Int64s, Route, decode_strata
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import HourlySlices
from monitor.core.counts.strata import REVIEWED_ROUTES, is_reviewed
from monitor.core.intervals import Floats, divide
from monitor.core.publish.annotations import Fault
from monitor.core.rates.gaps import Bools
from monitor.core.time import DAY, HOUR, Grain, pane_start
from monitor.detection import arrays
from monitor.detection.advisory.label_requests import ALTERNATIVES as ODDS
from monitor.detection.advisory.label_requests import FALSE_ALARM_DAYS, RequestTest
from monitor.detection.advisory.mix_labels import named_slices
from monitor.detection.pages.evidence_history import KEPT
from monitor.detection.pages.mixture import RowBets, SrMixture
from monitor.detection.pages.projection import EXCESSES, PairCounts, PairLevel, gap_log_e

TOLERATED = 0.05
"""Excess of the share of missing labels over the other slices that is tolerated: the bets of the
pages keep their bound with as many missing."""

_ROUTES = len(REVIEWED_ROUTES)
_USUAL_MISSING = 0.02
_MEMORY = 20.0
"""Half-life, in requested labels, of the counts that decide the end of a fault: a repaired queue
shows after about eighty."""

_FEW = 10.0
"""Smallest number of recent requested labels that can end a fault."""

_REQUESTS_OFF = 0.1
"""Share by which recent requests may differ from the stated rate when a fault ends."""


class SliceFault(NamedTuple):
    """A slice and route whose labels are missing, or requested too rarely or too often."""

    slice: str
    route: Route
    fault: Fault


class Episode(msgspec.Struct, array_like=True):
    """Period during which one fault of the labels lasts, with its hourly findings; mutable.

    Attributes:
        hours: pane indices of the hours with a finding, increasing.
        shares: share of labels missing, or requested of those due, in each of these hours.
        ended: the first hour without the fault; None while it lasts.
    """

    hours: list[int]
    shares: list[float]
    ended: int | None = None


class FaultStatus(NamedTuple):
    """State of a lasting fault: hour of the first finding, and newest share of labels.

    Attributes:
        since: pane index of the hour with the first finding.
        share: share of the due labels that are missing, or requested.
    """

    since: int
    share: float


@dataclass(frozen=True, slots=True)
class HourlyLabels:
    """Label requests and receipts of every slice and route in H hours, (H, S, route).

    Attributes:
        decisions: decisions by audit rate too, shape (H, S, route, rate).
        requests: requested labels by audit rate, at most the decisions; the same shape.
        requested: requested labels.
        received: received labels among them.
    """

    decisions: Int64s
    requests: Int64s
    requested: Int64s
    received: Int64s

    @classmethod
    def from_counts(cls, counts: HourlySlices, slices: Sequence[str], rates: int) -> HourlyLabels:
        """Return a group-by's label counts by slice, route and rate; missing slices are 0.

        Args:
            counts: counts of the hours.
            slices: the rows.
            rates: size of the grid of audit rates.
        """
        parts = decode_strata(counts.strata)
        columns = np.flatnonzero(is_reviewed(parts) & (parts.rate < rates))
        positions = parts.route[columns] * rates + parts.rate[columns]
        sums = np.equal.outer(positions, np.arange(_ROUTES * rates)).astype(np.int64)
        rows = arrays.positions(counts.slices, slices)
        present = np.flatnonzero(rows >= 0)
        values = counts.values[:, rows[present][:, None], columns]
        labels = values[..., [Counter.LABELLED, Counter.UNDECIDABLE]].sum(axis=-1)
        counters = (values[..., Counter.N], values[..., Counter.Q], labels)
        table = np.zeros((3, len(counts.values), len(slices), _ROUTES * rates), np.int64)
        for columns_of_hours, counted in zip(table, counters, strict=True):
            columns_of_hours[:, present] = counted @ sums
        by_rate = np.clip(table, 0, None).reshape(*table.shape[:-1], _ROUTES, rates)
        decisions, requests, received = by_rate
        received_labels = np.minimum(received, requests).sum(axis=-1)
        return cls(
            decisions, np.minimum(requests, decisions), requests.sum(axis=-1), received_labels
        )

    @property
    def missing(self) -> PairCounts:
        """Return requested and missing labels of each slice (arm a) and of all others (arm b).

        The hours follow each other along the axis.
        """
        asked, lost = self.requested, self.requested - self.received
        columns = (asked, lost, _sums_of_others(asked), _sums_of_others(lost))
        return PairCounts(*(column.ravel() for column in columns))


def _sums_of_others(labels: Int64s) -> Int64s:
    """Return the sums over all slices but one, for each hour, slice and route."""
    rest: Int64s = labels.sum(axis=1, keepdims=True) - labels
    return rest


FORM = 1
"""Version of the stored form; it changes when older states cannot be read."""

_EVEN_ODDS = np.full(ODDS, 1 / ODDS)
_EVEN_EXCESSES = np.full(len(EXCESSES), 1 / len(EXCESSES))


@dataclass(slots=True)
class SliceLabels:
    """Detector of label faults in the slices of a group-by, bet on hour by hour.

    Rows of the arrays are slices x routes, in this order: S x 2 = J.

    Attributes:
        slices: every slice with a value of all attributes.
        test: the bets on requests, by audit rate; its weights are not used.
        weight: weight of each row in each of the two tests, in (0, 1).
        cluster_size: largest number of decisions that depend on each other.
        requests: mixture of the bets on requests.
        missing: mixture of the bets on missing labels.
        level: usual share of missing labels, over a row and the other slices.
        lately: recent labels due, requested and received, then requested and received of the other
            slices in the same hours, shape (5, J).
        episodes: episodes of each fault, the latest last.
        consumed: the newest consumed hour; None before the first.
    """

    slices: tuple[str, ...]
    test: RequestTest
    weight: float
    cluster_size: int
    requests: SrMixture
    missing: SrMixture
    level: PairLevel
    lately: Floats
    episodes: dict[SliceFault, list[Episode]] = field(default_factory=dict)
    consumed: int | None = None

    @classmethod
    def start(cls, group: GroupBy, coding: Coding, share: float, cluster_size: int) -> SliceLabels:
        """Return the detector of a group-by without evidence.

        Args:
            group: the group-by.
            coding: its slices, and the grid of audit rates.
            share: part of the error budget in (0, 1], spread evenly over rows and tests.
            cluster_size: largest number of decisions that depend on each other.
        """
        slices = named_slices(group, coding)
        rows = len(slices) * _ROUTES
        return cls(
            slices,
            RequestTest(np.asarray(coding.audit_rates, np.float64), np.empty(0)),
            share / (2 * rows),
            cluster_size,
            SrMixture.empty(rows, ODDS),
            SrMixture.empty(rows, len(EXCESSES)),
            PairLevel.start(rows, _USUAL_MISSING),
            np.zeros((5, rows)),
        )

    def advance(self, hours: Sequence[int], counts: HourlySlices) -> None:
        """Bet on successive hours; after each, record new faults and end repaired ones.

        Args:
            hours: pane indices, increasing, later than all before.
            counts: counts of this group-by in these hours.
        """
        labels = HourlyLabels.from_counts(counts, self.slices, len(self.test.rates))
        on_requests, on_missing = self._request_bets(labels), self._bet_on_missing(labels)
        lately = self._lately_by_hour(labels)
        for position, hour in enumerate(hours):
            self._bet(on_requests[position], on_missing[position])
            self.lately = lately[position]
            self._begin_faults(hour)
            self._end_faults(hour)
            self.consumed = hour

    def skip_to(self, hour: int) -> None:
        """Mark all hours up to this one as consumed, without betting on them.

        These hours have bad data, or have already moved the state.
        """
        self.consumed = hour

    @property
    def until(self) -> int | None:
        """Return the end of the newest consumed hour (microseconds); None before the first."""
        return None if self.consumed is None else pane_start(self.consumed + 1, Grain.HOUR)

    def lasting(self, hour: int) -> dict[SliceFault, FaultStatus]:
        """Return the faults that lasted just before an hour, with their status then."""
        lasting = {}
        for fault, episodes in sorted(self.episodes.items()):
            for episode in episodes:
                findings = sum(found_in < hour for found_in in episode.hours)
                if findings and (episode.ended is None or episode.ended >= hour):
                    lasting[fault] = FaultStatus(episode.hours[0], episode.shares[findings - 1])
        return lasting

    def _lately_by_hour(self, labels: HourlyLabels) -> list[Floats]:
        """Return the recent labels (``lately``) after each hour, shape (5, J) each."""
        due = labels.decisions @ self.test.rates
        asked, received = labels.requested, labels.received
        columns = np.stack(
            [due, asked, received, _sums_of_others(asked), _sums_of_others(received)], axis=1
        )
        decay = np.exp2(-asked.reshape(len(asked), -1) / _MEMORY)
        lately, after_hours = self.lately, []
        for decay_of_hour, hour in zip(decay, columns.reshape(len(asked), 5, -1), strict=True):
            lately = lately * decay_of_hour + hour
            after_hours.append(lately)
        return after_hours

    def _request_bets(self, labels: HourlyLabels) -> list[RowBets]:
        """Return the bets of each hour on the number of label requests."""
        asked, spared = self.test.log_ratios()
        log_e = labels.requests @ asked + (labels.decisions - labels.requests) @ spared
        betting = labels.decisions.any(axis=-1).reshape(len(log_e), -1)
        return [
            RowBets.from_mask(*bets)
            for bets in zip(betting, log_e.reshape(*betting.shape, ODDS), strict=True)
        ]

    def _bet_on_missing(self, labels: HourlyLabels) -> list[RowBets]:
        """Return each hour's bets on missing labels, and add the hours to ``level``."""
        pairs, shape = labels.missing, (len(labels.requested), -1)
        levels = []
        for hour in pairs.split(len(labels.requested)):
            levels.append(self.level.rate)
            self.level = self.level.learned(hour)
        betting = pairs.comparable
        log_e = np.zeros((len(betting), len(EXCESSES)))
        log_e[betting] = gap_log_e(
            pairs.selected(betting), np.concatenate(levels)[betting], TOLERATED
        )
        by_hour = betting.reshape(shape), log_e.reshape(*shape, len(EXCESSES))
        return [RowBets.from_mask(*bets) for bets in zip(*by_hour, strict=True)]

    def _bet(self, on_requests: RowBets, on_missing: RowBets) -> None:
        tests = (self.requests, on_requests, _EVEN_ODDS), (self.missing, on_missing, _EVEN_EXCESSES)
        for mixture, bets, weights in tests:
            mixture.add_clock(HOUR / DAY)
            mixture.bet(bets.rows, bets.log_e, weights, self.cluster_size)

    def _begin_faults(self, hour: int) -> None:
        """Record the faults whose evidence has crossed, and reset this evidence."""
        few, many = np.logaddexp.reduce(np.split(self.requests.log_r, 2, axis=1), axis=2)
        crossed = self._crossed(np.logaddexp(few, many))
        lost = self._crossed(self.missing.statistic())
        due, asked, received, *_ = self.lately
        for row in np.flatnonzero(crossed).tolist():
            fault = Fault.TOO_FEW if few[row] >= many[row] else Fault.TOO_MANY
            self._record(row, fault, hour, float(asked[row] / due[row]))
        for row in np.flatnonzero(lost).tolist():
            self._record(row, Fault.MISSING, hour, float(1 - received[row] / asked[row]))
        self.requests.reset(crossed)
        self.missing.reset(lost)

    def _crossed(self, statistic: Floats) -> Bools:
        """Return the mask of statistics beyond one false alarm in FALSE_ALARM_DAYS."""
        crossed: Bools = np.greater_equal(statistic + log(self.weight), log(FALSE_ALARM_DAYS))
        return crossed

    def _record(self, row: int, fault: Fault, hour: int, share: float) -> None:
        """Add an hour to the open episode of a fault, or begin an episode."""
        slice_fault = SliceFault(self.slices[row // _ROUTES], REVIEWED_ROUTES[row % _ROUTES], fault)
        episodes = self.episodes.setdefault(slice_fault, [])
        if not episodes or episodes[-1].ended is not None:
            episodes.append(Episode([], []))
        episodes[-1].hours.append(hour)
        episodes[-1].shares.append(share)

    def _end_faults(self, hour: int) -> None:
        """End faults whose recent labels are within tolerance; remove old episodes."""
        if not self.episodes:
            return
        fine = self._looks_repaired
        for fault, episodes in self.episodes.items():
            last, row = episodes[-1], self._row(fault)
            if last.ended is None and last.hours[-1] < hour and fine[fault.fault][row]:
                last.ended = hour
            _fold_episode(last, hour - KEPT)
            episodes[:] = [
                episode
                for episode in episodes
                if episode.ended is None or episode.ended > hour - KEPT
            ]
        self.episodes = {fault: episodes for fault, episodes in self.episodes.items() if episodes}

    @property
    def _looks_repaired(self) -> Mapping[Fault, Bools]:
        """Return, by kind of fault, True for rows whose recent labels do not show it."""
        due, asked, received, asked_elsewhere, came_elsewhere = self.lately
        off = divide(asked, due, empty=1) - 1
        excess_missing = divide(came_elsewhere, asked_elsewhere, empty=1) - divide(
            received, asked, empty=1
        )
        return {
            Fault.TOO_FEW: (off >= -_REQUESTS_OFF) & (due >= _FEW),
            Fault.TOO_MANY: (off <= _REQUESTS_OFF) & (due >= _FEW),
            Fault.MISSING: (excess_missing <= TOLERATED) & (asked >= _FEW),
        }

    def _row(self, fault: SliceFault) -> int:
        return self.slices.index(fault.slice) * _ROUTES + REVIEWED_ROUTES.index(fault.route)

    def to_bytes(self) -> bytes:
        """Encode the whole state as bytes, for :meth:`restored`."""
        state = arrays.prefixed("requests", self.requests.to_arrays())
        state |= arrays.prefixed("missing", self.missing.to_arrays())
        state |= {"trials": self.level.trials, "hits": self.level.hits, "lately": self.lately}
        rows = [
            [*fault, [msgspec.to_builtins(episode) for episode in episodes]]
            for fault, episodes in sorted(self.episodes.items())
        ]
        facts = {"form": FORM, "slices": self.slices, "consumed": self.consumed, "episodes": rows}
        return arrays.encode(state, facts)

    def restored(self, body: bytes) -> Self:
        """Return a copy with the stored state; slices not in it have no evidence.

        Raises:
            ValueError: if the bytes are damaged or of another form.
        """
        state, facts = arrays.decode(body)
        if facts.get("form") != FORM:
            raise ValueError("the evidence on labels of slices is of another form")
        then, now = _keys(facts["slices"]), _keys(self.slices)
        fresh = type(self)(
            self.slices,
            self.test,
            self.weight,
            self.cluster_size,
            SrMixture.from_arrays(arrays.part(state, "requests")).aligned(then, now),
            SrMixture.from_arrays(arrays.part(state, "missing")).aligned(then, now),
            PairLevel(self.level.trials.copy(), self.level.hits.copy()),
            self.lately.copy(),
        )
        rows = arrays.positions(then, now)
        present = rows >= 0
        fresh.level.trials[present] = state["trials"][rows[present]]
        fresh.level.hits[present] = state["hits"][rows[present]]
        fresh.lately[:, present] = state["lately"][:, rows[present]]
        stored = dict(_episodes(row) for row in facts["episodes"])
        fresh.episodes = {
            fault: episodes for fault, episodes in stored.items() if fault.slice in self.slices
        }
        fresh.consumed = facts["consumed"]
        return fresh


def _fold_episode(episode: Episode, oldest: int) -> None:
    """Remove the findings before hour ``oldest``, except the first and the last of them."""
    old_hours = sum(hour < oldest for hour in episode.hours)
    del episode.hours[1 : old_hours - 1], episode.shares[1 : old_hours - 1]


def _keys(slices: Sequence[str]) -> list[str]:
    return [f"{route}|{text}" for text in slices for route in REVIEWED_ROUTES]


def _episodes(row: Sequence[Any]) -> tuple[SliceFault, list[Episode]]:
    text, route, fault, episodes = row
    return SliceFault(text, Route(route), Fault(fault)), msgspec.convert(episodes, list[Episode])
