"""The eight states: what each says of the contract, and which a crossing takes the place of."""

from __future__ import annotations

from itertools import product

import pytest

from monitor.core.contract import Verdict
from monitor.core.publish.states import VERDICT_OF, state, with_crossing
from monitor.core.state import State


def test_every_state_has_a_verdict() -> None:
    assert set(VERDICT_OF) == set(State)
    assert set(VERDICT_OF.values()) == {*Verdict, None}
    assert [one for one in State if VERDICT_OF[one] is None] == [State.NO_LIMIT]


def test_only_within_contract_passes_and_only_what_is_known_to_be_beyond_fails() -> None:
    passing = {state for state, verdict in VERDICT_OF.items() if verdict is Verdict.PASS}
    failing = {state for state, verdict in VERDICT_OF.items() if verdict is Verdict.FAIL}
    assert passing == {State.WITHIN_CONTRACT}
    assert failing == {State.SUSPECTED, State.BREACH}


@pytest.mark.parametrize("one", list(Verdict))
def test_where_all_is_known_the_state_says_what_the_bounds_do(one: Verdict) -> None:
    assert VERDICT_OF[state(True, True, True, [one])] is one


@pytest.mark.parametrize("one", list(Verdict))
def test_what_is_hidden_unsupported_or_immature_is_undecided(one: Verdict) -> None:
    for a, b, c in product((False, True), repeat=3):
        if not (a and b and c):
            assert VERDICT_OF[state(a, b, c, [one])] is Verdict.INSUFFICIENT_SUPPORT


def test_a_crossing_takes_the_place_of_what_bounds_say_and_of_nothing_else() -> None:
    stays = {State.SUPPRESSED, State.INSUFFICIENT_SUPPORT, State.MATURING, State.BREACH}
    for one in State:
        assert with_crossing(one) is (one if one in stays else State.BREACH)
