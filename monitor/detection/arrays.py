"""State of detectors as bytes: named arrays, exact to the bit."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s

Arrays = dict[str, npt.NDArray[Any]]

VERSION = 1
"""Version of the stored form; it changes when older bytes cannot be read."""


def encode(arrays: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, object]) -> bytes:
    """Encode arrays and facts (JSON types) as bytes; equal inputs give equal bytes.

    Example:
        >>> body = encode({"log_r": np.array([0.1, -np.inf])}, {"day": 3})
        >>> arrays, facts = decode(body)
        >>> arrays["log_r"].tolist(), facts
        ([0.1, -inf], {'day': 3})
    """
    names = sorted(arrays)
    shapes = [[name, arrays[name].dtype.str, list(arrays[name].shape)] for name in names]
    head = json.dumps({"version": VERSION, "arrays": shapes, "facts": facts}, sort_keys=True)
    raw = b"".join(np.ascontiguousarray(arrays[name]).tobytes() for name in names)
    text = head.encode()
    return zlib.compress(len(text).to_bytes(4, "little") + text + raw, 1)


def decode(body: bytes) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and facts that :func:`encode` was given.

    Raises:
        ValueError: if the bytes are damaged, or of another version.
    """
    try:
        data = zlib.decompress(body)
    except zlib.error as error:
        raise ValueError("the stored state of a detector is damaged") from error
    start = 4 + int.from_bytes(data[:4], "little")
    head = json.loads(data[4:start])
    if head["version"] != VERSION:
        raise ValueError(f"detector state of version {head['version']}, not {VERSION}")
    arrays: Arrays = {}
    for name, kind, shape in head["arrays"]:
        dtype = np.dtype(kind)
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(data[start : start + size], dtype).reshape(shape).copy()
        start += size
    return arrays, head["facts"]


def prefixed(name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Arrays:
    """Return the arrays with names ``name.key``, to store them with others; see :func:`part`."""
    return {f"{name}.{key}": values for key, values in arrays.items()}


def part(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> Arrays:
    """Return the arrays whose names begin with ``name.``, without this prefix."""
    start = f"{name}."
    return {
        key.removeprefix(start): values for key, values in arrays.items() if key.startswith(start)
    }


def positions(names: Sequence[str], wanted: Sequence[str]) -> Int64s:
    """Return the position of each wanted name among ``names``; -1 for an unknown one."""
    position_of = {name: position for position, name in enumerate(names)}
    return np.array([position_of.get(name, -1) for name in wanted], np.int64)
