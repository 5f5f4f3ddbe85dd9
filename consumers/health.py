"""Is the consumer alive, ready, and making progress? Read from another thread at any moment."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.ports import ConsumerState, Shard

STUCK_SECONDS = 60.0
"""Read messages are not stored, or assigned shards not taken over, for this long: stuck."""
POLL_SECONDS = 30.0
"""A poll that does not return for this long: stuck."""
UNASSIGNED_SECONDS = 300.0
"""No partition at all for this long: stuck (a spare without partitions is fine before)."""

_SHUT_OUT = "no broker lets this worker in and read"
_STALLED = "the broker does not answer, or a message or batch is too large to receive"


@dataclass(slots=True)
class Health:
    """Plain values written by the ingest thread alone (monotonic seconds).

    Attributes:
        polled: when a poll last returned.
        stored: when everything read was last in the store.
        assigned: when the worker last had a partition.
        claimed: when every partition it had was last taken over.
        started: an assignment was received at least once.
        behind: the broker holds messages that were not read.
        stalled: names of shards whose messages do not arrive; empty when all move.
        missing: names of topics that the brokers do not know any more.
        unknown: shards whose end is to be asked for; the watchdog answers.
        paused: nothing is read because of back-pressure.
        store_ok: the last flush or claim succeeded.
        shut_out: why no broker would let us in and read, None while one does; written by the
            watchdog's thread.
        parked: a shard waits for a person, because its data is gone from the broker.
    """

    polled: float
    stored: float
    assigned: float
    claimed: float
    started: bool = False
    behind: bool = False
    stalled: str = ""
    missing: str = ""
    unknown: tuple[Shard, ...] = ()
    paused: bool = False
    store_ok: bool = True
    shut_out: str | None = None
    parked: bool = False

    @classmethod
    def at(cls, now: float) -> Health:
        """Everything happened just now: the deadlines begin."""
        return cls(now, now, now, now)

    def stuck(self, now: float) -> str | None:
        """Why the consumer makes no progress, or None."""
        reasons = (
            (self.shut_out, self.shut_out),
            (now - self.polled > POLL_SECONDS, "no poll has returned"),
            (now - self.stored > STUCK_SECONDS, "what was read could not be stored"),
            (self.missing, f"topic {self.missing} does not exist any more"),
            (self.stalled, f"messages of {self.stalled} are waiting and none arrive: {_STALLED}"),
            (now - self.claimed > STUCK_SECONDS, "assigned partitions could not be taken over"),
            (now - self.assigned > UNASSIGNED_SECONDS, "no partition is assigned"),
        )
        return next((reason for holds, reason in reasons if holds), None)

    def live(self, now: float) -> bool:
        """Whether the loop turns. Nothing a restart cannot mend is asked here."""
        return now - self.polled <= 4 * POLL_SECONDS

    def ready(self, now: float) -> tuple[bool, str]:
        """Whether this worker does its work, and if not, why."""
        if not self.started:
            return False, _SHUT_OUT if self.shut_out else "no assignment yet"
        if not self.store_ok:
            return False, "the store cannot be written"
        if self.parked:
            return False, "a shard is parked after data loss"
        if self.shut_out:  # its words name users and brokers, and anybody may ask
            return False, _SHUT_OUT
        reason = self.stuck(now)
        return reason is None, reason or "ok"

    def state(self, now: float) -> ConsumerState:
        """One word for dashboards."""
        if not self.started:
            return ConsumerState.STUCK if self.shut_out else ConsumerState.STARTING
        if self.parked:
            return ConsumerState.PARKED
        if self.stuck(now):
            return ConsumerState.STUCK
        if self.paused or not self.store_ok:
            return ConsumerState.PAUSED
        return ConsumerState.CONSUMING if self.behind else ConsumerState.CAUGHT_UP
