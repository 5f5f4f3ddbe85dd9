"""Candidate rules of a release block, put in place of the shipped one for one run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from monitor.core.privacy.release_blocks import BlockRule, Condition

RULES = {
    "shipped": None,
    "decisions": BlockRule(),
    "routes": BlockRule(routes=True),
    "values": BlockRule(values=True),
    "routes+values": BlockRule(routes=True, values=True),
}
"""By name; ``none`` besides makes every pane a block."""


@contextmanager
def ruled(name: str) -> Iterator[None]:
    """Blocks are made by this rule meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        if name == "none":
            patch.setattr(Condition, "holds", lambda self, tail: True)
        elif (rule := RULES[name]) is not None:
            patch.setattr(Condition.__init__, "__defaults__", (rule,))
        yield
