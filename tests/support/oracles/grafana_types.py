"""Grafana's own types of a dashboard, as its library publishes them, held against our JSON.

The library reads leniently: it drops what it does not know and takes any value. So a document is
read and written again, to see what was dropped, and every value is held against its declared type.
"""

from __future__ import annotations

import enum
import json
import types
import typing
import warnings
from collections.abc import Iterator
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it prefers its newer model
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models import dashboard as model

register_default_plugins()


def faults(document: dict[str, Any]) -> list[str]:
    """What Grafana's types do not know or do not allow, each with its path."""
    read = model.Dashboard.from_json(document)
    written = json.loads(json.dumps(read, cls=JSONEncoder))
    return [*_dropped(document, written, "$"), *_wrong(read, model.Dashboard, "$")]


def _dropped(ours: Any, theirs: Any, path: str) -> Iterator[str]:
    """What is in a document and not in what was read of it; more may be there, such as defaults."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            if key in theirs:
                yield from _dropped(value, theirs[key], f"{path}.{key}")
            elif value is not None:
                yield f"{path}.{key} is unknown"
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, pair in enumerate(zip(ours, theirs, strict=True)):
            yield from _dropped(*pair, f"{path}[{index}]")
    elif ours != theirs:
        yield f"{path} was read as something else: {theirs!r}"


def _wrong(value: Any, hint: Any, path: str) -> Iterator[str]:
    """Values that are not of their declared type."""
    if isinstance(value, dict) and (known := _known(hint)):
        read = known.from_json(value)  # the library left it as it was
        yield from _dropped(value, json.loads(json.dumps(read, cls=JSONEncoder)), path)
        value = read
    if not _is(value, hint):
        yield f"{path} is no {hint}: {value!r}"
    elif isinstance(value, list):
        (item,) = _arguments(hint, list) or (Any,)
        for index, one in enumerate(value):
            yield from _wrong(one, item, f"{path}[{index}]")
    elif isinstance(value, dict):
        arguments = _arguments(hint, dict) or (str, Any)
        for key, one in value.items():
            yield from _wrong(one, arguments[1], f"{path}.{key}")
    elif hasattr(value, "to_json"):
        hints = typing.get_type_hints(type(value).__init__)
        for name, one in vars(value).items():
            if one is not None:
                yield from _wrong(one, hints.get(name, Any), f"{path}.{name}")


def _known(hint: Any) -> Any:
    """The library's type for an object; None where it is a table of any keys."""
    found = (one for one in (hint, *typing.get_args(hint)) if hasattr(one, "from_json"))
    return next(found, None)


def _arguments(hint: Any, kind: type) -> tuple[Any, ...]:
    """Of a list or dict, also where it is one of several types."""
    found = (one for one in (hint, *typing.get_args(hint)) if typing.get_origin(one) is kind)
    return typing.get_args(next(found, None))


def _is(value: Any, hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_is(value, one) for one in typing.get_args(hint))
    if origin is typing.Literal:
        return value in typing.get_args(hint)
    if hint is Any:
        return True
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return value in [one.value for one in hint]
    if isinstance(value, bool):  # an integer as well, to Python
        return hint in (bool, object)
    return isinstance(value, int | float if hint is float else origin or hint)
