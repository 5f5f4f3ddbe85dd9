"""Sends a probe until there is an answer, or no more hope of one."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.probing.pace import Pace
from monitor.probing.router import RETRIED, Answer, Failure, Probe, Router

LONGEST_HOLD = 60.0
"""Seconds a router may put us off: a cadence has to go on."""


@dataclass(frozen=True, slots=True)
class Retries:
    """Limit on attempts for a variant, and the pauses between them.

    Attributes:
        attempts: at most, the first one included.
        pause: seconds before the second; twice that before the third, and so on.
    """

    attempts: int = 3
    pause: float = 0.5


class Sender:
    """A router, and how it is treated; each attempt takes a turn of its own.

    A probe may be sent again without harm: the router acts on nothing, and only the answer that
    was received is passed on.
    """

    def __init__(self, router: Router, pace: Pace, retries: Retries) -> None:
        self._router = router
        self._pace = pace
        self._retries = retries

    def send(self, probe: Probe) -> Answer | Failure | None:
        """The answer, or the last failure; None when asked to end before there was any."""
        outcome: Failure | None = None
        for attempt in range(self._retries.attempts):
            if not self._pace.turn():
                return None
            tried = self._router.ask(probe)
            if isinstance(tried, Answer) or tried.kind not in RETRIED:
                return tried
            outcome = tried
            self._hold(tried, attempt)
        return outcome

    def _hold(self, failure: Failure, attempt: int) -> None:
        """After the last attempt, too: whoever is next has to wait as well."""
        wait = failure.retry_after
        if wait is None:
            wait = self._retries.pause * 2**attempt
        self._pace.hold(min(wait, LONGEST_HOLD))
