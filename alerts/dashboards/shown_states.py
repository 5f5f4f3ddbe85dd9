"""States of slices in panels: a number, a word and a colour each, from the worst to the best.

Only ``within_contract`` is green, and undecided states have no colour of a verdict.
"""

from __future__ import annotations

from typing import Any

from alerts.dashboards.model import Look
from alerts.dashboards.promql import newest
from alerts.exposition import catalogue
from monitor.core.contract import State

COLORS = {
    State.BREACH: "dark-red",
    State.SUSPECTED: "orange",
    State.BETTER_OFF: "semi-dark-yellow",
    State.STALE: "purple",
    State.INCONCLUSIVE: "blue",
    State.MATURING: "light-blue",
    State.INSUFFICIENT_SUPPORT: "super-light-blue",
    State.SUPPRESSED: "rgba(128, 128, 128, 0.5)",
    State.NO_LIMIT: "rgba(128, 128, 128, 0.25)",
    State.WITHIN_CONTRACT: "green",
}
CODES = {state: code for code, state in enumerate(reversed(COLORS))}
"""Numbers of states for panels that can only draw numbers; the worst state is the highest."""
LIMIT_COLOR = "red"


def words(state: State) -> str:
    """Return the name of a state with spaces, for people."""
    return state.value.replace("_", " ")


MAPPINGS: tuple[dict[str, Any], ...] = (
    {
        "type": "value",
        "options": {
            str(CODES[state]): {"text": words(state), "color": color, "index": index}
            for index, (state, color) in enumerate(COLORS.items())
        },
    },
)
LOOKS = tuple(
    Look(state.value, {"color": {"mode": "fixed", "fixedColor": color}})
    for state, color in COLORS.items()
)
"""Looks of lines that are named by a state."""


def state_code(*chosen: str, by: tuple[str, ...], where: str = "") -> str:
    """Return PromQL for the number of a slice's current state, by these labels.

    A state that does not apply is 0 and is left out; nothing stands for a slice that is not there.
    """
    terms = (
        f"({newest(catalogue.STATE, by, *chosen, where=_matcher(state, where))} == 1) * {code}"
        for state, code in CODES.items()
    )
    return "\nor ".join(terms)


def _matcher(state: State, where: str) -> str:
    return ", ".join([f'state="{state.value}"', where] if where else [f'state="{state.value}"'])
