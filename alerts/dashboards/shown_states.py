"""States of slices in panels: a number, a word and a colour each, from the worst to the best.

Only ``within_contract`` is green, and undecided states have no colour of a verdict.
"""

from __future__ import annotations

from monitor.core.state import State

BY_CODE = sorted(State, key=lambda state: state.row.code)
"""States from the best to the worst, as panels draw them."""

WORDS = {
    value: (state.value.replace("_", " "), state.row.color)
    for state in reversed(BY_CODE)
    for value in (str(state.row.code), state.value)
}
"""Word and colour of each state, by its number and by its exported name."""


def per_state(query: str) -> str:
    """Return PromQL for the numbers of current states, from a query for one ``<state>``'s number.

    A state that does not apply is left out; nothing stands for a slice that is not there.
    """
    queries = (
        query.replace("<state>", state.value).replace("<code>", str(state.row.code))
        for state in BY_CODE
    )
    return "\nor ".join(queries)
