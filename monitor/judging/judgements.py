"""Judgement of an output: in pieces, each asked for until there is an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from monitor.judging.chunks import Chunk, chunks
from monitor.judging.findings import BEST, AnswerError, Finding, read_answer, score
from monitor.judging.judge_protocol import Judge, JudgeFailedError
from monitor.judging.output_events import Judgement, ModelOutput
from monitor.judging.prompt import VERSION, Prompt

ATTEMPTS = 3
"""Number of questions per piece while its answers cannot be used."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules that turn findings into a score, and the score into a flag.

    Attributes:
        threshold: outputs with a lower score are flagged; 100: with any finding.
        block: whether a flagged output is to be held back.
        penalty: points that a finding costs.
        penalties: points by category, where they differ.
        min_confidence: findings of less are left out; 0: none are, since it is not calibrated.
        longest: most characters of a piece.
    """

    threshold: int = BEST
    block: bool = False
    penalty: int = 20
    penalties: Mapping[str, int] = field(default_factory=dict)
    min_confidence: float = 0.0
    longest: int = 4_000


def judged(
    output: ModelOutput, judge: Judge, prompt: Prompt, rules: Rules, now: Callable[[], str]
) -> Judgement:
    """Ask about every piece; return the Judgement, with status "failed" if one has no answer.

    Args:
        output: the text.
        judge: the judge to ask.
        prompt: instructions of the judge.
        rules: rules from findings to the score.
        now: returns the time, ISO.
    """
    pieces = chunks(output.output, rules.longest)
    findings: list[Finding] = []
    try:
        for piece in pieces:
            findings += _ask_for_findings(piece, output, judge, prompt)
    except (JudgeFailedError, AnswerError) as error:
        return _failed_judgement(output, judge, prompt, now(), why=str(error), chunks=len(pieces))
    kept = tuple(finding for finding in findings if finding.confidence >= rules.min_confidence)
    points = score(kept, rules.penalties, rules.penalty)
    flagged = points < rules.threshold
    return Judgement(
        output_id=output.output_id,
        status="judged",
        judged_at=now(),
        score=points,
        flagged=flagged,
        blocked=flagged and rules.block,
        findings=kept,
        chunks=len(pieces),
        judge=judge.name,
        prompt_version=VERSION,
        prompt_sha256=prompt.digest,
    )


def unreadable(judge: Judge, prompt: Prompt, now: str, why: str) -> Judgement:
    """Return a Judgement with status "unreadable" and ``why``, for a message that is no output."""
    return Judgement(
        status="unreadable",
        why=why,
        judged_at=now,
        judge=judge.name,
        prompt_version=VERSION,
        prompt_sha256=prompt.digest,
    )


def _failed_judgement(
    output: ModelOutput, judge: Judge, prompt: Prompt, now: str, *, why: str, chunks: int
) -> Judgement:
    return Judgement(
        output_id=output.output_id,
        status="failed",
        why=why,
        judged_at=now,
        chunks=chunks,
        judge=judge.name,
        prompt_version=VERSION,
        prompt_sha256=prompt.digest,
    )


def _ask_for_findings(
    piece: Chunk, output: ModelOutput, judge: Judge, prompt: Prompt
) -> list[Finding]:
    question = prompt.question(piece, output.input, output.context)
    for attempt in range(1, ATTEMPTS + 1):
        answer = judge.ask(prompt.instructions, question)
        try:
            return read_answer(answer, piece, prompt.categories)
        except AnswerError as error:
            if attempt == ATTEMPTS:
                raise AnswerError(f"the judge's answers cannot be used: {error}") from None
    raise AssertionError
