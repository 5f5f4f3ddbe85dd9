"""What somebody learns who sends decisions of their own, and knows all but the last one.

Nothing but noise helps against that; these tests state how much it takes and what it tells, and
that fewer tell nothing.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from audited import contract_of, real_settings, reviewed_pairs
from cubes import CODING, Cell, auto, build_contract, contract, review, window

from monitor.audit.inputs import Pair
from monitor.audit.slices import audit_coding, slices_of
from monitor.core.contract import GroupBy
from monitor.core.publish.snapshot import SliceRow

K = 11
SETTINGS = contract(GroupBy(("channel",)), k=K)
OTHERS = [auto({"channel": "web"}, 300), review({"channel": "web"}, 200)]


def row(cells: list[Cell]) -> SliceRow | None:
    """The row of the small slice, in the window without labels."""
    (shown,) = build_contract(SETTINGS, CODING, [window([*OTHERS, *cells], "1h")]).windows
    (group,) = shown.groups
    return next((one for one in group.rows if one.slice == "channel=chat"), None)


def sent(served: int, reviewed: int) -> list[Cell]:
    """What the slice holds: of the insider, and of others."""
    chat = {"channel": "chat"}
    return [auto(chat, served), review(chat, reviewed)]


@pytest.mark.parametrize("real", range(1, K))
def test_who_sends_all_but_one_of_k_learns_that_the_slice_is_not_empty(real: int) -> None:
    """And no more: whatever others sent, 1 to k - 1, the row is the same."""
    with_one, with_more = row(sent(K - 1 + 1, 0)), row(sent(K - 1 + real, 0))
    assert with_one is not None
    assert with_one == with_more
    assert row(sent(K - 1, 0)) is None


@pytest.mark.parametrize("own", [(2 * K - 2, 0), (0, 2 * K - 2), (K - 2, K), (K, K - 2)])
def test_who_sends_fewer_than_all_but_one_of_k_on_a_route_does_not_learn_the_last_one(
    own: tuple[int, int],
) -> None:
    """Of a single decision of somebody else: whether it was served."""
    served, reviewed = own
    assert row(sent(served + 1, reviewed)) == row(sent(served, reviewed + 1))


def test_who_sends_all_but_one_of_k_on_both_routes_does() -> None:
    """This is what the page on privacy lists as not protected."""
    assert row(sent(K, K - 1)) != row(sent(K - 1, K))


# Audit reports of a set of real people that grows: every report is guarded by itself, and no report
# knows of the one before.

REAL = real_settings()
GROWING = reviewed_pairs(90, seed=2)


def reported(pairs: list[Pair]) -> object:
    """All slices of an audit, as its report shows them."""
    rows = tuple(line for pair in pairs for line in pair.rows)
    groups = slices_of(rows, contract_of(REAL), audit_coding(REAL.coding))
    return tuple(group.rows for group in groups)


def otherwise(pair: Pair) -> Pair:
    """The same pair, with the other label."""
    return replace(
        pair,
        rows=tuple(
            replace(line, item=replace(line.item, expected_ready=not line.item.expected_ready))
            for line in pair.rows
        ),
    )


def told(size: int, more: int) -> bool:
    """Whether a reader of two reports, the second with one or more pairs, sees the last label."""
    before, (*between, last) = GROWING[:size], GROWING[size : size + more]
    known = [*before, *between]
    first, second = reported(before), reported([*known, last])
    return first != second and second != reported([*known, otherwise(last)])


@pytest.mark.full
def test_two_reports_that_are_a_pair_apart_tell_its_label_now_and_then() -> None:
    """So reports of a growing set are for the same readers as the set: the page says so."""
    sizes = range(60, 89)
    seen = sum(told(size, 1) for size in sizes)
    assert 0 < seen < 0.5 * len(sizes)
