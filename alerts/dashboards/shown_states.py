"""States of slices in panels: a number, a word and a colour each, from the worst to the best.

Only ``within_contract`` is green, and undecided states have no colour of a verdict.
"""

from __future__ import annotations

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
WORDS = {
    value: (state.value.replace("_", " "), color)
    for state, color in COLORS.items()
    for value in (str(CODES[state]), state.value)
}
"""Word and colour of each state, by its number and by its exported name."""


def per_state(query: str) -> str:
    """Return PromQL for the numbers of current states, from a query for one ``<state>``'s number.

    A state that does not apply is left out; nothing stands for a slice that is not there.
    """
    queries = (
        query.replace("<state>", state.value).replace("<code>", str(code))
        for state, code in CODES.items()
    )
    return "\nor ".join(queries)
