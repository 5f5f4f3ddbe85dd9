"""What watches beside the pages has found: each finding's subject, how often, and when last.

Findings advise: they annotate and count, and nothing is ever paged because of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection
from dataclasses import dataclass, field

import msgspec

from monitor.core.annotations import Fault
from monitor.core.cells import Route
from monitor.core.contract import Metric
from monitor.detection.advisory import Tally
from monitor.detection.changes import Change, Detector
from monitor.detection.delays import Timing


class Subject(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """What a finding is about.

    Attributes:
        contract: name.
        group_by: attribute names joined by ``+``; empty for everything together.
        slice: slice text; empty for everything together.
    """

    contract: str
    group_by: str
    slice: str


class Drift(Subject, frozen=True, tag=True, array_like=True):
    """A slice on the weekly list: its rate is worse than its reference, mix by mix."""

    metric: Metric


class MixShift(Subject, frozen=True, tag=True, array_like=True):
    """A slice whose rate has moved although no mix's has: other requests come."""

    metric: Metric


class RateChange(Subject, frozen=True, tag=True, array_like=True):
    """A change that one of river's detectors found."""

    metric: Metric
    detector: Detector
    change: Change


class RequestFault(Subject, frozen=True, tag=True, array_like=True):
    """Labels of a stratum are not asked for as often as its decisions say.

    Attributes:
        route: of the stratum.
        rate: index of its audit rate.
        fault: too few or too many.
    """

    route: Route
    rate: int
    fault: Fault


class LabelDelay(Subject, frozen=True, tag=True, array_like=True):
    """Over a week, the labels of a slice came later or earlier than its reference's.

    Attributes:
        timing: of the slice.
        buckets: mean difference in whole buckets, at least 1 (edges: ``DELAY_EDGES_HOURS``).
    """

    timing: Timing
    buckets: int


AnySubject = Drift | MixShift | RateChange | RequestFault | LabelDelay


@dataclass(frozen=True, slots=True)
class Findings:
    """What one cohort brought.

    Attributes:
        at: start of the cohort's hour (event time, microseconds).
        drifted: the weekly list, with the first cohort after an ISO week.
        mix_shifted: with the same cohort; none of them is on the list.
        changed: by river's detectors; the same one twice if it was found twice.
        faults: of the sampler.
        delayed: with the first cohort after an ISO week.
    """

    at: int
    drifted: tuple[Drift, ...] = ()
    mix_shifted: tuple[MixShift, ...] = ()
    changed: tuple[RateChange, ...] = ()
    faults: tuple[RequestFault, ...] = ()
    delayed: tuple[LabelDelay, ...] = ()

    @property
    def subjects(self) -> tuple[AnySubject, ...]:
        """Everything that was found."""
        return (
            *self.drifted,
            *self.mix_shifted,
            *self.changed,
            *self.faults,
            *self.delayed,
        )


@dataclass(slots=True)
class Ledger:
    """How often each subject was found, and when last; what never was is absent."""

    tallies: dict[AnySubject, Tally] = field(default_factory=dict)

    def note(self, findings: Findings) -> None:
        """Count what one cohort brought."""
        for subject in findings.subjects:
            before = self.tallies.get(subject, Tally(0, findings.at))
            self.tallies[subject] = Tally(before.count + 1, findings.at)

    def keep(self, watched: Collection[tuple[str, str]]) -> None:
        """Forget all but these pairs of contract and slice text."""
        self.tallies = {
            subject: tally
            for subject, tally in self.tallies.items()
            if (subject.contract, subject.slice) in watched
        }

    def to_bytes(self) -> bytes:
        """All of it."""
        return zlib.compress(msgspec.msgpack.encode(list(self.tallies.items())), level=1)

    @classmethod
    def from_bytes(cls, body: bytes) -> Ledger:
        """What :meth:`to_bytes` gave.

        Raises:
            ValueError: if the bytes are damaged, or not of this version.
        """
        try:
            tallies = msgspec.msgpack.decode(
                zlib.decompress(body), type=list[tuple[AnySubject, Tally]]
            )
        except (zlib.error, msgspec.DecodeError) as error:
            raise ValueError("the stored findings cannot be read") from error
        return cls(dict(tallies))
