"""State as bytes: exact, the same for the same state, and never read by the wrong version."""

from __future__ import annotations

import json
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn

from monitor.detection.arrays import VERSION, decode, encode

KINDS = st.sampled_from([np.float64, np.int64, np.float32, np.int16, np.bool_])
ARRAYS = st.dictionaries(
    st.text("abc.", max_size=4),
    KINDS.flatmap(lambda kind: stn.arrays(kind, stn.array_shapes(min_dims=0, min_side=0))),
    max_size=4,
)
FACTS = st.dictionaries(
    st.text(max_size=4),
    st.integers() | st.floats(allow_nan=False) | st.lists(st.text()) | st.none(),
)


@given(ARRAYS, FACTS)
def test_everything_comes_back_bit_by_bit(
    arrays: dict[str, npt.NDArray[Any]], facts: dict[str, object]
) -> None:
    found, said = decode(encode(arrays, facts))
    assert said == facts
    assert found.keys() == arrays.keys()
    for name, values in arrays.items():
        assert found[name].dtype == values.dtype
        assert found[name].shape == values.shape
        assert found[name].tobytes() == values.tobytes()  # NaN and -0.0 too
        assert found[name].flags.writeable


@given(ARRAYS, FACTS)
def test_equal_states_have_equal_bytes(
    arrays: dict[str, npt.NDArray[Any]], facts: dict[str, object]
) -> None:
    """Whatever order they were put together in."""
    other = dict(reversed(arrays.items())), dict(reversed(facts.items()))
    assert encode(arrays, facts) == encode(*other)
    assert encode(*decode(encode(arrays, facts))) == encode(arrays, facts)


def test_how_an_array_lies_in_memory_does_not_matter() -> None:
    values = np.arange(12.0).reshape(3, 4)
    for one in (values[::2], values.T, np.asfortranarray(values), values[:, 1]):
        found, _ = decode(encode({"x": one}, {}))
        assert (found["x"] == one).all()
        assert encode({"x": one}, {}) == encode({"x": one.copy()}, {})


def test_another_version_is_refused() -> None:
    head = json.dumps({"version": VERSION + 1, "arrays": [], "facts": {}}).encode()
    body = zlib.compress(len(head).to_bytes(4, "little") + head)
    with pytest.raises(ValueError, match=f"version {VERSION + 1}, not {VERSION}"):
        decode(body)
