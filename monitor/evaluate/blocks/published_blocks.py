"""Published blocks of a family that the tests are past: findings are reported as of these.

A finding moves from the end of one block to the end of another and never between them, and is
reported as the end of the block that first shows it, never as an hour.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from monitor.core.privacy.release_blocks import on_the_hour
from monitor.evaluate.blocks.family_state import FamilyState


@dataclass(frozen=True, slots=True)
class PublishedBlocks:
    """Published blocks whose hours all had their turn: at least one.

    Attributes:
        begin: where the oldest of them begins (microseconds).
        ends: increasing, on the hour.
    """

    begin: int
    ends: Sequence[int]

    @classmethod
    def of(cls, state: FamilyState, until: int | None, *, labels: bool) -> Self | None:
        """Those of a family; None before the first.

        Args:
            state: of the family.
            until: end of the newest hour that had its turn (microseconds); None before the first.
            labels: blocks of labels, not of decisions.
        """
        if until is None:
            return None
        edges, abandoned = state.of(labels)
        ends = on_the_hour(state.shown_edges(labels=labels)[1:])
        ends = [at for at in ends[: bisect_right(ends, until)] if at not in abandoned]
        return cls(edges[0], ends) if ends else None

    @property
    def end(self) -> int:
        """End of the newest of them (microseconds)."""
        return self.ends[-1]

    def first_with(self, end: int) -> int:
        """The end of the first of them that has the hour which ends at an instant."""
        return self.ends[bisect_left(self.ends, end)]

    def latest(self, hour: int, reported: int | None) -> int | None:
        """The end of the block that first showed what was found in an hour.

        What was reported of it holds, though blocks are made anew every week and forgotten in time.

        Args:
            hour: the start of the last hour that it was found in; before :attr:`end`.
            reported: what the last Snapshot says; it was of this hour if it is later.

        Returns:
            None for an hour that is older than all blocks, if nothing was reported of it.
        """
        if reported is not None and hour < reported <= self.end:
            return reported
        return None if hour < self.begin else self.ends[bisect_right(self.ends, hour)]
