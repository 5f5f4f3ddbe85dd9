"""The instants that findings of the tests are reported as of: whole UTC days, or hours with k = 1.

A finding moves from the end of one day to the end of another and never between them: the hour in
which a test moved would tell of the decisions of that hour. So it is a function of event time, and
the same after a restart and however often one looks.

Example:
    >>> days = ReportDays(DAY)
    >>> days.newest_end(3 * DAY + HOUR) // DAY, days.end_after(3 * DAY) // DAY
    (3, 4)
"""

from __future__ import annotations

from dataclasses import dataclass

from monitor.core.contract import Contract
from monitor.core.time import DAY, HOUR


@dataclass(frozen=True, slots=True)
class ReportDays:
    """Ends of the days, or hours, that findings of a contract are reported as of.

    Attributes:
        step: microseconds from one to the next.
    """

    step: int

    @classmethod
    def for_contract(cls, contract: Contract) -> ReportDays:
        """Return hours for a contract with k = 1, where nothing is hidden, else days."""
        return cls(HOUR if contract.k == 1 else DAY)

    def newest_end(self, until: int | None) -> int | None:
        """Return the newest day's end up to ``until``; None before any hour was consumed.

        Args:
            until: end of the newest hour that had its turn (microseconds); None before the first.
        """
        return None if until is None else until - until % self.step

    def end_after(self, at: int) -> int:
        """Return the end of the day (or hour) that holds an instant (microseconds)."""
        return at - at % self.step + self.step
