"""Candidate rules of a release block, put in place of the shipped one for one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from monitor.core.privacy.release_blocks import BlockTally, Condition, none_or_enough

_shipped = Condition.holds


@dataclass(frozen=True)
class BlockRule:
    """Counts of which every cell of a block must have none, or at least k, beside the shipped ones.

    Attributes:
        routes: decisions of each route too, not only decisions.
        values: labels of each value too, not only of each route.
    """

    routes: bool = False
    values: bool = False

    def holds(self, condition: Condition, tail: BlockTally) -> bool:
        """Whether a family may close its open block."""
        routes = not self.routes or none_or_enough(tail.decisions, condition.k)
        values = not (self.values and condition.labels) or none_or_enough(tail.labels, condition.k)
        return _shipped(condition, tail) and routes and values


RULES = {
    "shipped": None,
    "decisions": BlockRule(),
    "routes": BlockRule(routes=True),
    "values": BlockRule(values=True),
    "routes+values": BlockRule(routes=True, values=True),
}
"""By name; ``none`` besides makes every pane a block."""


def _of(rule: BlockRule) -> Callable[[Condition, BlockTally], bool]:
    def holds(condition: Condition, tail: BlockTally) -> bool:
        return rule.holds(condition, tail)

    return holds  # a plain function: it is bound to each condition


@contextmanager
def ruled(name: str) -> Iterator[None]:
    """Blocks are made by this rule meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        if name == "none":
            patch.setattr(Condition, "holds", lambda self, tail: True)
        elif (rule := RULES[name]) is not None:
            patch.setattr(Condition, "holds", _of(rule))
        yield
