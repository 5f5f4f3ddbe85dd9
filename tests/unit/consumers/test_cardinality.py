"""How many distinct values there were, within the error that the sketch claims."""

from __future__ import annotations

import random
import secrets

import pytest

from consumers.cardinality import STANDARD_ERROR, DistinctSketch, UnlistedValues


def sketch_of(texts: range, key: bytes = b"key") -> DistinctSketch:
    sketch = DistinctSketch(key)
    for number in texts:
        sketch.add(f"value {number}")
    return sketch


@pytest.mark.parametrize("distinct", [1, 10, 11, 100, 1_000, 5_000, 7_000, 10_000, 100_000])
def test_three_standard_errors_hold(distinct: int) -> None:
    """Over the range in which the first estimators were biased, too."""
    estimate = sketch_of(range(distinct)).estimate()
    assert estimate == pytest.approx(distinct, rel=3 * STANDARD_ERROR, abs=0.5)


@pytest.mark.full
def test_no_bias_over_many_keys() -> None:
    """The mean of 100 sketches lies within three standard errors of such a mean."""
    for distinct in (50, 3_000, 8_000):
        estimates = [sketch_of(range(distinct), b"%d" % i).estimate() for i in range(100)]
        assert sum(estimates) / 100 == pytest.approx(distinct, rel=0.3 * STANDARD_ERROR)


def test_nothing_is_zero_and_a_repetition_changes_nothing() -> None:
    assert DistinctSketch(b"key").estimate() == 0
    texts = [f"value {i % 40}" for i in range(4_000)]
    random.Random(7).shuffle(texts)
    shuffled = DistinctSketch(b"key")
    for text in texts:
        shuffled.add(text)
    assert shuffled.estimate() == sketch_of(range(40)).estimate()


def test_any_text_can_be_added() -> None:
    texts = DistinctSketch(b"key")
    for text in ("", "\x00", "\U0001f600", "x" * 10**6):
        texts.add(text)
    assert round(texts.estimate()) == 4


def test_the_memory_is_fixed_and_holds_no_value() -> None:
    sketch = sketch_of(range(50_000))
    assert len(sketch.ranks) == 2_048
    assert vars(sketch).keys() == {"_keyed", "ranks"}


def test_traces_mean_nothing_without_the_key() -> None:
    """Whoever has the registers cannot tell by another key which values were there."""
    mine, theirs = sketch_of(range(100), b"a"), sketch_of(range(100), b"b")
    same = {i for i, rank in enumerate(mine.ranks) if rank} & {
        i for i, rank in enumerate(theirs.ranks) if rank
    }
    assert len(same) < 20, "as many as two random sets of 100 of 2048 have in common: about 5"


def test_every_attribute_has_a_number_and_a_new_day_begins_with_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = iter([b"first", b"second", b"third"])
    monkeypatch.setattr(secrets, "token_bytes", lambda _: next(keys))
    values = UnlistedValues(["channel", "tier"])
    assert values.estimates() == {"channel": 0, "tier": 0}
    for number in range(20):
        values.add("channel", f"value {number}")
        values.add("channel", f"value {number}")
    assert values.estimates() == {"channel": 20, "tier": 0}
    values.clear()
    assert values.estimates() == {"channel": 0, "tier": 0}
    values.add("channel", "value 1")
    assert values._sketches["channel"].ranks == sketch_of(range(1, 2), b"second").ranks
