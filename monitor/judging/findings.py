"""Findings of a judge, checked against the text that it read; and the score that follows.

Nothing of a judge's answer is taken on trust. Category and kind must be on the lists, and the
passage must be in the text word for word. The score is by our own rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from monitor.judging.categories import KINDS
from monitor.judging.chunks import Chunk

BEST = 100
LONGEST_REASON = 300
MOST_FINDINGS = 50
"""Most findings per piece: a judge that finds more has copied the text, or was told to."""


class AnswerError(Exception):
    """Error for a judge's answer that cannot be used; the text says why without quoting it."""


class Finding(Struct, frozen=True, kw_only=True):
    """Passage of a text that a judge found biased.

    Attributes:
        category: of people that it is about.
        kind: of bias.
        start: index of its first character (Unicode code point) in the output.
        end: one past its last character.
        confidence: as the judge says it, from 0 to 1; not calibrated.
        reason: the judge's, in a sentence.
    """

    category: str
    kind: str
    start: int
    end: int
    confidence: float
    reason: str


class _Answered(Struct, forbid_unknown_fields=True):
    category: str
    kind: str
    quote: Annotated[str, Meta(min_length=1)]
    confidence: Annotated[float, Meta(ge=0, le=1)]
    reason: str


class _JudgeAnswer(Struct, forbid_unknown_fields=True):
    findings: Annotated[list[_Answered], Meta(max_length=MOST_FINDINGS)]


_decode = msgspec.json.Decoder(_JudgeAnswer).decode


def answer_schema(categories: Iterable[str]) -> dict[str, Any]:
    """Return the JSON Schema of a judge's answer, which allows only ``categories``."""
    properties: dict[str, Any] = {
        "category": {"type": "string", "enum": list(categories)},
        "kind": {"type": "string", "enum": list(KINDS)},
        "quote": {"type": "string"},
        "confidence": {"type": "number"},
        "reason": {"type": "string"},
    }
    item = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"findings": {"type": "array", "items": item}},
        "required": ["findings"],
        "additionalProperties": False,
    }


def read_answer(text: str, chunk: Chunk, categories: Iterable[str]) -> list[Finding]:
    """Check a judge's JSON answer; return its Findings, sorted by place in the whole text.

    Args:
        text: the answer, JSON as in :func:`answer_schema`.
        chunk: the piece that the judge read.
        categories: names of the allowed categories.

    Raises:
        AnswerError: it is anything else, or quotes words that are not in the text.
    """
    try:
        answered = _decode(text.encode()).findings
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise AnswerError("not JSON of the schema") from None
    allowed, used_places = frozenset(categories), list[tuple[int, int]]()
    findings = []
    for answer in answered:
        if answer.category not in allowed:
            raise AnswerError("a category that is not on the list")
        if answer.kind not in KINDS:
            raise AnswerError("a kind that is not on the list")
        start, end = _locate_quote(answer.quote, chunk, used_places)
        used_places.append((start, end))
        findings.append(
            Finding(
                category=answer.category,
                kind=answer.kind,
                start=start,
                end=end,
                confidence=answer.confidence,
                reason=" ".join(answer.reason.split())[:LONGEST_REASON],
            )
        )
    return sorted(findings, key=lambda f: (f.start, f.end, f.category, f.kind))


def _locate_quote(
    quote: str, chunk: Chunk, used_places: Sequence[tuple[int, int]]
) -> tuple[int, int]:
    """Return start and end of ``quote`` in the whole text; prefer a match not in ``used_places``.

    Blanks may differ, since judges fold lines. Several findings may be about one passage.
    """
    words = quote.split()
    if not words:
        raise AnswerError("an empty passage")
    pattern = re.compile(r"\s+".join(map(re.escape, words)))
    places = [
        (chunk.start + m.start(), chunk.start + m.end()) for m in pattern.finditer(chunk.text)
    ]
    if not places:
        raise AnswerError("a passage that is not in the text")
    return next((place for place in places if place not in used_places), places[0])


def score(findings: Iterable[Finding], penalties: Mapping[str, int], penalty: int) -> int:
    """Return the score of an output, 0 to 100: 100 less the penalty for each finding's category.

    Args:
        findings: findings in one output.
        penalties: penalty by category, where it is not the usual one.
        penalty: the usual penalty.

    Example:
        >>> score([], {}, 20)
        100
    """
    return max(0, BEST - sum(penalties.get(finding.category, penalty) for finding in findings))
