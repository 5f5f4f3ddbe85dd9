"""Page tests: the streams of all contracts, advanced cohort by cohort.

Streams with and without labels may be advanced apart (:data:`LABELLED`, :data:`ROUTES`), because
labels come days later. They share one budget: the expected number of false pages, over all streams
and from the start, is at most T / 90 in the T event days of whichever is ahead, under any
dependence. A page is false if its contract held in every bet since that stream's reset: over an
hour for levels and rates without labels, over at most a day for gaps of labelled rates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from monitor.core.contract import Contract
from monitor.core.counts.cells import Counts, Int64s
from monitor.core.counts.rollup import CellIndex, among, cells_within
from monitor.core.intervals import Floats
from monitor.core.metric import Metric
from monitor.core.rates.estimates import HIT_ROUTES
from monitor.detection import arrays
from monitor.detection.pages.budget import Budget
from monitor.detection.pages.cohort import Layout
from monitor.detection.pages.declared import DetectorSettings, all_streams
from monitor.detection.pages.evidence_history import EvidenceHistory
from monitor.detection.pages.group import GroupTests
from monitor.detection.pages.stream_group import StreamGroup
from monitor.detection.pages.streams import Stream
from monitor.detection.pages.watched import WatchedUseCase, Watching
from monitor.detection.pages.weekly_evidence import ebh

_BUDGET, _HISTORY = "budget", "history"


@dataclass(frozen=True, slots=True)
class Turn:
    """Metrics whose streams are advanced together, with or without labels.

    Attributes:
        metrics: metrics of the streams.
        prefix: prefix of the names of their parts of the state.
    """

    metrics: tuple[Metric, ...]
    prefix: str = ""


EVERY = Turn(tuple(Metric))
LABELLED = Turn(tuple(metric for metric in Metric if metric.labelled))
ROUTES = Turn(tuple(HIT_ROUTES), "~routes/")
"""No contract's name has a tilde, so no part is named like one of :data:`LABELLED`."""


@dataclass(frozen=True, slots=True)
class WeekEnd:
    """Evidence of streams in an ISO week that ended, from which the weekly list is made.

    Attributes:
        week: index of the week.
        streams: the streams: the rows.
        log_e: log e-values of the week, shape (J,).
        weights: shares of the error budget, shape (J,).
    """

    week: int
    streams: tuple[Stream, ...]
    log_e: Floats
    weights: Floats


@dataclass(frozen=True, slots=True)
class HourCohort:
    """Counts of one hour, as passed to :meth:`PageTests.advance`.

    Attributes:
        hour: pane index.
        counts: counts by cell id.
        cluster_size: largest number of decisions of its day that depend on each other; it may
            depend on the requests, never on routes or labels. None: as the settings say.
        other_week: an ended week of the streams of another turn, to be listed with these.
    """

    hour: int
    counts: Counts
    cluster_size: float | None = None
    other_week: WeekEnd | None = None


@dataclass(frozen=True, slots=True)
class PageAdvance:
    """Results of advancing the page tests by one hour's cohort.

    Attributes:
        crossed: streams that page now, each with the estimated days since its change.
        ended: the ISO week that ended before this cohort, or None.
        listed: the weekly list of that week, or None.
        use_cases: the cohort as each contract sees it, by name, for the advisory detectors.
    """

    crossed: Mapping[Stream, float]
    ended: WeekEnd | None = field(compare=False, repr=False)
    listed: tuple[Stream, ...] | None
    use_cases: Mapping[str, WatchedUseCase] = field(compare=False, repr=False)


@dataclass(slots=True)
class PageTests:
    """Sequential tests of all contracts, or those of one turn, with their history.

    Attributes:
        settings: contracts and coding.
        budget: weights of all streams ever declared.
        groups: tests of group-bys, by name of their part of the state.
        history: past evidence of all streams.
        rates: indices of the audit rates seen, by contract.
        turn: the turn of these streams.
    """

    settings: DetectorSettings
    budget: Budget
    groups: dict[str, GroupTests]
    history: EvidenceHistory
    rates: dict[str, tuple[int, ...]] = field(default_factory=dict)
    turn: Turn = EVERY

    @classmethod
    def start(
        cls,
        settings: DetectorSettings,
        parts: Mapping[str, bytes] | None = None,
        turn: Turn = EVERY,
    ) -> PageTests:
        """Return the tests that the settings declare, with their stored evidence.

        Args:
            settings: contracts and coding.
            parts: stored parts from :meth:`parts`; new streams begin without evidence, with a
                weight from the reserve. Parts of other turns are not read, except parts from the
                time when all streams had one turn.
            turn: the turn of the streams.

        Raises:
            ValueError: if the parts are damaged, or of another version.
        """
        stored = parts or {}
        stored_budget: dict[str, Any] = {"weights": {}, "additions": 0, "rates": {}}
        if _BUDGET in stored:
            stored_budget = arrays.decode(stored[_BUDGET])[1]
        history_part = stored.get(turn.prefix + _HISTORY)
        past = arrays.decode(history_part) if history_part else None
        budget = Budget(stored_budget["weights"], stored_budget["additions"])
        budget = budget.declare(all_streams(settings.contracts, settings.coding))
        groups = {
            f"{turn.prefix}{contract.name}/{group.name}": GroupTests.start(
                *(contract, group, settings.coding, budget, settings.cluster_size),
                metrics=turn.metrics,
            )
            for contract in settings.contracts
            for group in contract.group_bys
        }
        for name, group in groups.items():
            if body := stored.get(name):
                group.restore(*arrays.decode(body))
        rates = {name: tuple(indices) for name, indices in stored_budget["rates"].items()}
        watches = (watch for tests in groups.values() for watch in tests.watches.values())
        history = EvidenceHistory.start(
            [stream.key for watch in watches for stream in watch.streams]
        )
        if past is not None:
            history.restore(*past)
        return cls(settings, budget, groups, history, rates, turn)

    def advance(self, cohorts: Sequence[HourCohort], index: CellIndex) -> list[PageAdvance]:
        """Bet on the cohorts of successive hours; return one result per cohort.

        Args:
            cohorts: cohorts in order, later than all before.
            index: meaning of the cell ids; it must have every id.

        Raises:
            ValueError: if a stratum has an audit rate that the coding does not know.
        """
        hours, tables = [cohort.hour for cohort in cohorts], [cohort.counts for cohort in cohorts]
        use_cases_by_hour = {
            contract.name: self._watching(contract).see(
                hours, tables, index, self.rates.get(contract.name, ())
            )
            for contract in self.settings.contracts
        }
        return [
            self._advance(
                cohort, {name: hours[position] for name, hours in use_cases_by_hour.items()}
            )
            for position, cohort in enumerate(cohorts)
        ]

    def plan_ahead(self, day: int) -> bool:
        """Make one plan of a UTC day that will begin; return False if none is left."""
        return any(group.plan_ahead(day) for group in self.groups.values())

    @property
    def streams(self) -> list[Stream]:
        """Return all streams of this turn, in the order of the history."""
        return [stream for watch in self._watches for stream in watch.streams]

    @property
    def weights(self) -> Floats:
        """Return each stream's share of the error budget, in the order of ``streams``."""
        return self.budget.weights_of(self.streams)

    @property
    def names(self) -> set[str]:
        """Return the names of all parts that :meth:`parts` writes."""
        return {*self.groups, _BUDGET, self.turn.prefix + _HISTORY}

    def parts(self) -> dict[str, bytes]:
        """Encode the whole state as parts by name, to be stored with the newest consumed cohort."""
        bodies = {
            name: arrays.encode(group.to_arrays(), group.facts())
            for name, group in self.groups.items()
        }
        past = arrays.encode(self.history.to_arrays(), self.history.facts())
        return bodies | self.budget_part | {self.turn.prefix + _HISTORY: past}

    @property
    def budget_part(self) -> dict[str, bytes]:
        """Return the encoded budget and audit rates seen, by name; all turns share the budget."""
        budget = self.budget
        facts = {"weights": budget.weights, "additions": budget.additions, "rates": self.rates}
        return {_BUDGET: arrays.encode({}, facts)}

    def evidence(self) -> dict[Stream, int]:
        """Return the progress of every stream towards a page, as a step 0 to 4."""
        return dict(zip(self.streams, self._steps().tolist(), strict=True))

    def sampling(self, contract: Contract) -> list[tuple[float, ...]]:
        """Return per reviewed route its recent audit rates with at least k decisions each."""
        tests = self._group(contract, contract.group_bys[0].name)
        audit = tests.ready.layout.audit
        return [tuple(audit[row >= contract.k].tolist()) for row in tests.decided_by_rate]

    def _group(self, contract: Contract, group: str) -> GroupTests:
        return self.groups[f"{self.turn.prefix}{contract.name}/{group}"]

    @property
    def _watches(self) -> list[StreamGroup]:
        return [watch for group in self.groups.values() for watch in group.watches.values()]

    def _steps(self) -> Int64s:
        none = np.zeros(0, np.int64)
        return np.concatenate([none, *(watch.evidence() for watch in self._watches)])

    def _watching(self, contract: Contract) -> Watching:
        """Return which slices of a contract are tested now."""
        tests = {group.name: self._group(contract, group.name) for group in contract.group_bys}
        groups = {
            name: group_tests.slices for name, group_tests in tests.items() if not group_tests.idle
        }
        labels = any(metric.labelled for metric in self.turn.metrics)
        return Watching(contract, self.settings.coding, groups, labels)

    def _advance(self, cohort: HourCohort, use_cases: Mapping[str, WatchedUseCase]) -> PageAdvance:
        """Pass one hour to all contracts; return crossings, and the weekly list after its end."""
        size = max(self.settings.cluster_size, cohort.cluster_size or 1)
        crossed: dict[Stream, float] = {}
        for contract in self.settings.contracts:
            crossed |= self._contract(contract, cohort.hour, use_cases[contract.name], size)
        self.history.note(cohort.hour, self._steps())
        ended = self._week_end()
        listed = _weekly_list([week for week in (ended, cohort.other_week) if week is not None])
        return PageAdvance(crossed, ended, listed, use_cases)

    def _contract(
        self, contract: Contract, hour: int, use_case: WatchedUseCase, cluster_size: float
    ) -> dict[Stream, float]:
        """Pass an hour to all tests of a contract; return the log e of streams that crossed."""
        self.rates[contract.name] = use_case.rates
        layout = Layout.for_rates(use_case.rates, self.settings.coding)
        crossed: dict[Stream, float] = {}
        for group in contract.group_bys:
            tests, cohort = self._group(contract, group.name), use_case.cohorts.get(group.name)
            if cohort is None:
                tests.enter(hour, layout, cluster_size)
            else:
                crossed |= tests.advance(hour, cohort, layout, cluster_size)
        return crossed

    def _week_end(self) -> WeekEnd | None:
        """Return evidence of the streams whose week the last cohort ended; None without any."""
        ended = [(watch, watch.finished) for watch in self._watches if watch.finished is not None]
        if not ended:
            return None
        return WeekEnd(
            max(watch.ended or 0 for watch, _ in ended),
            tuple(stream for watch, _ in ended for stream in watch.streams),
            np.concatenate([log_e for _, log_e in ended]),
            np.concatenate([watch.weights for watch, _ in ended]),
        )


def _weekly_list(ended: Sequence[WeekEnd]) -> tuple[Stream, ...] | None:
    """Return the streams that weighted e-BH lists over all ended weeks; None without a week."""
    if not ended:
        return None
    log_e, weights = (
        np.concatenate(arrays_of_weeks)
        for arrays_of_weeks in ([week.log_e for week in ended], [week.weights for week in ended])
    )
    streams = [stream for week in ended for stream in week.streams]
    listed = ebh(log_e, np.log(weights))
    return tuple(streams[row] for row in np.flatnonzero(listed).tolist())


def scoped(contract: Contract, counts: Counts, index: CellIndex) -> Counts:
    """Return the counts of the cells that belong to the contract's use case."""
    return among(counts, cells_within(index, contract.where)) if contract.where else counts
