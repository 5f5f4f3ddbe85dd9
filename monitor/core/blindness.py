"""Is the monitor blind? One judgement of the whole service, from facts and nothing else.

A monitor that counts nothing looks as calm as one that finds nothing. What is judged here is
reported by the readiness probe, by ``slicewatch db status`` and by an alert that is never muted.

Whether decisions are missing is for :mod:`monitor.core.expected_arrivals` to say.

Have labels fallen silent? Labels come when reviewers work. Nights and weekends bring none, and a
day's labels may come in a single hour: so a silence is measured by what the same hours brought a
week before, and no service has a usual pace before it has a week behind it.
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
"""A worker reports every ten seconds that it is there; a new one has claimed its shards by then."""
UNSTORED = 60 * SECOND
"""A database that restarts is back by then."""
BEHIND = 15 * MINUTE
"""How far a partition may be behind the others, beyond the lateness."""
UNREAD = 3 * MINUTE
"""A broker that restarts, or a partition that moves to another worker, is back by then."""
NAMED = 3

DAY_HOURS, WEEK_HOURS, WEEK_DAYS = 24, 168, 7
WEEKS = 4
"""Weeks before that a usual pace is taken from."""
KEPT_WEEKS = WEEKS + 1
"""What has to be known before the last label: a week that is known in part says nothing."""
LABELS_MISSED = 100
"""Labels that should have come. With fewer expected, one reviewer's day off may be all there is."""


class Blind(enum.StrEnum):
    """Cause of the monitor's blindness."""

    NO_WORKER = "no_worker"  # partitions that no process reads
    NOT_STORED = "not_stored"  # a process reads, and cannot store what it reads
    NOT_READ = "not_read"  # decisions wait in the broker, and a worker reads none of them
    BEHIND = "behind"  # a partition holds all windows back
    DECISIONS_SILENT = "decisions_silent"  # decisions should have come long ago
    DECISIONS_LATE = "decisions_late"  # decisions should have come by now: a ticket, no blindness
    LABELS_SILENT = "labels_silent"  # reviewers' labels do not come, against their usual pace


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason, and a sentence for people: no slice, no count.

    Attributes:
        why: the reason.
        text: the sentence.
        expected: what was expected when, of decisions that do not come; the same while none come.
    """

    why: Blind
    text: str
    expected: str = ""

    @property
    def blinds(self) -> bool:
        """True unless it is a mere ticket."""
        return self.why is not Blind.DECISIONS_LATE


@dataclass(frozen=True, slots=True)
class ReadShard:
    """Known state of a partition that must be read.

    Attributes:
        name: topic and partition, for people.
        decisions: it holds decisions, else labels.
        seen: microseconds since its worker was last there; None: never.
        newest: event time it has reached; None before the first event.
        watermark: event time it is complete to; None before the first.
        awaited: the watermark of its topic waits for it.
        unstored: microseconds since its worker could not store what it reads; None: it can.
        unread: microseconds since its worker read anything of what waits; None: nothing waits.
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
        """True when its worker is there, and nothing waits to be read."""
        present = self.seen is not None and self.seen <= WORKER_SILENT
        return present and self.unstored is None and self.unread is None


@dataclass(frozen=True, slots=True)
class Facts:
    """Inputs of the judgement.

    Attributes:
        now: wall clock (microseconds).
        lateness: how far watermarks are behind the newest event (microseconds).
        shards: every partition that must be read.
        missing: decisions that should have come to the broker by now; None: none should have.
        labels_silent_since: beginning of the hour in which labels last came (microseconds), if
            labels have been silent for too long since; None: they have not.
        pace: seconds of event time that pass in a second; more than 1 in a simulation alone.
    """

    now: int
    lateness: int
    shards: Sequence[ReadShard]
    missing: MissingDecisions | None = None
    labels_silent_since: int | None = None
    pace: float = 1.0

    @property
    def newest(self) -> int | None:
        """Event time of the newest decision."""
        times = [s.newest for s in self.shards if s.decisions and s.newest is not None]
        return max(times, default=None)

    def read_to_end(self, *, decisions: bool) -> bool:
        """Whether nothing waits in the broker of decisions, or of labels."""
        return all(s.read_to_end for s in self.shards if s.decisions == decisions)


def blindness(facts: Facts) -> list[Reason]:
    """Every reason why the monitor does not see; empty when it does, or has not begun.

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
    alone = [s.name for s in facts.shards if s.seen is None or s.seen > WORKER_SILENT]
    if alone:
        yield Reason(
            Blind.NO_WORKER,
            f"no worker reads {_named(alone)}: start slicewatch ingest, or look why it stopped",
        )


def _not_stored(facts: Facts) -> Iterator[Reason]:
    held = [s.name for s in facts.shards if s.unstored is not None and s.unstored > UNSTORED]
    if held:
        yield Reason(
            Blind.NOT_STORED,
            f"what is read of {_named(held)} cannot be stored: look at the log of slicewatch"
            " ingest, and at the database's disk and rights",
        )


def _not_read(facts: Facts) -> Iterator[Reason]:
    waits = [s.name for s in facts.shards if s.decisions and (s.unread or 0) > UNREAD]
    if waits:
        yield Reason(
            Blind.NOT_READ,
            f"decisions of {_named(waits)} wait in the broker and none has been read for"
            f" {UNREAD // MINUTE} minutes: look at the log of slicewatch ingest, and whether it"
            " reaches the broker",
        )


def _behind(facts: Facts) -> Iterator[Reason]:
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
            f"{_named(late)} is more than {BEHIND // MINUTE} minutes behind the newest decision,"
            " and all windows wait for it: ingest is behind there, look first at the log of the"
            " worker that reads it (slicewatch db status names it)",
        )


def _missing_decisions(facts: Facts) -> Iterator[Reason]:
    """What the topic lacks. While decisions wait to be read, it says nothing of the router."""
    missing = facts.missing
    if missing is not None and facts.read_to_end(decisions=True):
        why = Blind.DECISIONS_SILENT if missing.pages else Blind.DECISIONS_LATE
        sender = "look at the router, and at what sends its decisions to Kafka"
        text = f"{missing.text}. All that came was read: {sender}"
        yield Reason(why, text, missing.text)


def _labels_silent(facts: Facts) -> Iterator[Reason]:
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


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(sorted(names)[:NAMED]) + more


def silent_since(arrivals: Mapping[int, int], now: int) -> int | None:
    """The hour of the last label, if labels have been silent for too long since; else None.

    They are silent once a day has gone by that brought hardly any, and as many are missed as an
    average day of a usual week brings. Of what the same hours brought in up to four weeks before
    the silence, the median is usual. It is reported first at an hour at which labels do come: what
    has stopped on a Friday is reported on Monday, where nobody labels at weekends. From then on it
    is reported until labels come.

    Args:
        arrivals: labels by the hour in which they were counted (pane index of wall-clock time), of
            five weeks.
        now: the present hour; later ones are a clock's mistake.
    """
    came = {hour: number for hour, number in arrivals.items() if number > 0 and hour <= now}
    last = _last(came)
    weeks = [] if last is None else _weeks_before(came, last + 1)
    if last is None or not weeks:
        return None
    missed = [median(sums) for sums in zip(*map(accumulate, weeks), strict=True)]
    enough = max(LABELS_MISSED, missed[-1] / WEEK_DAYS)
    gone = range(DAY_HOURS, min(now - last, WEEK_HOURS))
    told = any(missed[h - 1] >= enough and any(week[h] for week in weeks) for h in gone)
    return last if told else None


def _last(came: Mapping[int, int]) -> int | None:
    """The newest hour that began a day of more than hardly any labels; None: there was none."""
    hardly_any = HARDLY_ANY * sum(came.values()) / (KEPT_WEEKS * WEEK_DAYS)
    for hour in sorted(came, reverse=True):
        if sum(came.get(hour + ahead, 0) for ahead in range(DAY_HOURS)) > hardly_any:
            return hour
    return None


def _weeks_before(came: Mapping[int, int], first: int) -> list[list[int]]:
    """Labels of the 168 hours from ``first`` on, in each earlier week that is wholly known."""
    first_known = begun(came)
    starts = (first - back * WEEK_HOURS for back in range(1, WEEKS + 1))
    return [
        [came.get(hour, 0) for hour in range(start, start + WEEK_HOURS)]
        for start in starts
        if start >= first_known
    ]
