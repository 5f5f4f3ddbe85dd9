"""The advisory layer against river itself, fed one label at a time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from math import floor
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest

from monitor.core.metric import Metric
from monitor.core.time import HOUR
from monitor.detection.advisory import river_advisory as advisory_module
from monitor.detection.advisory.river_advisory import Advisory, FindingCount, RiverAlarm
from monitor.detection.advisory.river_detectors import (
    EARLY_LABELS,
    ChangeDetectors,
    ChangeDirection,
    Detector,
    page_hinkley_design,
    spread,
)

if TYPE_CHECKING:  # two seconds, when tests are collected
    from river.drift import PageHinkley

Int64s = npt.NDArray[np.int64]
SLICES = ("channel=chat", "channel=email", "channel=phone")
WORSE = {Metric.TPR: ("down", ChangeDirection.DOWN), Metric.FPR: ("up", ChangeDirection.UP)}


def evenly(n: int, k: int) -> list[int]:
    return [floor((i + 1) * k / n) - floor(i * k / n) for i in range(n)]


def cohorts(
    rng: np.random.Generator, rates: Callable[[int], Sequence[float]], count: int, labels: int = 40
) -> Iterator[tuple[Int64s, Int64s]]:
    """(n, k) of all slices, cohort by cohort; ``rates(i)`` gives the rates of the i-th."""
    for i in range(count):
        n = rng.poisson(labels, len(SLICES)) * rng.integers(0, 2, len(SLICES))
        yield n, rng.binomial(n, rates(i))


def steps(i: int) -> Sequence[float]:
    return [(0.9, 0.7, 0.85), (0.6, 0.9, 0.85)][(i // 120) % 2]


class OneByOne:
    """What river says of one stream, every label its own update, flags looked at every time."""

    def __init__(self, metric: Metric) -> None:
        from river.drift import ADWIN, PageHinkley

        self.mode, self.worse = WORSE[metric]
        self.metric, self.PageHinkley = metric, PageHinkley
        self.adwin = ADWIN(delta=0.05, clock=32, min_window_length=5, grace_period=10)
        self.early: list[int] = []
        self.cusum: PageHinkley | None = None

    def feed(self, n: int, k: int) -> list[tuple[Detector, ChangeDirection]]:
        labels = evenly(n, k)
        return [found for x in labels for found in self.to_adwin(x)] + [
            found for x in labels for found in self.to_cusum(x)
        ]

    def to_adwin(self, x: int) -> Iterator[tuple[Detector, ChangeDirection]]:
        before = self.adwin.estimation
        self.adwin.update(x)
        if self.adwin.drift_detected:
            change = ChangeDirection.UP if self.adwin.estimation > before else ChangeDirection.DOWN
            yield Detector.ADWIN, change

    def to_cusum(self, x: int) -> Iterator[tuple[Detector, ChangeDirection]]:
        if self.cusum is not None:
            self.cusum.update(x)
        else:
            self.early.append(x)
            if len(self.early) < 500:
                return
            delta, threshold = page_hinkley_design((sum(self.early) + 0.5) / 501, self.metric)
            self.cusum = self.PageHinkley(
                min_instances=500, delta=delta, threshold=threshold, alpha=1.0, mode=self.mode
            )
            for early in self.early:
                self.cusum.update(early)
        if self.cusum.drift_detected:
            self.early, self.cusum = [], None
            yield Detector.PAGE_HINKLEY, self.worse


@pytest.mark.parametrize("metric", [Metric.TPR, Metric.FPR])
def test_cohorts_give_what_river_gives_fed_label_by_label(metric: Metric) -> None:
    advisory = Advisory()
    oracles = [OneByOne(metric) for _ in SLICES]
    seen: list[RiverAlarm] = []
    for i, (n, k) in enumerate(cohorts(np.random.default_rng(4), steps, 600)):
        expected = [
            RiverAlarm(text, metric, *found)
            for text, oracle, labels, successes in zip(SLICES, oracles, n, k, strict=True)
            for found in oracle.feed(int(labels), int(successes))
        ]
        assert advisory.advance(i * HOUR, metric, SLICES, n, k) == expected
        seen += expected
    assert {(d.detector, d.change) for d in seen} == {
        (Detector.ADWIN, ChangeDirection.UP),
        (Detector.ADWIN, ChangeDirection.DOWN),
        (Detector.PAGE_HINKLEY, WORSE[metric][1]),
    }
    assert {d.slice for d in seen} >= set(SLICES[:2])


def test_one_cohort_larger_than_every_wait_is_fed_whole() -> None:
    n, k = 20_000, 17_000
    detectors, oracle = ChangeDetectors(Metric.TPR), OneByOne(Metric.TPR)
    jump = bytes(evenly(n, k)) + bytes(evenly(n, n // 10))
    expected = [f for x in jump for f in oracle.to_adwin(x)]
    expected += [f for x in jump for f in oracle.to_cusum(x)]
    assert detectors.feed(jump) == expected
    assert (Detector.PAGE_HINKLEY, ChangeDirection.DOWN) in expected


def test_detections_are_counted_with_the_event_time_of_their_cohort() -> None:
    advisory = Advisory()
    log: list[tuple[RiverAlarm, int]] = []
    for i, (n, k) in enumerate(cohorts(np.random.default_rng(4), steps, 500)):
        log += [(d, i * HOUR) for d in advisory.advance(i * HOUR, Metric.TPR, SLICES, n, k)]
    assert log
    for detection in {d for d, _ in log}:
        times = [at for d, at in log if d == detection]
        assert advisory.tallies[detection] == FindingCount(len(times), times[-1])
    assert len(advisory.tallies) == len({d for d, _ in log})


def test_stopped_after_any_cohort_it_continues_as_if_it_had_not() -> None:
    steady, stopped = Advisory(), Advisory()
    found = 0
    for i, (n, k) in enumerate(cohorts(np.random.default_rng(7), steps, 400)):
        for metric in (Metric.TPR, Metric.FPR):
            expected = steady.advance(i * HOUR, metric, SLICES, n, k)
            assert stopped.advance(i * HOUR, metric, SLICES, n, k) == expected
            found += len(expected)
        stopped = Advisory.from_bytes(stopped.to_bytes())
        assert stopped.to_bytes() == steady.to_bytes()
        assert stopped.tallies == steady.tallies
        assert not stopped.renewed
    assert found > 10


@pytest.mark.full
def test_the_state_of_a_stream_is_small_after_a_million_labels() -> None:
    advisory = Advisory()
    rng = np.random.default_rng(1)
    names = [f"channel={i}" for i in range(20)]
    for i in range(50):
        n = np.full(len(names), 1000)
        advisory.advance(i * HOUR, Metric.TPR, names, n, rng.binomial(n, 0.85))
    assert len(advisory.to_bytes()) < 1000 * len(names)


@pytest.mark.parametrize("changed", ["river", "tuning"])
def test_under_another_river_or_tuning_all_begin_anew_and_keep_their_counts(
    monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    old = Advisory()
    for i, (n, k) in enumerate(cohorts(np.random.default_rng(4), steps, 300)):
        old.advance(i * HOUR, Metric.TPR, SLICES, n, k)
    body = old.to_bytes()
    if changed == "river":
        monkeypatch.setattr(advisory_module, "version", lambda _: "99.0")
    else:
        monkeypatch.setattr(advisory_module, "RECIPE", "another")
    renewed, fresh = Advisory.from_bytes(body), Advisory()
    assert renewed.renewed
    assert renewed.tallies == old.tallies != {}
    assert renewed.slices == {one.slice for one in old.tallies}, "known by their counts alone"
    for i, (n, k) in enumerate(cohorts(np.random.default_rng(5), steps, 300)):
        args = (i * HOUR, Metric.TPR, SLICES, n, k)
        assert renewed.advance(*args) == fresh.advance(*args)
    counts = {d: tally.count for d, tally in renewed.tallies.items()}
    assert counts == {
        d: sum(of.tallies[d].count for of in (old, fresh) if d in of.tallies)
        for d in old.tallies.keys() | fresh.tallies.keys()
    }
    assert not Advisory.from_bytes(renewed.to_bytes()).renewed


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-3], lambda b: b"", lambda b: b[:40] + b"?" + b[41:]]
)
def test_damaged_bytes_are_told_and_never_reach_river(damage: Callable[[bytes], bytes]) -> None:
    advisory = Advisory()
    advisory.advance(0, Metric.TPR, SLICES, np.array([900, 40, 1]), np.array([700, 30, 1]))
    with pytest.raises(ValueError, match="damaged"):
        Advisory.from_bytes(damage(advisory.to_bytes()))


def test_a_slice_that_is_no_longer_watched_leaves_nothing() -> None:
    advisory = Advisory()
    for i, (n, k) in enumerate(cohorts(np.random.default_rng(4), steps, 300)):
        advisory.advance(i * HOUR, Metric.TPR, SLICES, n, k)
    assert {d.slice for d in advisory.tallies} >= set(SLICES[:2])
    advisory.forget(SLICES[1:])
    assert {d.slice for d in advisory.tallies} == {SLICES[0]}
    alone = Advisory()
    for i, (n, k) in enumerate(cohorts(np.random.default_rng(4), steps, 300)):
        alone.advance(i * HOUR, Metric.TPR, SLICES[:1], n[:1], k[:1])
    assert advisory.to_bytes() == alone.to_bytes()


def test_a_slice_is_known_before_anything_is_found() -> None:
    advisory = Advisory()
    advisory.advance(0, Metric.TPR, SLICES, np.array([900, 40, 1]), np.array([700, 30, 1]))
    assert not advisory.tallies
    assert advisory.slices == set(SLICES)


def test_empty_cohorts_change_nothing() -> None:
    advisory, nothing = Advisory(), np.zeros(len(SLICES), np.int64)
    assert advisory.advance(HOUR, Metric.TPR, SLICES, nothing, nothing) == []
    assert advisory.to_bytes() == Advisory().to_bytes()
    assert advisory.advance(HOUR, Metric.TPR, (), nothing[:0], nothing[:0]) == []


def test_labels_are_spread_evenly_inside_each_slice() -> None:
    rng = np.random.default_rng(2)
    n = rng.integers(0, 60, 200)
    k = rng.integers(0, n + 1)
    expected = [x for m, s in zip(n, k, strict=True) for x in evenly(int(m), int(s))]
    assert list(spread(n, k)) == expected


def test_successes_first_would_make_adwin_see_changes_that_even_feeding_does_not() -> None:
    rng = np.random.default_rng(3)
    spread_out, in_order = ChangeDetectors(Metric.TPR), ChangeDetectors(Metric.TPR)
    false = [0, 0]
    for k in rng.binomial(100, 0.85, 300):
        false[0] += len(spread_out.feed(bytes(evenly(100, int(k)))))
        false[1] += len(in_order.feed(bytes([1] * int(k) + [0] * (100 - int(k)))))
    assert false[0] <= 1
    assert false[1] > 30


@pytest.mark.parametrize(
    ("rate", "drop", "delta", "threshold"),
    [
        (0.95, 0.10, 0.041934, 7.321),
        (0.85, 0.10, 0.046801, 12.778),
        (0.85, 0.05, 0.024055, 19.545),
        (0.70, 0.10, 0.048889, 17.479),
    ],
)
def test_page_hinkley_is_tuned_by_the_formula(
    rate: float, drop: float, delta: float, threshold: float
) -> None:
    found = page_hinkley_design(rate, Metric.TPR, drop)
    assert found[0] == pytest.approx(delta, abs=1e-6)
    assert found[1] == pytest.approx(threshold, abs=1e-3)
    # A rise of 1 - rate is the same change as a fall of the rate.
    assert page_hinkley_design(1 - rate, Metric.FPR, drop) == pytest.approx(found)


@pytest.mark.parametrize("metric", [Metric.TPR, Metric.FPR])
@pytest.mark.parametrize("rate", [0.0, 0.001, 0.02, 0.5, 0.98, 1.0])
def test_every_rate_has_a_tuning(metric: Metric, rate: float) -> None:
    delta, threshold = page_hinkley_design(rate, metric)
    assert 0 < delta < 0.05
    assert 0 < threshold < 40


@pytest.mark.parametrize("label", [0, 1])
def test_streams_without_any_variation_are_silent(label: int) -> None:
    for metric in (Metric.TPR, Metric.FPR):
        assert ChangeDetectors(metric).feed(bytes([label]) * (4 * EARLY_LABELS)) == []


def test_river_is_imported_only_when_labels_come() -> None:
    code = (
        "import sys; import numpy as np\n"
        "from monitor.detection.advisory.river_advisory import Advisory, Metric\n"
        "a = Advisory.from_bytes(Advisory().to_bytes())\n"
        "assert not any(name.split('.')[0] == 'river' for name in sys.modules)\n"
        "a.advance(0, Metric.TPR, ['s'], np.array([1]), np.array([1]))\n"
        "assert 'river' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_a_detector_loads_no_data_sets_and_none_of_what_they_need() -> None:
    """River's package of detectors would: a second of CPU, and memory, in every process."""
    tuned = f"ChangeDetectors(Metric.TPR).feed(bytes([1, 0]) * {EARLY_LABELS})"
    program = (
        "import sys; from monitor.core.contract import Metric;"
        "from monitor.detection.advisory.river_detectors import ChangeDetectors;"
        f"{tuned}; print(*{{'river.datasets', 'pandas', 'sklearn'}} & sys.modules.keys())"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == []
