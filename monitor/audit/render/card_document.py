"""A scorecard as sections: first what blocks, then every dimension by itself, and never a total."""

from __future__ import annotations

from collections.abc import Iterator

from monitor.audit.render.layout import AuditDocument, AuditSection, Brief
from monitor.audit.render.words import NOTHING, counted, p_value
from monitor.audit.scorecard.card import (
    BenchmarkRow,
    DimensionVerdict,
    Scorecard,
    ScoreChange,
    ScoredDimension,
)
from monitor.audit.scorecard.scoring import FEW_ITEMS
from monitor.drawing.tables import TableCell, Tone, printable, table

_WORDS = {
    DimensionVerdict.PASS: ("pass", Tone.GOOD),
    DimensionVerdict.FAIL: ("FAIL", Tone.BAD),
    DimensionVerdict.WORSE: ("WORSE than the baseline", Tone.BAD),
    DimensionVerdict.OVERDUE: ("OVERDUE", Tone.BAD),
    DimensionVerdict.NOT_MEASURED: ("NOT MEASURED", Tone.BAD),
    DimensionVerdict.DIAGNOSTIC: ("diagnostic", Tone.PLAIN),
}
_SMALLEST = 5e-4
"""Below it a change is not in the digits that are shown."""
_NO_TOTAL = (
    "Each dimension stands for itself: there is no total, and one that passes says nothing of"
    " another."
)
_POINT = (
    "The score of the set decides. The interval says where another set of the same size and kind"
    " might have come out; a distance is never below 0, so an interval above 0 is no evidence."
)


def card_document(card: Scorecard) -> AuditDocument:
    """All of a scorecard, as sections."""
    word, tone = ("BLOCKED", Tone.BAD) if card.blocked else ("PASSED", Tone.GOOD)
    return AuditDocument(
        title=printable(f"Bias scorecard of {card.name}"),
        word=word,
        tone=tone,
        verdict=_verdict(card),
        counts=_NO_TOTAL,
        banner="",
        facts=(("made", f"on {card.made} by slicewatch {card.version}"),),
        sections=tuple(_sections(card)),
        decision=AuditSection("Decision", (_verdict(card),), None, Brief.ALL),
        folded="Sets, versions, owners, parts and formulas",
    )


def _verdict(card: Scorecard) -> str:
    gated = [one for one in card.dimensions if one.verdict is not DimensionVerdict.DIAGNOSTIC]
    if not gated:
        return "No dimension has a limit, so nothing is decided."
    if card.blocked:
        names = ", ".join(one.name for one in card.blocked)
        of = counted(len(gated), "dimension")
        return f"{len(card.blocked)} of {of} with a limit block: {names}."
    return f"No score of {counted(len(gated), 'dimension')} is beyond its limit."


def _sections(card: Scorecard) -> Iterator[AuditSection]:
    yield _dimensions(card)
    tickets = [one for one in card.dimensions if one.recalibrate]
    if tickets:
        yield _tickets(tickets)
    if any(one.previous or one.baseline for one in card.dimensions):
        yield _changes(card)
    yield _sets(card)
    yield _parts(card)
    yield _formulas(card)
    if card.benchmarks:
        yield _benchmarks(card.benchmarks)


def _dimensions(card: Scorecard) -> AuditSection:
    rows = (
        (
            one.name,
            TableCell(*_WORDS[one.verdict]),
            _score(one),
            _limit(one),
            _interval(one),
            f"{one.items:,}",
            "\n".join(_remarks(one)) or NOTHING,
        )
        for one in card.dimensions
    )
    columns = "dimension|verdict|score|limit|95 % interval|items|to know"
    return AuditSection("Dimensions", (_POINT,), table(columns, rows), Brief.ALL)


def _remarks(one: ScoredDimension) -> Iterator[str]:
    if one.urgent:
        yield "high priority"
    if one.recalibrate:
        yield "recalibration ticket: it has drifted"
    if one.why:
        yield one.why
    if one.verdict is DimensionVerdict.OVERDUE:
        yield f"measured on {one.measured}, which is longer ago than {one.cadence}"
    if one.few:
        yield f"fewer than {FEW_ITEMS} items: another set might well decide otherwise"
    if one.left_out:
        yield f"{counted(one.left_out, 'item')} left out: not in every variant"
    if one.p_value is not None:
        yield f"p = {p_value(one.p_value)} (permutations)"
    if one.limitation:
        yield one.limitation


def _tickets(tickets: list[ScoredDimension]) -> AuditSection:
    rows = ((one.name, one.owner, _change(one.previous, one)) for one in tickets)
    note = "A score has become so much worse since the last time that its set or judge is to be"
    return AuditSection(
        "Recalibration tickets",
        (f"{note} looked at again.",),
        table("dimension|owner|since the last time", rows),
        Brief.ALL,
    )


def _changes(card: Scorecard) -> AuditSection:
    rows = (
        (one.name, _change(one.previous, one), _change(one.baseline, one))
        for one in card.dimensions
    )
    found = table("dimension|since the last time|beside the baseline", rows)
    return AuditSection("Changes", (), found, Brief.ALL)


def _change(change: ScoreChange | None, one: ScoredDimension) -> str:
    if change is None or one.score is None:
        return NOTHING
    by = change.worse_by
    how = "as it was" if abs(by) < _SMALLEST else f"{abs(by):.3f} {'worse' if by > 0 else 'better'}"
    return f"{_number(change.score)} on {change.measured}, now {_number(one.score)}: {how}"


def _sets(card: Scorecard) -> AuditSection:
    rows = (
        (
            one.name,
            f"{one.probe_set} {one.probe_version}",
            one.model,
            one.rubric or NOTHING,
            one.measured,
            one.cadence,
            one.owner,
            "synthetic" if one.synthetic else "reviewed data of real people, guarded",
        )
        for one in card.dimensions
    )
    columns = "dimension|probe set|model|rubric|measured|cadence|owner|kind"
    return AuditSection("Sets, versions and owners", (), table(columns, rows))


def _parts(card: Scorecard) -> AuditSection:
    rows = (
        (
            one.name,
            part.name,
            NOTHING if part.value is None else _number(part.value),
            f"{part.items:,}",
        )
        for one in card.dimensions
        for part in one.parts
    )
    found = table("dimension|variant, slice or set|value|items", rows)
    notes = () if found else ("Parts of scores of real people are not shown.",)
    return AuditSection("Parts of the scores", notes, found)


def _formulas(card: Scorecard) -> AuditSection:
    first = {one.measure: one for one in card.dimensions}
    rows = ((one.title, one.meaning, one.scale, one.source) for one in first.values())
    return AuditSection("What the scores mean", (), table("score|meaning|range|source", rows))


def _benchmarks(benchmarks: tuple[BenchmarkRow, ...]) -> AuditSection:
    rows = (
        (
            one.name,
            one.benchmark,
            f"{one.metric} {_number(one.value)}",
            f"{one.items:,}",
            f"{one.model}, {one.measured}",
            one.owner,
            one.limitation,
        )
        for one in benchmarks
    )
    columns = "row|benchmark|result|items|model, measured|owner|limitation"
    note = "Diagnostic: a public set may have been seen in training, and never decides a release."
    return AuditSection("Benchmarks", (note,), table(columns, rows))


def _score(one: ScoredDimension) -> str:
    return NOTHING if one.score is None else _number(one.score)


def _limit(one: ScoredDimension) -> str:
    if one.limit is None:
        return "none"
    return f"{'at least' if one.lower_is_worse else 'at most'} {_number(one.limit)}"


def _interval(one: ScoredDimension) -> str:
    if one.low is None or one.high is None:
        return NOTHING
    return f"{_number(one.low)} to {_number(one.high)}"


def _number(value: float) -> str:
    return f"{value:.3f}"
