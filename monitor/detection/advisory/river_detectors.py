"""River's drift detectors of one labelled rate: fed evenly spaced, stopped and revived exactly.

River is imported when a detector is created, and then only the detector's own module.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from math import log
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.core.metric import Metric

if TYPE_CHECKING:
    from river.drift import ADWIN, PageHinkley

ADWIN_DELTA = 0.05
"""Significance of ADWIN: 3 to 8 false detections per million labels. River's default of .002 has
hardly any, but a drop of ten points then needs half as many labels again."""

CLOCK = 32
"""Labels between two comparisons of ADWIN's windows; it detects changes only then."""

DROP = 0.05
"""The change PageHinkley is tuned to, in rate units."""

FALSE_ALARM_LABELS = 1e5
"""Mean number of labels between two false detections of PageHinkley."""

EARLY_LABELS = 500
"""Labels that estimate the stream's own rate, which PageHinkley is tuned to. They are fed to it
afterwards; it detects nothing before as many labels, so the wait costs no delay."""

_MIN_WINDOW = 5
_GRACE = 10
_LEAST_RATE = 0.01
_SUMS = ("_sum_increase", "_sum_decrease", "_min_increase", "_max_decrease")

RECIPE = f"{ADWIN_DELTA} {CLOCK} {_MIN_WINDOW} {_GRACE} {DROP} {FALSE_ALARM_LABELS} {EARLY_LABELS}"
"""All the tuning; a saved state continues only under the same tuning."""


class Detector(enum.StrEnum):
    """Detector of river that watches a labelled rate."""

    ADWIN = "adwin"
    PAGE_HINKLEY = "page_hinkley"


class ChangeDirection(enum.StrEnum):
    """Direction in which a rate changed."""

    DOWN = "down"
    UP = "up"


Detection = tuple[Detector, ChangeDirection]


class CusumState(msgspec.Struct, array_like=True, frozen=True):
    """Stored state of a PageHinkley detector: tuning, number of labels, mean and sums."""

    delta: float
    threshold: float
    labels: float
    mean: float
    sums: tuple[float, ...]


class ChangeState(msgspec.Struct, array_like=True, frozen=True):
    """Stored state of one rate's detectors; see :meth:`ChangeDetectors.state`."""

    phase: int
    adwin: bytes
    early: bytes
    cusum: CusumState | None


class ChangeDetectors:
    """ADWIN and PageHinkley on one slice's stream of labels; each restarts when it fires.

    PageHinkley is tuned to the rate of the first :data:`EARLY_LABELS` labels since its restart.

    Attributes:
        metric: TPR or FPR; PageHinkley looks for a fall or a rise.
    """

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self._phase = 0
        self._adwin = _adwin()
        self._early = b""
        self._cusum: PageHinkley | None = None

    def feed(self, labels: bytes) -> list[Detection]:
        """Feed labels in order, one byte each (1: success); return detectors and directions."""
        return [(Detector.ADWIN, change) for change in self._feed_adwin(labels)] + [
            (Detector.PAGE_HINKLEY, self._worse) for _ in self._feed_cusum(labels)
        ]

    def state(self) -> ChangeState:
        """Return the state to continue from: equal labels then give equal detections.

        It holds ADWIN's own serialised window, not a pickle: reading one runs no code.
        """
        cusum = None if self._cusum is None else _save_cusum(self._cusum)
        return ChangeState(self._phase, self._adwin._helper.__getstate__(), self._early, cusum)

    @classmethod
    def revive(cls, metric: Metric, state: ChangeState) -> ChangeDetectors:
        """Return detectors with a state that the same river release wrote; others panic."""
        detectors = cls(metric)
        detectors._phase = state.phase
        detectors._adwin._helper.__setstate__(state.adwin)
        detectors._early = state.early
        if state.cusum is not None:
            detectors._cusum = _revive_cusum(metric, state.cusum)
        return detectors

    @property
    def _worse(self) -> ChangeDirection:
        return ChangeDirection.DOWN if self.metric is Metric.TPR else ChangeDirection.UP

    def _feed_adwin(self, labels: bytes) -> Iterator[ChangeDirection]:
        """Feed labels to ADWIN, which looks after every CLOCK labels; yield each change."""
        start = 0
        while start < len(labels):
            stop = start + CLOCK - self._phase
            change = self._feed_until_look(labels[start:stop])
            self._phase = (self._phase + len(labels[start:stop])) % CLOCK
            start = stop
            if change:
                yield change

    def _feed_until_look(self, labels: bytes) -> ChangeDirection | None:
        """Feed labels up to ADWIN's next comparison; return the change it detects, or None."""
        deque(map(self._adwin.update, labels[:-1]), maxlen=0)  # a loop in C
        before = self._adwin.estimation
        self._adwin.update(labels[-1])
        if not self._adwin.drift_detected:
            return None
        after = self._adwin.estimation
        self._adwin = _adwin()
        return ChangeDirection.UP if after > before else ChangeDirection.DOWN

    def _feed_cusum(self, labels: bytes) -> Iterator[None]:
        """Feed labels to CUSUM; yield once for each alarm, after which it is tuned anew."""
        waiting, self._early = self._early + labels, b""
        while waiting:
            if self._cusum is None and len(waiting) < EARLY_LABELS:
                self._early = waiting
                return
            self._cusum = self._cusum or _tuned(self.metric, waiting[:EARLY_LABELS])
            fired_at = _first_detection(self._cusum, waiting)
            if fired_at is None:
                return
            waiting, self._cusum = waiting[fired_at + 1 :], None
            yield


def spread(n: Int64s, k: Int64s) -> bytes:
    """Return the labels of all slices in turn as bytes, successes spread evenly in each slice.

    ``x_i = floor((i+1) k / n) - floor(i k / n)``: the order inside a cohort is unknown, and an
    artificial run of equal labels looks like drift (all successes first: a thousand times more
    false detections).

    Args:
        n: labels of each slice, shape (S,).
        k: successes among them.

    Returns:
        One byte per label, 1 for a success. The labels of slice i are the last ``n[i]`` of the
        first ``sum(n[:i+1])``.

    Example:
        >>> list(spread(np.array([4, 3]), np.array([2, 1])))
        [0, 1, 0, 1, 0, 0, 1]
    """
    i = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
    labels, successes = np.repeat(n, n), np.repeat(k, n)
    steps = (i + 1) * successes // labels - i * successes // labels
    return steps.astype(np.uint8).tobytes()


def page_hinkley_design(rate: float, metric: Metric, drop: float = DROP) -> tuple[float, float]:
    """Return PageHinkley's ``delta`` and ``threshold`` for a stream with a given rate.

    With alpha = 1 PageHinkley is Page's cusum of Bernoulli trials around an estimated mean. For a
    change from p0 to p1, ``s = ln[p0 (1-p1) / (p1 (1-p0))]`` and
    ``kappa = ln[(1-p1) / (1-p0)] / s``, its delta is ``|p0 - kappa|``; the threshold
    ``ln(1 + A KL(p1 || p0)) / |s|`` lets A labels pass between two false detections on average.

    Args:
        rate: p0; taken to be at least .01 away from 0 and 1.
        metric: TPR looks for a fall, FPR for a rise.
        drop: distance from p0 to p1, at most half of the distance to 0 or 1.

    Returns:
        delta and threshold, in rate units.

    Source: Page (1954), Biometrika 41.

    Example:
        >>> delta, threshold = page_hinkley_design(0.85, Metric.TPR)
        >>> f"{delta:.6f} {threshold:.3f}"
        '0.024055 19.545'
    """
    p0 = min(max(rate, _LEAST_RATE), 1 - _LEAST_RATE)
    p1 = max(p0 - drop, p0 / 2) if metric is Metric.TPR else min(p0 + drop, (1 + p0) / 2)
    lost = log((1 - p1) / (1 - p0))
    slope = lost - log(p1 / p0)
    divergence = p1 * log(p1 / p0) + (1 - p1) * lost
    return abs(p0 - lost / slope), log(1 + FALSE_ALARM_LABELS * divergence) / abs(slope)


@cache
def _module(name: str) -> ModuleType:
    """Return a module of ``river.drift``, loaded without importing its package.

    The package loads data sets, and with them pandas and scikit-learn: a second of CPU and 130 MB
    in every evaluating process.
    """
    import river  # noqa: PLC0415 - not before there is a detector

    file = Path(river.__file__).with_name("drift") / f"{name}.py"
    spec = spec_from_file_location(f"river.drift.{name}", file)
    assert spec is not None and spec.loader is not None, "a Python file has both"  # noqa: S101, PT018
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _adwin() -> ADWIN:
    detector: ADWIN = _module("adwin").ADWIN(
        delta=ADWIN_DELTA, clock=CLOCK, min_window_length=_MIN_WINDOW, grace_period=_GRACE
    )
    return detector


def _tuned(metric: Metric, early: bytes) -> PageHinkley:
    # Half a success more, so that an early rate is never exactly 0 or 1.
    rate = (sum(early) + 0.5) / (len(early) + 1)
    return _page_hinkley(metric, *page_hinkley_design(rate, metric))


def _page_hinkley(metric: Metric, delta: float, threshold: float) -> PageHinkley:
    # Any alpha below 1 makes the drift term saturate: false detections that no threshold stops.
    detector: PageHinkley = _module("page_hinkley").PageHinkley(
        min_instances=EARLY_LABELS,
        delta=delta,
        threshold=threshold,
        alpha=1.0,
        mode="down" if metric is Metric.TPR else "up",
    )
    return detector


def _first_detection(detector: PageHinkley, labels: bytes) -> int | None:
    """Feed labels; return the position of the first that is an alarm, or None."""
    for i, label in enumerate(labels):
        detector.update(label)
        if detector.drift_detected:
            return i
    return None


def _save_cusum(detector: PageHinkley) -> CusumState:
    mean = detector._x_mean
    sums = tuple(float(getattr(detector, name)) for name in _SUMS)
    return CusumState(detector.delta, detector.threshold, mean.n, mean.get(), sums)


def _revive_cusum(metric: Metric, state: CusumState) -> PageHinkley:
    """Return a CUSUM detector in a stored state."""
    detector = _page_hinkley(metric, state.delta, state.threshold)
    detector._x_mean.n, detector._x_mean._mean = state.labels, state.mean
    for name, value in zip(_SUMS, state.sums, strict=True):
        setattr(detector, name, value)
    return detector
