"""The same request with one attribute's value exchanged: does the router decide alike?

For every trace that has the one value, a second variant is made that has the other. Only the
attribute itself is exchanged, in the attributes and wherever the request names it; what else in a
request goes with it (a name, a way of writing) stays as it is.

Traces are anonymised requests of production, read from a file and kept nowhere. Errors in a file
are reported by line and field; the content is not repeated.

Example:
    >>> swap = parse_swap("channel=chat:email")
    >>> swap.in_request({"channel": "chat", "text": "chat", "parts": [{"channel": "phone"}]})
    {'channel': 'email', 'text': 'chat', 'parts': [{'channel': 'phone'}]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct

from monitor.audit.inputs import Item, ProbeSet
from monitor.core.intervals import wilson
from monitor.core.probes.flips import FlipDirection, Observed, direction, is_flip
from monitor.errors import SlicewatchError
from monitor.probing.rounds import Answered

NAME = "swap"
"""Used in place of the content hash of a set: no such set is kept."""
ORIGINAL, SWAPPED = "original", "swapped"
SCORE_DIGITS = 9  # 0.8 - 0.7 is not more than 0.1
_SWAP = re.compile(r"([a-z][a-z0-9_]{0,63})=([^:]+):([^:]+)\Z")
_AttributeName = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
_AttributeValue = Annotated[str, Meta(max_length=200)]
LARGEST_FILE = 256 << 20
"""All of it is held in memory; a sample of traffic is far smaller."""


class Trace(Struct, frozen=True, forbid_unknown_fields=True):
    """One request as the router met it, without anything that says whose it was.

    Attributes:
        id: by which it can be found for review; unique in the file.
        attributes: allow-listed attribute values.
        request: what the router decided on, any JSON value.
    """

    id: Annotated[str, Meta(min_length=1, max_length=200)]
    attributes: dict[_AttributeName, _AttributeValue]
    request: Any


_decoder = msgspec.json.Decoder(Trace)


def read_traces(path: Path) -> list[Trace]:
    """All traces of a JSON-lines file.

    Raises:
        SlicewatchError: it cannot be read, or a line of it is no trace.
    """
    lines = _lines(path)
    found: dict[str, Trace] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            trace = _trace(line, f"{path}, line {number}")
            if trace.id in found:
                raise SlicewatchError(
                    f"{path}, line {number}: id stands there twice; make it unique"
                )
            found[trace.id] = trace
    if not found:
        raise SlicewatchError(f"{path} is empty; write a JSON object with id, attributes, request")
    return list(found.values())


def _lines(path: Path) -> Iterator[bytes]:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise SlicewatchError(f"{path} is larger than {LARGEST_FILE >> 20} MiB; take a sample")
        yield from path.read_bytes().splitlines()
    except OSError as error:
        raise SlicewatchError(f"{path}: {error.strerror or 'cannot be read'}") from None


def _trace(line: bytes, where: str) -> Trace:
    try:
        trace = _decoder.decode(line)
    except msgspec.ValidationError as error:
        raise SlicewatchError(f"{where}: {_without_names(error)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise SlicewatchError(f"{where}: is not valid JSON") from None
    if not trace.id.isprintable():
        raise SlicewatchError(f"{where}: id must be one line of plain text")
    return trace


def _without_names(error: msgspec.ValidationError) -> str:
    """Error text with its place; an undeclared key is left out: it could be somebody's name."""
    text = str(error)
    if "unknown field" in text:
        return "has more fields than id, attributes and request; leave them out"
    return text


@dataclass(frozen=True, slots=True)
class Swap:
    """One value of an attribute in the place of another."""

    attribute: str
    original: str
    replacement: str

    def in_request(self, request: Any) -> Any:
        """The request with the other value wherever the attribute is a key that has the one."""
        if isinstance(request, list):
            return [self.in_request(part) for part in request]
        if isinstance(request, dict):
            return {key: self._value(key, part) for key, part in request.items()}
        return request

    def _value(self, key: str, part: Any) -> Any:
        if key == self.attribute and part == self.original:
            return self.replacement
        return self.in_request(part)


def parse_swap(text: str) -> Swap:
    """``attribute=a:b``. Anything else: SlicewatchError."""
    match = _SWAP.match(text)
    if match is None or match[2] == match[3]:
        raise SlicewatchError(
            "--swap must be an attribute and two of its values, as in --swap channel=chat:email"
        )
    return Swap(match[1], match[2], match[3])


@dataclass(frozen=True, slots=True)
class Swapped:
    """Traces as they are sent, with their swapped variants.

    Attributes:
        probe_set: two variants of each trace that has the value.
        ids: id of the trace by pair; not sent to the router.
        silent: traces whose request does not name the attribute: in them the attributes alone
            differ.
    """

    probe_set: ProbeSet
    ids: Mapping[str, str]
    silent: int


def swapped(traces: Sequence[Trace], swap: Swap) -> Swapped:
    """Both variants of every trace that has the value. None has: SlicewatchError."""
    ids: dict[str, str] = {}
    items: list[Item] = []
    silent = 0
    found = (one for one in traces if one.attributes.get(swap.attribute) == swap.original)
    for number, trace in enumerate(found, 1):
        pair, other = f"{NAME}-{number}", _exchanged(trace, swap)
        ids[pair] = trace.id
        silent += other == trace.request
        exchanged = {**trace.attributes, swap.attribute: swap.replacement}
        items += (
            Item(pair, ORIGINAL, trace.attributes, None, "", request=trace.request),
            Item(pair, SWAPPED, exchanged, None, "", request=other),
        )
    if not items:
        raise SlicewatchError(
            f"no trace has the value that --swap exchanges in {swap.attribute}: check both"
        )
    return Swapped(ProbeSet(NAME, "", False, frozenset(), tuple(items)), ids, silent)


def _exchanged(trace: Trace, swap: Swap) -> object:
    try:
        return swap.in_request(trace.request)
    except RecursionError:
        raise SlicewatchError(f"trace {trace.id}: request is nested too deeply") from None


@dataclass(frozen=True, slots=True)
class SwapSide:
    """The two decisions on one trace, side by side."""

    id: str
    original: Observed
    swapped: Observed

    @property
    def flipped(self) -> bool:
        """True when they took different routes."""
        return is_flip(self.original, self.swapped)

    @property
    def difference(self) -> float | None:
        """Score of the swapped variant less that of the original; None without both."""
        if self.original.score is None or self.swapped.score is None:
            return None
        return self.swapped.score - self.original.score

    def disagrees(self, above: float) -> bool:
        """Return True when the routes differ, or the scores by more than ``above``."""
        return self.flipped or round(abs(self.difference or 0.0), SCORE_DIGITS) > above


def sides(answered: Sequence[Answered], ids: Mapping[str, str]) -> list[SwapSide]:
    """The traces of which both variants have an answer, in the order of the file."""
    seen: dict[str, dict[str, Observed]] = {pair: {} for pair in ids}
    for one in answered:
        seen[one.item.pair][one.item.variant] = one.answer.observed
    return [
        SwapSide(ids[pair], both[ORIGINAL], both[SWAPPED])
        for pair, both in seen.items()
        if len(both) == len((ORIGINAL, SWAPPED))
    ]


@dataclass(frozen=True, slots=True)
class SwapShare:
    """So many of the traces, with the 95 % Wilson interval of their share."""

    count: int
    share: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class SwapSummary:
    """Summary over all traces.

    Attributes:
        compared: traces with two decisions.
        held_back: the original came further than the swapped variant.
        served: the swapped variant came further.
        apart: either.
        scored: traces with two scores.
        difference: mean of swapped less original over them; None without any.
    """

    compared: int
    held_back: SwapShare
    served: SwapShare
    apart: SwapShare
    scored: int
    difference: float | None


def summary(found: Sequence[SwapSide], k: int) -> SwapSummary | None:
    """All together; None below k comparisons."""
    if len(found) < k:
        return None
    ways = [direction(one.original, one.swapped) for one in found if one.flipped]
    scores = [one.difference for one in found if one.difference is not None]
    return SwapSummary(
        compared=len(found),
        held_back=_share(ways.count(FlipDirection.HELD_BACK), len(found)),
        served=_share(ways.count(FlipDirection.SERVED), len(found)),
        apart=_share(len(ways), len(found)),
        scored=len(scores),
        difference=sum(scores) / len(scores) if scores else None,
    )


def _share(count: int, n: int) -> SwapShare:
    lower, upper = wilson(count / n, n)
    return SwapShare(count, count / n, float(lower), float(upper))


@dataclass(frozen=True, slots=True)
class SwapReview:
    """Choice of traces for people to look at.

    Attributes:
        above: scores that differ by more than that disagree.
        spot_check: share of those that agree which is listed, too.
    """

    above: float = 0.1
    spot_check: float = 0.05


@dataclass(frozen=True, slots=True)
class Listed:
    """A trace to look at; ``spot_check``: chosen at random from those that agree."""

    side: SwapSide
    spot_check: bool


def for_review(
    found: Sequence[SwapSide], review: SwapReview, rng: np.random.Generator
) -> list[Listed]:
    """Disagreements, and a random share of the rest, in random order.

    Whoever is shown nothing but disagreements comes to find something in all of them.
    """
    listed = [Listed(one, spot_check=False) for one in found if one.disagrees(review.above)]
    rest = [one for one in found if not one.disagrees(review.above)]
    drawn = rng.permutation(len(rest))[: ceil(review.spot_check * len(rest))]
    listed += [Listed(rest[number], spot_check=True) for number in drawn]
    return [listed[number] for number in rng.permutation(len(listed))]
