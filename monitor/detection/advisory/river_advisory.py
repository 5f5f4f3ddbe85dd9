"""River's drift detectors on the labelled rates of every slice.

Two detectors watch each slice x metric: ADWIN finds changes in either direction, PageHinkley a
change for the worse (a falling TPR, a rising FPR). They say that a rate has changed, not that a
contract is broken, and a shift of the request mix triggers them like a change inside the mix. So
they annotate and count; nothing is ever sent because of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import msgspec
import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.core.metric import Metric
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
    """Kind of change in a slice's metric, with the detector that found it.

    Attributes:
        slice: slice text.
        metric: TPR or FPR.
        change: direction of the change.
    """

    slice: str
    metric: Metric
    detector: Detector
    change: ChangeDirection


class FindingCount(msgspec.Struct, array_like=True, frozen=True):
    """Number of findings of one subject, and the time of the newest.

    Attributes:
        count: findings since the slice was first fed; a restarted detector does not lower it.
        last: event time (microseconds) of the cohort of the newest finding.
    """

    count: int
    last: int


class Advisory:
    """River's detectors of every slice and metric, fed cohort by cohort, with their counts.

    A detector that fires starts again and resets its own counter, so this class counts the changes.

    Attributes:
        renewed: whether the stored state came from another release of river, or another tuning: all
            detectors then began anew, with their counts kept.
    """

    def __init__(self) -> None:
        self._tallies: dict[RiverAlarm, FindingCount] = {}
        self._streams: dict[tuple[str, Metric], ChangeDetectors] = {}
        self.renewed = False

    @property
    def tallies(self) -> Mapping[RiverAlarm, FindingCount]:
        """Return count and latest time of the changes found, by alarm."""
        return self._tallies

    @property
    def slices(self) -> frozenset[str]:
        """Return the names of all slices with a detector or a count."""
        return frozenset(text for text, _ in self._streams) | {
            alarm.slice for alarm in self._tallies
        }

    def advance(
        self, at: int, metric: Metric, slices: Sequence[str], n: Int64s, k: Int64s
    ) -> list[RiverAlarm]:
        """Feed one cohort's labels to the detectors of one metric; count and return alarms.

        Args:
            at: event time of the cohort, in microseconds.
            metric: TPR or FPR.
            slices: slice texts.
            n: labels of each slice, shape (S,), all sampled with one probability: positives for the
                TPR, negatives for the FPR.
            k: auto-served labels among them, at most ``n``.

        Returns:
            The alarms in the order of ``slices``; an alarm that fired twice is listed twice.
        """
        labels, ends = spread(n, k), np.cumsum(n)
        alarms = []
        for row in np.flatnonzero(n).tolist():
            stream = self._stream(slices[row], metric)
            changes = stream.feed(labels[ends[row] - n[row] : ends[row]])
            alarms += [RiverAlarm(slices[row], metric, *change) for change in changes]
        for alarm in alarms:
            self._count(alarm, at)
        return alarms

    def forget(self, slices: Collection[str]) -> None:
        """Remove the detectors and counts of these slices."""
        dropped = frozenset(slices)
        self._streams = {
            key: detectors for key, detectors in self._streams.items() if key[0] not in dropped
        }
        self._tallies = {
            alarm: tally for alarm, tally in self._tallies.items() if alarm.slice not in dropped
        }

    def to_bytes(self) -> bytes:
        """Encode the state as bytes, from which :meth:`from_bytes` continues exactly.

        It takes about 300 bytes per slice x metric.
        """
        streams = [(*key, stream.state()) for key, stream in self._streams.items()]
        saved = _SavedAlarms(version("river"), RECIPE, list(self._tallies.items()), streams)
        return zlib.compress(msgspec.msgpack.encode(saved), level=1)

    @classmethod
    def from_bytes(cls, body: bytes) -> Advisory:
        """Return the state that :meth:`to_bytes` wrote.

        The insides of river's detectors may change with any release. So under another river, or
        another tuning, all detectors begin anew; counts are kept, and ``renewed`` is True.

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

    def _count(self, alarm: RiverAlarm, at: int) -> None:
        before = self._tallies.get(alarm, FindingCount(0, at))
        self._tallies[alarm] = FindingCount(before.count + 1, max(before.last, at))


class _SavedAlarms(msgspec.Struct, array_like=True, frozen=True):
    """Stored form of :class:`Advisory`, encoded as msgpack."""

    river: str
    recipe: str
    tallies: list[tuple[RiverAlarm, FindingCount]]
    streams: list[tuple[str, Metric, ChangeState]]


def _decode(body: bytes) -> _SavedAlarms:
    """Return stored alarms; a ValueError if their bytes are damaged."""
    try:
        # The checksum of the compressed bytes is a guard: river panics at damaged state.
        return msgspec.msgpack.decode(zlib.decompress(body), type=_SavedAlarms)
    except (zlib.error, msgspec.DecodeError) as error:
        raise ValueError("the stored state of the advisory detectors is damaged") from error
