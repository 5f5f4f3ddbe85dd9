"""A wall clock that stands where a test sets it."""

from __future__ import annotations


class SetClock:
    """Wall clock as a test sets it."""

    def __init__(self, at: int) -> None:
        self.at = at

    def now(self) -> int:
        return self.at

    def monotonic(self) -> float:
        return self.at / 1e6
