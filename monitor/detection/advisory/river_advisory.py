"""The advisory layer: river's drift detectors on the labelled rates of every slice.

Two detectors watch each slice x metric: ADWIN, which finds changes of either direction, and
PageHinkley, which looks for the worse one (a falling TPR, a rising FPR). They say that a rate has
changed, not that a contract is broken, and a shift of the request mix sets them off as a change
inside the mix does. So they annotate and count; nothing is ever sent because of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import msgspec
import numpy as np

from monitor.core.contract import Metric
from monitor.core.counts.cells import Int64s
from monitor.detection.advisory.river_detectors import (
    RECIPE,
    ChangeDetectors,
    ChangeDirection,
    ChangeState,
    Detector,
    spread,
)


@dataclass(frozen=True, slots=True, order=True)
class RiverAlarm:
    """A change of one slice x metric that one detector found.

    Attributes:
        slice: slice text.
        metric: TPR or FPR.
        detector: which one.
        change: where the rate went.
    """

    slice: str
    metric: Metric
    detector: Detector
    change: ChangeDirection


class FindingCount(msgspec.Struct, array_like=True, frozen=True):
    """Count of a finding, and the time of the newest one.

    Attributes:
        count: since the slice was first fed; a restarted detector does not lower it.
        last: event time (microseconds) of the cohort that showed the newest one.
    """

    count: int
    last: int


class Advisory:
    """River's detectors of all slices x metrics, fed cohort by cohort.

    A detector that fires starts anew, and river's own counter with it; so changes are counted
    here.

    Attributes:
        renewed: whether the saved state was another release's of river (or of the tuning), so
            that all detectors began anew, their counts kept.
    """

    def __init__(self) -> None:
        self._tallies: dict[RiverAlarm, FindingCount] = {}
        self._streams: dict[tuple[str, Metric], ChangeDetectors] = {}
        self.renewed = False

    @property
    def tallies(self) -> Mapping[RiverAlarm, FindingCount]:
        """Counts of the changes found so far; what never was found is absent."""
        return self._tallies

    @property
    def slices(self) -> frozenset[str]:
        """Texts of all slices that something is known of."""
        return frozenset(text for text, _ in self._streams) | {d.slice for d in self._tallies}

    def advance(
        self, at: int, metric: Metric, slices: Sequence[str], n: Int64s, k: Int64s
    ) -> list[RiverAlarm]:
        """Feed one cohort's labels to the detectors of one metric.

        Args:
            at: event time of the cohort, in microseconds.
            metric: TPR or FPR.
            slices: slice texts.
            n: labels of each slice, shape (S,), all sampled with one probability: positives for
                the TPR, negatives for the FPR.
            k: how many of them were auto-served, at most ``n``.

        Returns:
            What was found, in the order of ``slices``; the same change twice if it was.
        """
        labels, ends = spread(n, k), np.cumsum(n)
        found = []
        for row in np.flatnonzero(n).tolist():
            stream = self._stream(slices[row], metric)
            changes = stream.feed(labels[ends[row] - n[row] : ends[row]])
            found += [RiverAlarm(slices[row], metric, *change) for change in changes]
        for detection in found:
            self._count(detection, at)
        return found

    def forget(self, slices: Collection[str]) -> None:
        """Drop detectors and counts of slices that are no longer watched."""
        gone = frozenset(slices)
        self._streams = {key: s for key, s in self._streams.items() if key[0] not in gone}
        self._tallies = {d: tally for d, tally in self._tallies.items() if d.slice not in gone}

    def to_bytes(self) -> bytes:
        """The state: :meth:`from_bytes` continues as if there had been no stop.

        About 300 bytes for every slice x metric.
        """
        streams = [(*key, stream.state()) for key, stream in self._streams.items()]
        saved = _SavedAlarms(version("river"), RECIPE, list(self._tallies.items()), streams)
        return zlib.compress(msgspec.msgpack.encode(saved), level=1)

    @classmethod
    def from_bytes(cls, body: bytes) -> Advisory:
        """Continue what :meth:`to_bytes` gave.

        The insides of river's detectors may change with any release of it. So under another
        river, or another tuning, all detectors begin anew; counts are kept, and ``renewed`` is
        True.

        Raises:
            ValueError: if the bytes are damaged.
        """
        saved = _decode(body)
        advisory = cls()
        advisory._tallies = dict(saved.tallies)
        advisory.renewed = (saved.river, saved.recipe) != (version("river"), RECIPE)
        if not advisory.renewed:
            advisory._streams = {
                (text, metric): ChangeDetectors.revive(metric, state)
                for text, metric, state in saved.streams
            }
        return advisory

    def _stream(self, text: str, metric: Metric) -> ChangeDetectors:
        key = text, metric
        if key not in self._streams:
            self._streams[key] = ChangeDetectors(metric)
        return self._streams[key]

    def _count(self, detection: RiverAlarm, at: int) -> None:
        before = self._tallies.get(detection, FindingCount(0, at))
        self._tallies[detection] = FindingCount(before.count + 1, max(before.last, at))


class _SavedAlarms(msgspec.Struct, array_like=True, frozen=True):
    """Stored form of the detectors and their counts."""

    river: str
    recipe: str
    tallies: list[tuple[RiverAlarm, FindingCount]]
    streams: list[tuple[str, Metric, ChangeState]]


def _decode(body: bytes) -> _SavedAlarms:
    try:
        # The check sum of the compressed bytes is a guard: river panics at damaged ones.
        return msgspec.msgpack.decode(zlib.decompress(body), type=_SavedAlarms)
    except (zlib.error, msgspec.DecodeError) as error:
        raise ValueError("the stored state of the advisory detectors is damaged") from error
