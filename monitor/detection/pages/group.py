"""Group tests: the sequential tests of one group-by of a contract, advanced cohort by cohort.

The inputs of the bets are fixed once per UTC day of event time, from the days before. Gaps of
labelled rates are bet on in batches: when slice and reference both have a thousand decisions, or
when the day ends. Levels, and rates without labels, are bet on with every cohort. Where every
decision is labelled, labels are also compared directly, hour by hour. An arm whose labels are
missing, or are not requested as its decisions say, is not bet on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from monitor.core.contract import Contract, GroupBy
from monitor.core.counts.cells import Int64s
from monitor.core.counts.coding import Coding
from monitor.core.intervals import Floats
from monitor.core.metric import LIMITED, Metric
from monitor.core.rates.estimates import HIT_ROUTES
from monitor.core.rates.gaps import Bools
from monitor.core.time import Grain, pane_of, pane_start
from monitor.detection.arrays import Arrays, part, positions, prefixed
from monitor.detection.pages.budget import Budget
from monitor.detection.pages.cohort import Layout, SliceCohort
from monitor.detection.pages.declared import (
    Comparisons,
    comparisons,
    declared_slices,
    of_references,
)
from monitor.detection.pages.gap_bets import GapBets, GapPlan
from monitor.detection.pages.gap_tests import ALTERNATIVES, DIRECTIONS, HourlyGaps, add_hour
from monitor.detection.pages.label_responses import Requests, Responses
from monitor.detection.pages.levels import FRACTIONS, LevelBets, LevelPlan
from monitor.detection.pages.outcomes import Outcomes
from monitor.detection.pages.ready import ReadyRates
from monitor.detection.pages.stream_group import StreamGroup
from monitor.detection.pages.streams import Stream, StreamKind

BATCH = 1_000
"""Decisions that a slice and its reference both need before a bet on their gap within a day: the
step of the levels costs a part of every bet, so many small bets would cost more than they gain."""

LABELLED = tuple(metric for metric in Metric if metric in LIMITED and metric.labelled)


@dataclass(slots=True)
class _Gaps:
    """Gap or ratio streams of one metric, with their waiting hourly evidence."""

    watch: StreamGroup
    hourly: HourlyGaps


@dataclass(slots=True)
class _Plans:
    """Plans of one day's bets, by metric and then by limit, since slices may have their own.

    Attributes:
        outcomes: possible outcomes of the day's decisions.
        left_out: slices that no complement contains on this day, shape (S,): their labels were
            missing, or not requested as stated, in the days before. The mask is fixed for the day,
            because a bet on a gap sums up its decisions.
        gaps: plans of gaps.
        levels: plans of levels.
    """

    outcomes: Outcomes
    left_out: Bools
    gaps: dict[Metric, dict[float, GapPlan]] = field(default_factory=dict)
    levels: dict[Metric, dict[float, LevelPlan]] = field(default_factory=dict)


@dataclass(slots=True)
class _PlansAhead:
    """Plans of a day that has not begun, made step by step.

    Attributes:
        day: index of that UTC day.
        today: cohort of the day before when planning began; a later cohort makes the plans invalid.
        plans: the plans made so far.
        left: makes one more plan at each step.
    """

    day: int
    today: SliceCohort
    plans: _Plans
    left: Iterator[None]


@dataclass(slots=True)
class GroupTests:
    """Sequential tests of all streams of one group-by, advanced hour by hour.

    Attributes:
        group: slices and their reference.
        slices: every slice that a decision can be in.
        cluster_size: largest number of decisions that depend on each other, by the settings.
        gaps: gap streams by metric; absent where the contract sets no limit.
        ratios: ratio streams by metric, for rates without labels.
        levels: floors and ceilings by metric.
        ready: counts for P(ready), from the days before.
        day: index of the UTC day of the last cohort; None before the first.
        today: counts of the day so far, not yet learnt.
        binned: outcomes since the last bet of each slice, and of its reference, shape (2, S, J).
        divisor: divisor of log e on this day: the largest cluster size so far. It is one for the
            day, because no bet spans two days, and a cluster may be in a slice and in its
            reference.
        labels: whether any labelled metric is tested.
    """

    group: GroupBy
    slices: tuple[str, ...]
    cluster_size: int
    gaps: dict[Metric, _Gaps]
    ratios: dict[Metric, _Gaps]
    levels: dict[Metric, StreamGroup]
    ready: ReadyRates
    day: int | None = None
    today: SliceCohort | None = None
    binned: Floats = field(default_factory=lambda: np.zeros((2, 0, 0)))
    divisor: float = 1
    labels: bool = True
    _plans: _Plans | None = None
    _ahead: _PlansAhead | None = None

    @classmethod
    def start(
        cls,
        contract: Contract,
        group: GroupBy,
        coding: Coding,
        budget: Budget,
        cluster_size: int = 1,
        *,
        metrics: Collection[Metric] = tuple(Metric),
    ) -> GroupTests:
        """Return tests without evidence; ``budget`` must have weights for all their streams."""
        slices = declared_slices(group, coding)
        gaps: dict[Metric, _Gaps] = {}
        ratios: dict[Metric, _Gaps] = {}
        levels: dict[Metric, StreamGroup] = {}

        def watch(streams: Comparisons, alternatives: int) -> StreamGroup:
            weights = budget.weights_of(streams.streams)
            return StreamGroup.start(streams.streams, weights, alternatives)

        for metric in (metric for metric in (*LABELLED, *HIT_ROUTES) if metric in metrics):
            gap_streams = comparisons(contract, group, metric, StreamKind.GAP, coding)
            if gap_streams.streams:
                width = ALTERNATIVES * (2 if metric in LABELLED else 1)
                hourly = HourlyGaps.start(metric, gap_streams, slices)
                gaps[metric] = _Gaps(watch(gap_streams, width), hourly)
            ratio_streams = comparisons(contract, group, metric, StreamKind.RATIO, coding)
            if ratio_streams.streams:
                hourly = HourlyGaps.start(metric, ratio_streams, slices)
                ratios[metric] = _Gaps(watch(ratio_streams, ALTERNATIVES), hourly)
            level_streams = comparisons(contract, group, metric, StreamKind.LEVEL, coding)
            if level_streams.streams:
                levels[metric] = watch(level_streams, len(FRACTIONS))
        ready = ReadyRates.start(len(slices), Layout.for_rates((), coding))
        tests = cls(group, slices, cluster_size, gaps, ratios, levels, ready)
        tests.labels = any(metric.labelled for metric in metrics)
        return tests

    @property
    def watches(self) -> dict[str, StreamGroup]:
        """Return the stream groups by the name of their part of the state."""
        gaps = {name: gaps.watch for name, gaps in self._gaps_and_ratios.items()}
        return gaps | {f"level.{metric}": watch for metric, watch in self.levels.items()}

    @property
    def _gaps_and_ratios(self) -> dict[str, _Gaps]:
        """Return gap and ratio streams by the name of their part of the state."""
        gaps = {f"gap.{metric}": gaps for metric, gaps in self.gaps.items()}
        return gaps | {f"ratio.{metric}": ratios for metric, ratios in self.ratios.items()}

    @property
    def idle(self) -> bool:
        """Return True when cohorts change nothing: no streams, and no labels to learn from."""
        return not self.labels and not self.watches

    def enter(self, hour: int, layout: Layout, cluster_size: float = 1) -> None:
        """Begin an hour: end the last day if it is over, raise the divisor, advance all clocks."""
        self._enter_day(pane_of(pane_start(hour, Grain.HOUR), Grain.DAY), layout)
        self.divisor = max(self.divisor, self.cluster_size, cluster_size)
        for watch in self.watches.values():
            watch.enter(hour)

    def advance(
        self, hour: int, cohort: SliceCohort, layout: Layout, cluster_size: float = 1
    ) -> dict[Stream, float]:
        """Bet on one hour's cohort; reset the streams that cross, and return their changes' ages.

        Args:
            hour: pane index, later than all before.
            cohort: the cohort, with a row per slice.
            layout: its axes.
            cluster_size: largest number of decisions of its day that depend on each other; infinite
                forbids bets.

        Returns:
            For each stream that crosses, the estimated days since its rates changed.
        """
        self.enter(hour, layout, cluster_size)
        if self.labels:
            self._bet_levels(self._add_counts(cohort, layout))
        self._bet_hour(cohort, layout)
        if self.labels:
            self._bet_gaps(np.all(self._decisions_since_bet() >= BATCH, axis=0))
        crossed: dict[Stream, float] = {}
        for watch in self.watches.values():
            crossed |= watch.cross()
        return crossed

    # Beginning and end of a day.

    def _enter_day(self, day: int, layout: Layout) -> None:
        """End the day before, if it is over, plan the new one, and adopt the audit rates."""
        if self.day is not None and self.today is not None and day != self.day:
            self._plans_of_day()
            self._bet_gaps(np.all(self._decisions_since_bet() > 0, axis=0))
            self.binned[:] = 0  # the columns change, and one arm alone is no evidence of a gap
            self.ready.learn(self.today, days=day - self.day)
        if day != self.day:
            ahead = self._pop_plans_ahead(day, layout)
            self.day, self.today, self._plans, self.divisor = day, None, None, 1
            if ahead is not None:
                self._set_plans(ahead)
            for gaps in self._gaps_and_ratios.values():
                gaps.hourly.begin_day()
        if not self.labels:
            return
        if layout.rates != self.ready.layout.rates:
            if self.today is not None:
                self.today = self.today.moved(self.ready.layout, layout)
            self.ready = self.ready.moved(np.arange(len(self.slices)), layout)
        self._plans_of_day()

    def _plans_of_day(self) -> _Plans:
        """Return the day's plans; if there are none, make and store them."""
        return self._set_plans(self._plan()) if self._plans is None else self._plans

    def _set_plans(self, plans: _Plans) -> _Plans:
        """Set a day's plans, and empty the hour's counts if the outcomes have other columns."""
        self._plans = plans
        shape = (2, len(self.slices), plans.outcomes.columns)
        if self.binned.shape != shape:
            self.binned = np.zeros(shape)
        return plans

    def _plan(self) -> _Plans:
        plans = _without_plans(self.ready)
        for _ in self._add_plans(plans):
            pass
        return plans

    def _add_plans(self, plans: _Plans) -> Iterator[None]:
        """Add one plan to ``plans`` before each yield, until all metrics and limits have one."""
        for metric in LABELLED:
            if metric in self.gaps:
                hourly, by_limit = self.gaps[metric].hourly, dict[float, GapPlan]()
                plans.gaps[metric] = by_limit
                for limit in np.unique(hourly.limit).tolist():
                    bets = GapBets(metric, limit)
                    by_limit[limit] = bets.plan(plans.outcomes, hourly.reference)
                    yield
            if metric in self.levels:
                levels = plans.levels[metric] = dict[float, LevelPlan]()
                for limit in np.unique(_limits(self.levels[metric])).tolist():
                    levels[limit] = LevelBets(metric, limit).plan(plans.outcomes)
                    yield

    def plan_ahead(self, day: int) -> bool:
        """Make one plan for a later day; return False if none is left to make.

        All plans take as long as the rest of an hour, and their inputs are known once the day
        before is consumed: so nothing waits for them when the day begins.
        """
        if not self.labels or self.day is None or self.today is None or day <= self.day:
            return False
        ahead = self._ahead
        if ahead is None or ahead.day != day or ahead.today is not self.today:
            ready = replace(self.ready)
            ready.learn(self.today, days=day - self.day)
            plans = _without_plans(ready)
            ahead = self._ahead = _PlansAhead(day, self.today, plans, self._add_plans(plans))
        return next(ahead.left, True) is None

    def _pop_plans_ahead(self, day: int, layout: Layout) -> _Plans | None:
        """Remove the plans made ahead; return them completed, or None if inputs changed."""
        ahead, self._ahead = self._ahead, None
        if ahead is None or ahead.day != day or ahead.today is not self.today:
            return None
        if layout.rates != self.ready.layout.rates:
            return None
        for _ in ahead.left:
            pass
        return ahead.plans

    # Evidence.

    def _add_counts(self, cohort: SliceCohort, layout: Layout) -> Floats:
        """Add a cohort to ``binned`` and ``today``; return its outcome counts, shape (S, J)."""
        plans = self._plans_of_day()
        outcomes = plans.outcomes.bin_counts(cohort, layout)
        reference = next((gaps.hourly.reference for gaps in self.gaps.values()), None)
        references = of_references(outcomes, reference, plans.left_out)
        self.binned = self.binned + np.stack([outcomes, references])
        self.today = cohort if self.today is None else self.today + cohort
        return outcomes

    def _decisions_since_bet(self) -> Floats:
        """Return decisions since the last bet, of each slice and its reference, shape (2, S)."""
        decided: Floats = self.binned.sum(axis=2)
        return decided

    @property
    def decided_by_rate(self) -> Floats:
        """Return recent decisions by route and audit rate, shape (2, rates), with today's."""
        today = 0 if self.today is None else self.today.decisions
        decided: Floats = (self.ready.decisions + today).sum(axis=(0, 3))
        return decided

    @property
    def _responses(self) -> Responses:
        """Return recently requested and received labels by slice and route, with today's."""
        past, today = self.ready, self.today
        if today is None:
            return Responses(past.requested, past.received)
        return Responses(past.requested + today.requested, past.received + today.received)

    @property
    def _requests(self) -> Requests:
        """Return recent label requests, with today's, and the number ``audit_p`` predicts."""
        past, today = self.ready, self.today
        decisions, labelled, asked = past.decisions, past.labelled, past.requested
        if today is not None:
            decisions, labelled = decisions + today.decisions, labelled + today.labelled
            asked = asked + today.requested
        return _label_requests(decisions, labelled, asked, past.layout)

    def _bet_levels(self, counts: Floats) -> None:
        """Bet one hour's counts against each limit of a level; slices without labels sit out."""
        if not self.levels:
            return
        enough = self._responses.enough & self._requests.as_stated
        for metric, watch in self.levels.items():
            rows = positions(self.slices, [stream.slice for stream in watch.streams])
            log_e = np.zeros((len(rows), len(FRACTIONS)))
            for limit, plan in self._plans_of_day().levels[metric].items():
                at_limit = np.flatnonzero(_limits(watch) == limit)
                log_e[at_limit] = plan.log_e(counts)[rows[at_limit]]
            betting = np.flatnonzero(counts[rows].any(axis=1) & enough[rows])
            watch.bet(betting, log_e[betting], self.divisor)

    def _bet_hour(self, cohort: SliceCohort, layout: Layout) -> None:
        """Compare all arms in one hour: bet on routes at once, let labelled evidence wait."""
        compared_gaps = self._gaps_and_ratios.values()
        tested = [
            gaps for gaps in compared_gaps if not gaps.hourly.metric.labelled or _labels_all(layout)
        ]
        left_out = self._plans_of_day().left_out if self.labels else None
        hour = [(gaps.hourly, cohort) for gaps in tested]
        compared_pairs = add_hour(hour, self.divisor, left_out)
        for gaps, compared in zip(tested, compared_pairs, strict=True):
            if gaps.hourly.metric in HIT_ROUTES:
                pairs = np.flatnonzero(compared)
                log_e = gaps.hourly.take(pairs).reshape(-1, ALTERNATIVES)
                gaps.watch.bet(_stream_rows(pairs), log_e)

    def _bet_gaps(self, due: Bools) -> None:
        """Bet on labelled gaps of the slices in the mask ``due`` (S,), and clear their counts.

        Both tests bet if everything is labelled, else the augmented bets alone. Bets on labels
        alone mistake missing labels for slower service, and never find a gap under sampled labels
        sooner.
        """
        if not due.any():
            return
        responses, requests = self._responses, self._requests
        plans, left_out = self._plans_of_day().gaps, self._plans_of_day().left_out
        used_alternatives = np.repeat([True, _labels_all(self.ready.layout)], ALTERNATIVES)
        for metric in plans:
            gaps = self.gaps[metric]
            reference_responses = responses.references(gaps.hourly.reference, left_out)
            reference_requests = requests.references(gaps.hourly.reference, left_out)
            may_bet = (
                responses.enough
                & reference_responses.enough
                & requests.as_stated
                & reference_requests.as_stated
            )
            pairs = np.flatnonzero((due & may_bet)[gaps.hourly.rows])
            if not len(pairs):  # only the reference is due; it has no gap of its own
                continue
            rows = gaps.hourly.rows[pairs]
            by_pair = np.zeros((len(pairs), DIRECTIONS, ALTERNATIVES))
            for limit, plan in plans[metric].items():
                at_limit = np.flatnonzero(gaps.hourly.limit[pairs] == limit)
                if not len(at_limit):  # no betting pair has this limit
                    continue
                bet = plan.log_e(
                    rows[at_limit], self.binned[0, rows[at_limit]], self.binned[1, rows[at_limit]]
                )
                by_pair[at_limit] = bet.transpose(1, 0, 2) / self.divisor
            by_labels = gaps.hourly.take(pairs)
            by_labels[~(responses.whole & reference_responses.whole)[rows]] = 0
            log_e = np.concatenate([by_pair, by_labels], axis=2)
            streams = _stream_rows(pairs)
            gaps.watch.bet(streams, log_e.reshape(len(streams), -1), used=used_alternatives)
        self.binned[:, due] = 0

    # State to store.

    def to_arrays(self) -> Arrays:
        """Return the whole state as arrays, without the names that :meth:`facts` returns."""
        arrays = prefixed("ready", self.ready.to_arrays())
        for name, watch in self.watches.items():
            arrays |= watch.to_arrays(name)
        for name, gaps in self._gaps_and_ratios.items():
            arrays |= gaps.hourly.to_arrays(_hourly_name(name))
        arrays["binned"] = self.binned.astype(np.int64)
        if self.today is not None:
            arrays |= prefixed("today", self.today.to_arrays())
        return arrays

    def facts(self) -> dict[str, Any]:
        """Return slices, stream keys (row names of :meth:`to_arrays`), day and divisor."""
        streams = {
            name: [stream.key for stream in watch.streams] for name, watch in self.watches.items()
        }
        day_facts = {"day": self.day, "divisor": self.divisor}
        return {"slices": self.slices, "streams": streams, **day_facts}

    def restore(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        """Load stored state; slices and streams not in it begin without evidence."""
        self._restore_ready(arrays, facts)
        for name, watch in self.watches.items():
            watch.restore(name, arrays, facts["streams"].get(name, ()))
        for name, gaps in self._gaps_and_ratios.items():
            keys = facts["streams"].get(name, ())[::DIRECTIONS]
            rows = positions(keys, [stream.key for stream in gaps.watch.streams[::DIRECTIONS]])
            known_rows = np.flatnonzero(rows >= 0)
            gaps.hourly.restore(_hourly_name(name), arrays, (known_rows, rows[known_rows]))

    def _restore_ready(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        """Restore the rates learned, and today's counts if slices and gaps are the same."""
        if not self.labels:
            self.day, self.divisor = facts["day"], max(self.cluster_size, facts["divisor"])
            return
        ready = ReadyRates.from_arrays(part(arrays, "ready"))
        if ready.layout.bands != self.ready.layout.bands:
            return
        self.day = facts["day"]
        self.divisor = max(self.cluster_size, facts["divisor"])
        if tuple(facts["slices"]) == self.slices:
            self.ready = ready
            if self._has_same_gaps(facts["streams"]):
                self.binned = arrays["binned"].astype(np.float64)
            if "today.decisions" in arrays:
                self.today = SliceCohort.from_arrays(part(arrays, "today"))
            return
        self.ready = ready.moved(positions(facts["slices"], self.slices), ready.layout)

    def _has_same_gaps(self, streams: Mapping[str, Sequence[str]]) -> bool:
        """Return True when stored gap streams equal the present ones, so counts still apply.

        Other gaps may have another reference.
        """
        now = self.facts()["streams"]
        return all(
            streams.get(name) == keys for name, keys in now.items() if name.startswith("gap.")
        )


def _without_plans(ready: ReadyRates) -> _Plans:
    """Return a day's outcomes and left-out slices, from the days before; plans are added later."""
    requests = _label_requests(ready.decisions, ready.labelled, ready.requested, ready.layout)
    labelled = Responses(ready.requested, ready.received).enough & requests.as_stated
    return _Plans(Outcomes.from_forecast(ready.forecast()), ~labelled)


def _label_requests(
    decisions: Floats, labelled: Floats, requested: Floats, layout: Layout
) -> Requests:
    """Return the labels requested of each slice by route, at least those received, and expected."""
    expected = decisions.sum(axis=3) @ layout.audit
    return Requests(np.maximum(requested, labelled.sum(axis=(2, 3))), expected)


def _hourly_name(name: str) -> str:
    """Return the name of a gap's or ratio's hourly state: ``hourly.tpr`` for ``gap.tpr``."""
    return f"hourly.{name.removeprefix('gap.')}"


def _labels_all(layout: Layout) -> bool:
    """Return True when every audit rate of the layout is 1."""
    return bool(np.all(layout.audit == 1))


def _limits(watch: StreamGroup) -> Floats:
    """Return the limit of each stream in the group, shape (J,)."""
    return np.array([float(stream.limit) for stream in watch.streams])


def _stream_rows(pairs: Int64s) -> Int64s:
    """Return the stream rows of pairs, both directions of each, from the pairs' numbers."""
    streams: Int64s = (DIRECTIONS * pairs[:, None] + np.arange(DIRECTIONS)).ravel()
    return streams
