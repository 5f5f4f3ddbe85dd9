"""Retries of failed writes to the store."""

from __future__ import annotations

FIRST_SECONDS, LONGEST_SECONDS = 1.0, 30.0
"""A database that restarts is back in moments; a disk that is full stays so for a while."""


class Retry:
    """Pauses between tries, each twice as long as the one before.

    Example:
        >>> retry = Retry()
        >>> [retry.failed() for _ in range(6)], retry.waits
        ([1.0, 2.0, 4.0, 8.0, 16.0, 30.0], True)
        >>> retry.succeeded()
        >>> retry.failed()
        1.0
    """

    def __init__(self) -> None:
        self._pause = 0.0

    @property
    def waits(self) -> bool:
        """True when something waits to be stored."""
        return self._pause > 0

    def failed(self) -> float:
        """One more try has failed; returns the seconds until the next."""
        self._pause = min(2 * self._pause or FIRST_SECONDS, LONGEST_SECONDS)
        return self._pause

    def succeeded(self) -> None:
        """Everything is stored."""
        self._pause = 0.0
