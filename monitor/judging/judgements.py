"""Judgement of an output: in pieces, each asked for until there is an answer.

A question without an answer says little: the text may be at fault, or the endpoint. Before an
output fails, the judge is asked about a harmless sentence. Only if it answers that, the output has
failed; otherwise outputs wait.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from monitor.errors import SlicewatchError
from monitor.judging.chunks import Chunk, chunks
from monitor.judging.findings import AnswerError, Finding, read_answer, score
from monitor.judging.judge_protocol import (
    Judge,
    JudgeAwayError,
    JudgeBusyError,
    JudgeFailedError,
    JudgeRefusedError,
)
from monitor.judging.output_events import Judgement, ModelOutput, Status, UnreadableOutputError
from monitor.judging.prompt import VERSION, Prompt

ATTEMPTS = 3
"""Number of questions per piece while its answers cannot be used."""
ROUNDS = 3
"""Times that a busy endpoint must have answered another question before the output is at fault: a
rate limit spares a question by chance, and a poisonous text must not hold up the others for ever.
"""
HARMLESS = "All are welcome."
"""Text that any judge answers about: if it does not, no output is at fault."""


LONGEST = 4_000
"""Most characters of a piece: some 1,000 tokens, of which a small model still reads each."""


def judged(output: ModelOutput, judge: Judge, prompt: Prompt, now: Callable[[], str]) -> Judgement:
    """Ask about every piece; return the Judgement, with status "failed" if a text has no answer.

    Args:
        output: the text.
        judge: the judge to ask.
        prompt: instructions of the judge.
        now: returns the time, ISO.

    Raises:
        JudgeAwayError: the endpoint answers about no text.
        SlicewatchError: it refuses every question, for a reason that a person must mend.
    """
    pieces = [piece for piece in chunks(output.output, LONGEST) if piece.text.strip()]
    findings: list[Finding] = []
    try:
        for piece in pieces:
            question = prompt.question(piece, output.input, output.context)
            findings += _persist(piece, question, judge, prompt)
    except (JudgeFailedError, AnswerError) as error:
        failed = _judgement("failed", output.output_id, judge, prompt, now())
        return replace(failed, why=str(error), chunks=len(pieces))
    kept = tuple(finding for finding in findings if finding.confidence > 0)
    return replace(
        _judgement("judged", output.output_id, judge, prompt, now()),
        score=score(kept),
        flagged=bool(kept),
        findings=kept,
        chunks=len(pieces),
    )


def unreadable(judge: Judge, prompt: Prompt, now: str, error: UnreadableOutputError) -> Judgement:
    """Return a Judgement with status "unreadable", for a message that is no output."""
    return replace(_judgement("unreadable", error.output_id, judge, prompt, now), why=str(error))


def _judgement(
    status: Status, output_id: str | int | None, judge: Judge, prompt: Prompt, now: str
) -> Judgement:
    return Judgement(
        output_id=output_id,
        status=status,
        judged_at=now,
        judge=judge.name,
        prompt_version=VERSION,
        prompt_sha256=prompt.digest,
    )


def _persist(piece: Chunk, question: str, judge: Judge, prompt: Prompt) -> list[Finding]:
    """Return the findings in a piece; ask up to ROUNDS times while the judge is busy.

    After each failure a harmless question checks that the judge answers at all.

    Raises:
        JudgeFailedError, AnswerError: the judge answers the harmless question, but not this one.
        JudgeAwayError, SlicewatchError: see :func:`_check_judge`.
    """
    for left in range(ROUNDS - 1, -1, -1):
        try:
            return _ask_for_findings(piece, question, judge, prompt)
        except (JudgeFailedError, AnswerError) as error:
            _check_judge(judge, prompt)
            if not (left and isinstance(error, JudgeBusyError)):
                raise
    raise AssertionError


def _check_judge(judge: Judge, prompt: Prompt) -> None:
    """Ask about a harmless sentence, and return if there is a usable answer.

    Raises:
        JudgeAwayError: there is none; the endpoint is at fault.
        SlicewatchError: the endpoint refuses this question, too.
    """
    harmless = Chunk(0, HARMLESS)
    try:
        _ask_for_findings(harmless, prompt.question(harmless, None, None), judge, prompt)
    except JudgeRefusedError as error:
        raise SlicewatchError(error.remedy) from None
    except (JudgeFailedError, AnswerError) as error:
        raise JudgeAwayError(
            f"the judge answers about no text: {error}; check judge.url, or wait"
        ) from None


def _ask_for_findings(piece: Chunk, question: str, judge: Judge, prompt: Prompt) -> list[Finding]:
    """Return the findings in a piece; ask again, up to ATTEMPTS times, if an answer is unusable."""
    for attempt in range(1, ATTEMPTS + 1):
        answer = judge.ask(prompt.instructions, question)
        try:
            return read_answer(answer, piece, prompt.categories)
        except AnswerError as error:
            if attempt == ATTEMPTS:
                raise AnswerError(f"the judge's answers cannot be used: {error}") from None
    raise AssertionError
