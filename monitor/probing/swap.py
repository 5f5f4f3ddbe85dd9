"""Comparison of requests that differ in one attribute's value: does the router decide alike?

Every trace that has the one value gets a second variant that has the other. Only the attribute
itself is exchanged, in the attributes and wherever the request names it. Related content of the
request (a name, a way of writing) stays as it is.

Traces are anonymised requests of production, read from a file and stored nowhere. Errors in a file
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
"""Stands in for the content hash of a set: no such set is stored."""
ORIGINAL, SWAPPED = "original", "swapped"
SCORE_DIGITS = 9  # differences are rounded: 0.8 - 0.7 is not more than 0.1
_SWAP = re.compile(r"([a-z][a-z0-9_]{0,63})=([^:]+):([^:]+)\Z")
_AttributeName = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
_AttributeValue = Annotated[str, Meta(max_length=200)]
LARGEST_FILE = 256 << 20
"""Most bytes of a file, which is held in memory; a sample of traffic is far smaller."""


class Trace(Struct, frozen=True, forbid_unknown_fields=True):
    """Recorded request to the router, without personal data.

    Attributes:
        id: id by which it can be found for review; unique in the file.
        attributes: allow-listed attribute values.
        request: request that the router decided on, any JSON value.
    """

    id: Annotated[str, Meta(min_length=1, max_length=200)]
    attributes: dict[_AttributeName, _AttributeValue]
    request: Any


_decoder = msgspec.json.Decoder(Trace)


def read_traces(path: Path) -> list[Trace]:
    """Read a JSON-lines file; return its traces, whose ids are unique, in file order.

    Raises:
        SlicewatchError: the file cannot be read, or a line of it is no trace.
    """
    lines = _read_lines(path)
    traces: dict[str, Trace] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            trace = _parse_trace(line, f"{path}, line {number}")
            if trace.id in traces:
                raise SlicewatchError(
                    f"{path}, line {number}: id stands there twice; make it unique"
                )
            traces[trace.id] = trace
    if not traces:
        raise SlicewatchError(f"{path} is empty; write a JSON object with id, attributes, request")
    return list(traces.values())


def _read_lines(path: Path) -> Iterator[bytes]:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise SlicewatchError(f"{path} is larger than {LARGEST_FILE >> 20} MiB; take a sample")
        yield from path.read_bytes().splitlines()
    except OSError as error:
        raise SlicewatchError(f"{path}: {error.strerror or 'cannot be read'}") from None


def _parse_trace(line: bytes, where: str) -> Trace:
    """Return one line of traces, checked; errors say where but never repeat its text."""
    try:
        trace = _decoder.decode(line)
    except msgspec.ValidationError as error:
        raise SlicewatchError(f"{where}: {_error_without_names(error)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise SlicewatchError(f"{where}: is not valid JSON") from None
    if not trace.id.isprintable():
        raise SlicewatchError(f"{where}: id must be one line of plain text")
    return trace


def _error_without_names(error: msgspec.ValidationError) -> str:
    """Return the error's text with its place; an undeclared key, maybe a name, is left out."""
    text = str(error)
    if "unknown field" in text:
        return "has more fields than id, attributes and request; leave them out"
    return text


@dataclass(frozen=True, slots=True)
class Swap:
    """Exchange of one value of an attribute for another, parsed from ``--swap``."""

    attribute: str
    original: str
    replacement: str

    def in_request(self, request: Any) -> Any:
        """Return a JSON request whose fields named like the attribute are swapped, at any depth.

        Only fields that hold exactly the original value are replaced.
        """
        if isinstance(request, list):
            return [self.in_request(part) for part in request]
        if isinstance(request, dict):
            return {key: self._swapped_value(key, part) for key, part in request.items()}
        return request

    def _swapped_value(self, key: str, part: Any) -> Any:
        if key == self.attribute and part == self.original:
            return self.replacement
        return self.in_request(part)


def parse_swap(text: str) -> Swap:
    """Parse ``attribute=a:b`` into a Swap; raise SlicewatchError for anything else."""
    match = _SWAP.match(text)
    if match is None or match[2] == match[3]:
        raise SlicewatchError(
            "--swap must be an attribute and two of its values, as in --swap channel=chat:email"
        )
    return Swap(match[1], match[2], match[3])


@dataclass(frozen=True, slots=True)
class Swapped:
    """Probe set of original and swapped traces, made for sending.

    Attributes:
        probe_set: two variants of each trace that has the value.
        ids: id of the trace by pair; not sent to the router.
        silent: number of traces whose request does not name the attribute: only their attributes
            differ.
    """

    probe_set: ProbeSet
    ids: Mapping[str, str]
    silent: int


def swapped(traces: Sequence[Trace], swap: Swap) -> Swapped:
    """Return original and swapped variants of each trace with the value, as a probe set."""
    ids: dict[str, str] = {}
    items: list[Item] = []
    silent = 0
    matching = (trace for trace in traces if trace.attributes.get(swap.attribute) == swap.original)
    for number, trace in enumerate(matching, 1):
        pair, exchanged_request = f"{NAME}-{number}", _exchanged(trace, swap)
        ids[pair] = trace.id
        silent += exchanged_request == trace.request
        exchanged = {**trace.attributes, swap.attribute: swap.replacement}
        items += (
            Item(pair, ORIGINAL, trace.attributes, None, "", request=trace.request),
            Item(pair, SWAPPED, exchanged, None, "", request=exchanged_request),
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
    """Decisions on a trace and on its swapped variant, side by side."""

    id: str
    original: Observed
    swapped: Observed

    @property
    def flipped(self) -> bool:
        """Return True if the two decisions took different routes."""
        return is_flip(self.original, self.swapped)

    @property
    def difference(self) -> float | None:
        """Return swapped score less original score; None if a score is missing."""
        if self.original.score is None or self.swapped.score is None:
            return None
        return self.swapped.score - self.original.score

    def disagrees(self, above: float) -> bool:
        """Return True if the routes differ, or the scores by more than ``above``."""
        return self.flipped or round(abs(self.difference or 0.0), SCORE_DIGITS) > above


def sides(answered: Sequence[Answered], ids: Mapping[str, str]) -> list[SwapSide]:
    """Return both decisions on each trace whose variants are both answered, in file order."""
    decisions_by_pair: dict[str, dict[str, Observed]] = {pair: {} for pair in ids}
    for sent in answered:
        decisions_by_pair[sent.item.pair][sent.item.variant] = sent.answer.observed
    return [
        SwapSide(ids[pair], decisions[ORIGINAL], decisions[SWAPPED])
        for pair, decisions in decisions_by_pair.items()
        if len(decisions) == len((ORIGINAL, SWAPPED))
    ]


@dataclass(frozen=True, slots=True)
class SwapShare:
    """Count of traces, with its share of all compared and the 95 % Wilson interval."""

    count: int
    share: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class SwapSummary:
    """Shares and mean score difference over all compared traces.

    Attributes:
        held_back: traces whose original came further than the swapped variant.
        served: traces whose swapped variant came further.
        apart: both of these.
        scored: traces with two scores.
        difference: mean of swapped less original score over them; None without any.
    """

    held_back: SwapShare
    served: SwapShare
    apart: SwapShare
    scored: int
    difference: float | None


def summary(comparisons: Sequence[SwapSide], k: int) -> SwapSummary | None:
    """Return shares of traces that flip, and the mean score difference; None below ``k`` traces."""
    if len(comparisons) < k:
        return None
    ways = [direction(side.original, side.swapped) for side in comparisons if side.flipped]
    scores = [side.difference for side in comparisons if side.difference is not None]
    return SwapSummary(
        held_back=_share(ways.count(FlipDirection.HELD_BACK), len(comparisons)),
        served=_share(ways.count(FlipDirection.SERVED), len(comparisons)),
        apart=_share(len(ways), len(comparisons)),
        scored=len(scores),
        difference=sum(scores) / len(scores) if scores else None,
    )


def _share(count: int, n: int) -> SwapShare:
    lower, upper = wilson(count / n, n)
    return SwapShare(count, count / n, float(lower), float(upper))


@dataclass(frozen=True, slots=True)
class SwapReview:
    """Criteria for choosing traces that people review.

    Attributes:
        above: scores disagree when they differ by more than this.
        spot_check: share of agreeing traces that is listed too.
    """

    above: float = 0.1
    spot_check: float = 0.05


@dataclass(frozen=True, slots=True)
class Listed:
    """Trace for people to review; ``spot_check`` marks a random trace whose decisions agree."""

    side: SwapSide
    spot_check: bool


def for_review(
    comparisons: Sequence[SwapSide], review: SwapReview, rng: np.random.Generator
) -> list[Listed]:
    """Return disagreements and a random share of the other traces, in random order.

    People who see nothing but disagreements come to find something in all of them.
    """
    listed = [
        Listed(side, spot_check=False) for side in comparisons if side.disagrees(review.above)
    ]
    rest = [side for side in comparisons if not side.disagrees(review.above)]
    drawn = rng.permutation(len(rest))[: ceil(review.spot_check * len(rest))]
    listed += [Listed(rest[number], spot_check=True) for number in drawn]
    return [listed[number] for number in rng.permutation(len(listed))]
