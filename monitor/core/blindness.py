"""Blindness of the monitor: one judgement of the whole service, from facts only.

A monitor that counts nothing looks as calm as one that finds nothing. The readiness probe,
``slicewatch db status`` and an alert that is never muted report this judgement.

:mod:`monitor.core.expected_arrivals` judges whether decisions are missing.

Labels come when reviewers work. Nights and weekends bring none, and a day's labels may come in a
single hour. So a silence of labels is measured against the same hours of earlier weeks: a service
has no usual pace in its first week.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median

from monitor.core.expected_arrivals import HARDLY_ANY, MissingDecisions, begun
from monitor.core.time import MINUTE, SECOND, to_datetime

WORKER_SILENT = 60 * SECOND
"""Allowed silence of a worker, which reports every ten seconds; meanwhile another may take over."""
UNSTORED = 60 * SECOND
"""Time that a restarting database may take."""
BEHIND = 15 * MINUTE
"""Largest lag of a partition behind the others, beyond the lateness."""
UNREAD = 3 * MINUTE
"""Time that a restarting broker, or a partition that moves to another worker, may take."""
NAMED = 3

DAY_HOURS, WEEK_HOURS, WEEK_DAYS = 24, 168, 7
WEEKS = 4
"""Earlier weeks that define the usual pace."""
KEPT_WEEKS = WEEKS + 1
"""Weeks of arrivals to keep before the last label; a partly known week cannot be compared."""
LABELS_MISSED = 100
"""Missed labels that count as silence; fewer may be one reviewer's day off."""


class Blind(enum.StrEnum):
    """Cause of the monitor's blindness."""

    NO_WORKER = "no_worker"  # partitions that no process reads
    NOT_STORED = "not_stored"  # a process reads, and cannot store what it reads
    NOT_READ = "not_read"  # decisions wait in the broker, and a worker reads none of them
    BEHIND = "behind"  # a partition holds all windows back
    DECISIONS_SILENT = "decisions_silent"  # decisions should have come long ago
    DECISIONS_LATE = "decisions_late"  # decisions should have come by now: only a ticket
    LABELS_SILENT = "labels_silent"  # reviewers' labels do not come, against their usual pace


@dataclass(frozen=True, slots=True)
class Reason:
    """Reason for blindness, with a sentence for people that names no slice and no count.

    Attributes:
        expected: expected time of missing decisions, in words; constant while none come.
    """

    why: Blind
    text: str
    expected: str = ""

    @property
    def blinds(self) -> bool:
        """True unless the reason is only a ticket."""
        return self.why is not Blind.DECISIONS_LATE


@dataclass(frozen=True, slots=True)
class ReadShard:
    """Known state of a partition that must be read.

    Attributes:
        name: topic and partition, for people.
        decisions: True for decisions, False for labels.
        seen: microseconds since its worker last reported; None if never.
        newest: event time it has reached; None before the first event.
        watermark: event time it is complete to; None before the first event.
        awaited: True if the watermark of its topic waits for it.
        unstored: microseconds for which its worker could not store events; None if it can.
        unread: microseconds since its worker read while events wait; None if none wait.
    """

    name: str
    decisions: bool
    seen: int | None
    newest: int | None
    watermark: int | None
    awaited: bool
    unstored: int | None = None
    unread: int | None = None

    @property
    def read_to_end(self) -> bool:
        """True when its worker is present and no event waits to be read."""
        present = self.seen is not None and self.seen <= WORKER_SILENT
        return present and self.unstored is None and self.unread is None


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts from which :func:`blindness` judges: clock, shards, missing decisions, silent labels.

    Attributes:
        now: wall clock (microseconds).
        lateness: lag of watermarks behind the newest event (microseconds).
        shards: every partition that must be read.
        missing: decisions that should have come to the broker by now; None if none are missing.
        labels_silent_since: start of the hour of the last labels (microseconds), if labels have
            been silent for too long; else None.
        pace: seconds of event time per second; more than 1 only in a simulation.
    """

    now: int
    lateness: int
    shards: Sequence[ReadShard]
    missing: MissingDecisions | None = None
    labels_silent_since: int | None = None
    pace: float = 1.0

    @property
    def newest(self) -> int | None:
        """Event time of the newest decision (microseconds); None before the first decision."""
        times = [s.newest for s in self.shards if s.decisions and s.newest is not None]
        return max(times, default=None)

    def read_to_end(self, *, decisions: bool) -> bool:
        """Return True when all shards of decisions, or all of labels, are read to the end."""
        return all(s.read_to_end for s in self.shards if s.decisions == decisions)


def blindness(facts: Facts) -> list[Reason]:
    """Return every reason why the monitor is blind; no reasons if it sees, or has not begun.

    Example:
        >>> alone = ReadShard("decisions/0", True, 90_000_000, 0, 0, True)
        >>> [reason.why.value for reason in blindness(Facts(100_000_000, 0, [alone]))]
        ['no_worker']
    """
    return [
        *(*_no_worker(facts), *_not_stored(facts), *_not_read(facts), *_behind(facts)),
        *(*_missing_decisions(facts), *_labels_silent(facts)),
    ]


def _no_worker(facts: Facts) -> Iterator[Reason]:
    """Yield a reason if a partition has had no worker for WORKER_SILENT."""
    unread = [s.name for s in facts.shards if s.seen is None or s.seen > WORKER_SILENT]
    if unread:
        yield Reason(
            Blind.NO_WORKER,
            f"no worker reads {_names(unread)}: start slicewatch ingest, or look why it stopped",
        )


def _not_stored(facts: Facts) -> Iterator[Reason]:
    """Yield a reason if read events of a partition have been unstored for UNSTORED."""
    unstored = [s.name for s in facts.shards if s.unstored is not None and s.unstored > UNSTORED]
    if unstored:
        yield Reason(
            Blind.NOT_STORED,
            f"what is read of {_names(unstored)} cannot be stored: look at the log of slicewatch"
            " ingest, and at the database's disk and rights",
        )


def _not_read(facts: Facts) -> Iterator[Reason]:
    """Yield a reason if decisions of a partition have waited in the broker for UNREAD."""
    waiting = [s.name for s in facts.shards if s.decisions and (s.unread or 0) > UNREAD]
    if waiting:
        yield Reason(
            Blind.NOT_READ,
            f"decisions of {_names(waiting)} wait in the broker and none has been read for"
            f" {UNREAD // MINUTE} minutes: look at the log of slicewatch ingest, and whether it"
            " reaches the broker",
        )


def _behind(facts: Facts) -> Iterator[Reason]:
    """Yield a reason if partitions of decisions lag so much that all windows wait for them."""
    newest = facts.newest
    if newest is None:
        return
    limit = newest - facts.lateness - BEHIND * facts.pace
    late = [
        s.name
        for s in facts.shards
        if s.decisions and s.awaited and (s.watermark is None or s.watermark < limit)
    ]
    if late:
        yield Reason(
            Blind.BEHIND,
            f"{_names(late)} is more than {BEHIND // MINUTE} minutes behind the newest decision,"
            " and all windows wait for it: ingest is behind there, look first at the log of the"
            " worker that reads it (slicewatch db status names it)",
        )


def _missing_decisions(facts: Facts) -> Iterator[Reason]:
    """Yield the reason for missing decisions; none while the broker has decisions to read."""
    missing = facts.missing
    if missing is not None and facts.read_to_end(decisions=True):
        kind = Blind.DECISIONS_SILENT if missing.pages else Blind.DECISIONS_LATE
        sender = "look at the router, and at what sends its decisions to Kafka"
        text = f"{missing.text}. All that came was read: {sender}"
        yield Reason(kind, text, missing.text)


def _labels_silent(facts: Facts) -> Iterator[Reason]:
    """Yield a reason if labels have stopped."""
    since = facts.labels_silent_since
    if since is not None:
        yield Reason(
            Blind.LABELS_SILENT,
            f"hardly any label since {to_datetime(since):%Y-%m-%d %H:%M}Z was counted, although a"
            f" day's labels or more usually come in that time: {_where_labels_are(facts)}",
        )


def _where_labels_are(facts: Facts) -> str:
    if facts.read_to_end(decisions=False):
        return "look at what sends the reviewers' labels"
    return "labels wait to be read, look first at the log of slicewatch ingest"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(sorted(names)[:NAMED]) + more


def silent_since(arrivals: Mapping[int, int], now: int) -> int | None:
    """Return the hour (pane index) of the last label if labels are silent for too long; else None.

    Labels are silent after a day that brought hardly any, once they miss as many as an average day
    of a usual week brings. The usual number is the median of the same hours in up to four weeks
    before the silence. A silence is first reported at an hour at which labels usually come: without
    labels at weekends, a stop on Friday is reported on Monday. From then on it is reported until
    labels come.

    Args:
        arrivals: labels by the hour in which they were counted (pane index of wall-clock time), of
            five weeks.
        now: the present hour; later hours are errors of a clock.
    """
    label_counts = {hour: number for hour, number in arrivals.items() if number > 0 and hour <= now}
    last = _last_labelled_hour(label_counts)
    weeks = [] if last is None else _label_counts_of_weeks(label_counts, last + 1)
    if last is None or not weeks:
        return None
    missed = [median(sums) for sums in zip(*map(accumulate, weeks), strict=True)]
    enough = max(LABELS_MISSED, missed[-1] / WEEK_DAYS)
    silent_hours = range(DAY_HOURS, min(now - last, WEEK_HOURS))
    is_reported = any(
        missed[h - 1] >= enough and any(week[h] for week in weeks) for h in silent_hours
    )
    return last if is_reported else None


def _last_labelled_hour(label_counts: Mapping[int, int]) -> int | None:
    """Return the newest hour that starts a day with enough labels to count; None if none."""
    hardly_any = HARDLY_ANY * sum(label_counts.values()) / (KEPT_WEEKS * WEEK_DAYS)
    for hour in sorted(label_counts, reverse=True):
        if sum(label_counts.get(hour + ahead, 0) for ahead in range(DAY_HOURS)) > hardly_any:
            return hour
    return None


def _label_counts_of_weeks(label_counts: Mapping[int, int], first: int) -> list[list[int]]:
    """Return label counts of the 168 hours from ``first``, for each fully known earlier week."""
    known_from = begun(label_counts)
    starts = (first - back * WEEK_HOURS for back in range(1, WEEKS + 1))
    return [
        [label_counts.get(hour, 0) for hour in range(start, start + WEEK_HOURS)]
        for start in starts
        if start >= known_from
    ]
