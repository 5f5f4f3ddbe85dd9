"""Labels of slices: whether they are requested as decisions say, and come as those of others do.

Both are judged where they go wrong, in each slice and route. A slice of 5 % of the traffic that
nobody labels any more disappears in the pool: 95 % of the labels still come. Two bets are made on
every hour of a slice and route, each against what is tolerated:

    requests    q ~ Binomial(N, pi) within 2 % of the stated rate, as for all slices together
    labels      P(missing | slice) - P(missing | the other slices) <= 0.05

Labels are counted when as much time has passed as they usually take: those that are missing then
are late or lost. The e-values of the hours go into Shiryaev-Roberts mixtures, so at most one false
alarm a year is expected of all slices together, under any dependence between them. A fault that
was found lasts until its latest labels are within what is tolerated.

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
from monitor.detection.pages.mixture import SrMixture
from monitor.detection.pages.projection import EXCESSES, PairCounts, PairLevel, gap_log_e

TOLERATED = 0.05
"""Points by which more labels of a slice may be missing than of the others: the bets of the pages
keep their bound with as many missing."""

_ROUTES = len(REVIEWED_ROUTES)
_USUAL_MISSING = 0.02
_MEMORY = 20.0
"""Labels requested after which older ones count half in what a fault's end is judged by: a queue
that is repaired shows after about eighty."""

_FEW = 10.0
"""Requested labels, of the latest ones, below which nothing is said of a fault's end."""

_REQUESTS_OFF = 0.1
"""Share by which the latest requests may differ from the stated rate at a fault's end."""


class SliceFault(NamedTuple):
    """A fault in the labels of a slice and route."""

    slice: str
    route: Route
    fault: Fault


class Episode(msgspec.Struct, array_like=True):
    """A time in which a fault lasted; changed in place.

    Attributes:
        hours: pane index of the hours in which it was found, increasing.
        shares: with each of them, the share of labels missing, or requested of those due.
        ended: the first hour in which it no longer lasted; None while it does.
    """

    hours: list[int]
    shares: list[float]
    ended: int | None = None


class FaultStatus(NamedTuple):
    """A fault that lasts.

    Attributes:
        since: pane index of the hour in which it was first found.
        share: of the labels due that are missing, or that are requested.
    """

    since: int
    share: float


@dataclass(frozen=True, slots=True)
class HourlyLabels:
    """Labels of every slice and route in H hours, arrays of shape (H, S, route).

    Attributes:
        decisions: by audit rate too, shape (H, S, route, rate).
        requests: labels requested by audit rate, at most the decisions; the same shape.
        requested: labels requested.
        received: of these the ones that have come.
    """

    decisions: Int64s
    requests: Int64s
    requested: Int64s
    received: Int64s

    @classmethod
    def from_counts(cls, counts: HourlySlices, slices: Sequence[str], rates: int) -> HourlyLabels:
        """Of one group-by; slices that the hours do not have get zeros.

        Args:
            counts: of the hours.
            slices: the rows wanted.
            rates: size of the grid of audit rates.
        """
        parts = decode_strata(counts.strata)
        columns = np.flatnonzero(is_reviewed(parts) & (parts.rate < rates))
        place = parts.route[columns] * rates + parts.rate[columns]
        sums = np.equal.outer(place, np.arange(_ROUTES * rates)).astype(np.int64)
        rows = arrays.positions(counts.slices, slices)
        known = np.flatnonzero(rows >= 0)
        values = counts.values[:, rows[known][:, None], columns]
        labels = values[..., [Counter.LABELLED, Counter.UNDECIDABLE]].sum(axis=-1)
        each = (values[..., Counter.N], values[..., Counter.Q], labels)
        table = np.zeros((3, len(counts.values), len(slices), _ROUTES * rates), np.int64)
        for mine, counted in zip(table, each, strict=True):
            mine[:, known] = counted @ sums
        by_rate = np.clip(table, 0, None).reshape(*table.shape[:-1], _ROUTES, rates)
        decisions, requests, received = by_rate
        came = np.minimum(received, requests).sum(axis=-1)
        return cls(decisions, np.minimum(requests, decisions), requests.sum(axis=-1), came)

    @property
    def missing(self) -> PairCounts:
        """Labels requested and missing of a slice, and of the others of its group-by.

        Columns of all hours, one after the other.
        """
        asked, lost = self.requested, self.requested - self.received
        every = (asked, lost, _others(asked), _others(lost))
        return PairCounts(*(one.ravel() for one in every))


def _others(labels: Int64s) -> Int64s:
    """Those of the other slices, by hour, slice and route."""
    others: Int64s = labels.sum(axis=1, keepdims=True) - labels
    return others


FORM = 1
"""Changes when what is kept cannot be read any more as it was."""

_EVEN_ODDS = np.full(ODDS, 1 / ODDS)
_EVEN_EXCESSES = np.full(len(EXCESSES), 1 / len(EXCESSES))


@dataclass(frozen=True, slots=True)
class _Bets:
    """Bets of one hour: the n rows that bet, and log e-values of shape (n, alternatives)."""

    rows: Int64s
    log_e: Floats

    @classmethod
    def from_mask(cls, some: Bools, log_e: Floats) -> _Bets:
        rows = np.flatnonzero(some)
        return cls(rows, log_e[rows])


@dataclass(slots=True)
class SliceLabels:
    """Evidence of faults in the labels of all slices of a group-by.

    Rows of the arrays are slices x routes, in this order: S x 2 = J.

    Attributes:
        slices: the rows: every slice with a value of all attributes.
        test: the bets on requests, by audit rate; its weights are not used.
        weight: of each row in each of the two tests, in (0, 1).
        cluster_size: largest number of decisions that hang together.
        requests: mixture of the bets on requests.
        missing: mixture of the bets on missing labels.
        level: usual share of missing labels, of a row and the others.
        lately: labels due, requested and received lately, and in the same hours requested and
            received of the other slices, shape (5, J).
        episodes: of each fault that was found, the latest last.
        consumed: the newest hour whose turn has come; None before the first.
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
        """Without evidence.

        Args:
            group: the group-by.
            coding: has its slices, and the grid of audit rates.
            share: of the error budget, in (0, 1], spread evenly over rows and tests.
            cluster_size: largest number of decisions that hang together.
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
        """Bet on some hours, and say which faults begin and end with each.

        Args:
            hours: pane indices, increasing, later than all before.
            counts: of this group-by in these hours.
        """
        seen = HourlyLabels.from_counts(counts, self.slices, len(self.test.rates))
        on_requests, on_missing = self._on_requests(seen), self._on_missing(seen)
        lately = self._lately(seen)
        for at, hour in enumerate(hours):
            self._bet(on_requests[at], on_missing[at])
            self.lately = lately[at]
            self._begin(hour)
            self._end(hour)
            self.consumed = hour

    def skip(self, hour: int) -> None:
        """Let the hours up to this one have their turn: they move nothing more.

        Their data are known to be bad, or they have moved what they could.
        """
        self.consumed = hour

    @property
    def until(self) -> int | None:
        """End of the newest hour whose turn has come (microseconds)."""
        return None if self.consumed is None else pane_start(self.consumed + 1, Grain.HOUR)

    def lasting(self, hour: int) -> dict[SliceFault, FaultStatus]:
        """The faults that lasted before an hour, by what was known then."""
        found = {}
        for fault, episodes in sorted(self.episodes.items()):
            for one in episodes:
                known = sum(at < hour for at in one.hours)
                if known and (one.ended is None or one.ended >= hour):
                    found[fault] = FaultStatus(one.hours[0], one.shares[known - 1])
        return found

    def _lately(self, seen: HourlyLabels) -> list[Floats]:
        """The latest labels after each of some hours."""
        due = seen.decisions @ self.test.rates
        asked, came = seen.requested, seen.received
        columns = np.stack([due, asked, came, _others(asked), _others(came)], axis=1)
        kept = np.exp2(-asked.reshape(len(asked), -1) / _MEMORY)
        lately, found = self.lately, []
        for keeps, hour in zip(kept, columns.reshape(len(asked), 5, -1), strict=True):
            lately = lately * keeps + hour
            found.append(lately)
        return found

    def _on_requests(self, seen: HourlyLabels) -> list[_Bets]:
        """Bets of each hour on what is requested."""
        asked, spared = self.test.log_ratios()
        log_e = seen.requests @ asked + (seen.decisions - seen.requests) @ spared
        some = seen.decisions.any(axis=-1).reshape(len(log_e), -1)
        return [
            _Bets.from_mask(*one)
            for one in zip(some, log_e.reshape(*some.shape, ODDS), strict=True)
        ]

    def _on_missing(self, seen: HourlyLabels) -> list[_Bets]:
        """Bets of each hour on what does not come, which then joins the usual share."""
        pairs, shape = seen.missing, (len(seen.requested), -1)
        levels = []
        for hour in pairs.split(len(seen.requested)):
            levels.append(self.level.rate)
            self.level = self.level.learned(hour)
        some = pairs.comparable
        log_e = np.zeros((len(some), len(EXCESSES)))
        log_e[some] = gap_log_e(pairs.selected(some), np.concatenate(levels)[some], TOLERATED)
        by_hour = some.reshape(shape), log_e.reshape(*shape, len(EXCESSES))
        return [_Bets.from_mask(*one) for one in zip(*by_hour, strict=True)]

    def _bet(self, on_requests: _Bets, on_missing: _Bets) -> None:
        """Bet on one hour."""
        each = (self.requests, on_requests, _EVEN_ODDS), (self.missing, on_missing, _EVEN_EXCESSES)
        for mixture, bets, weights in each:
            mixture.add_clock(HOUR / DAY)
            mixture.bet(bets.rows, bets.log_e, weights, self.cluster_size)

    def _begin(self, hour: int) -> None:
        """Note what has crossed; its evidence begins anew."""
        few, many = np.logaddexp.reduce(np.split(self.requests.log_r, 2, axis=1), axis=2)
        crossed = self._crossed(np.logaddexp(few, many))
        lost = self._crossed(self.missing.statistic())
        due, asked, came, *_ = self.lately
        for at in np.flatnonzero(crossed).tolist():
            fault = Fault.TOO_FEW if few[at] >= many[at] else Fault.TOO_MANY
            self._note(at, fault, hour, float(asked[at] / due[at]))
        for at in np.flatnonzero(lost).tolist():
            self._note(at, Fault.MISSING, hour, float(1 - came[at] / asked[at]))
        self.requests.reset(crossed)
        self.missing.reset(lost)

    def _crossed(self, statistic: Floats) -> Bools:
        crossed: Bools = np.greater_equal(statistic + log(self.weight), log(FALSE_ALARM_DAYS))
        return crossed

    def _note(self, row: int, fault: Fault, hour: int, share: float) -> None:
        one = SliceFault(self.slices[row // _ROUTES], REVIEWED_ROUTES[row % _ROUTES], fault)
        episodes = self.episodes.setdefault(one, [])
        if not episodes or episodes[-1].ended is not None:
            episodes.append(Episode([], []))
        episodes[-1].hours.append(hour)
        episodes[-1].shares.append(share)

    def _end(self, hour: int) -> None:
        """End the faults of rows whose latest labels are as they should be; let what is old go."""
        if not self.episodes:
            return
        fine = self._fine
        for fault, episodes in self.episodes.items():
            last, row = episodes[-1], self._row(fault)
            if last.ended is None and last.hours[-1] < hour and fine[fault.fault][row]:
                last.ended = hour
            _fold(last, hour - KEPT)
            episodes[:] = [one for one in episodes if one.ended is None or one.ended > hour - KEPT]
        self.episodes = {fault: episodes for fault, episodes in self.episodes.items() if episodes}

    @property
    def _fine(self) -> Mapping[Fault, Bools]:
        """Rows of which the latest labels show no such fault, by fault."""
        due, asked, came, others, others_came = self.lately
        off = divide(asked, due, empty=1) - 1
        gone = divide(others_came, others, empty=1) - divide(came, asked, empty=1)
        return {
            Fault.TOO_FEW: (off >= -_REQUESTS_OFF) & (due >= _FEW),
            Fault.TOO_MANY: (off <= _REQUESTS_OFF) & (due >= _FEW),
            Fault.MISSING: (gone <= TOLERATED) & (asked >= _FEW),
        }

    def _row(self, fault: SliceFault) -> int:
        return self.slices.index(fault.slice) * _ROUTES + REVIEWED_ROUTES.index(fault.route)

    def to_bytes(self) -> bytes:
        """All that is kept."""
        state = arrays.prefixed("requests", self.requests.to_arrays())
        state |= arrays.prefixed("missing", self.missing.to_arrays())
        state |= {"trials": self.level.trials, "hits": self.level.hits, "lately": self.lately}
        found = [
            [*fault, [msgspec.to_builtins(one) for one in episodes]]
            for fault, episodes in sorted(self.episodes.items())
        ]
        facts = {"form": FORM, "slices": self.slices, "consumed": self.consumed, "episodes": found}
        return arrays.encode(state, facts)

    def restored(self, body: bytes) -> Self:
        """The same with what was kept; slices that are new begin without evidence.

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
        known = rows >= 0
        fresh.level.trials[known] = state["trials"][rows[known]]
        fresh.level.hits[known] = state["hits"][rows[known]]
        fresh.lately[:, known] = state["lately"][:, rows[known]]
        found = dict(_episodes(row) for row in facts["episodes"])
        fresh.episodes = {one: many for one, many in found.items() if one.slice in self.slices}
        fresh.consumed = facts["consumed"]
        return fresh


def _fold(episode: Episode, oldest: int) -> None:
    """Forget findings between the first one and the last one before an hour."""
    old = sum(at < oldest for at in episode.hours)
    del episode.hours[1 : old - 1], episode.shares[1 : old - 1]


def _keys(slices: Sequence[str]) -> list[str]:
    return [f"{route}|{text}" for text in slices for route in REVIEWED_ROUTES]


def _episodes(row: Sequence[Any]) -> tuple[SliceFault, list[Episode]]:
    text, route, fault, episodes = row
    return SliceFault(text, Route(route), Fault(fault)), msgspec.convert(episodes, list[Episode])
