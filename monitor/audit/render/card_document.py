"""Layout of a scorecard: blocking dimensions first, then each dimension by itself, and no total."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from monitor.audit.render.words import p_value
from monitor.audit.scorecard.card import (
    BenchmarkRow,
    DimensionVerdict,
    Scorecard,
    ScoreChange,
    ScoredDimension,
)
from monitor.audit.scorecard.card_file import FEW_ITEMS
from monitor.audit.scorecard.measures import ADVICE
from monitor.core.publish.words import NONE, counted
from monitor.present.document import Brief, Document, Section, TableCell, Tone, printable, table

_WORDS = {
    DimensionVerdict.PASS: ("pass", Tone.GOOD),
    DimensionVerdict.FAIL: ("FAIL", Tone.BAD),
    DimensionVerdict.WORSE: ("WORSE than the baseline", Tone.BAD),
    DimensionVerdict.INCONCLUSIVE: ("INCONCLUSIVE", Tone.BAD),
    DimensionVerdict.NOT_COMPARED: ("NOT COMPARED", Tone.BAD),
    DimensionVerdict.NOT_MEASURED: ("NOT MEASURED", Tone.BAD),
    DimensionVerdict.DIAGNOSTIC: ("diagnostic", Tone.PLAIN),
}
_SMALLEST = 5e-4
"""A smaller change does not appear in the three digits shown."""
_NO_TOTAL = "There is no total: a dimension that passes says nothing of another."
_POINT = (
    "The score of a synthetic set decides: its items are all there are. Of real people the whole"
    " interval must keep the limit. The interval says where another set of the same size and kind"
    " might have come out; a distance is never below 0, so an interval above 0 is no evidence."
)
_LIMITATIONS = (
    "A score is of a probe set, not of your customers, and of the wordings that the set has.",
    "A set that the model has seen in training says nothing.",
    "Where a model or a rubric judged the answers, its own biases are in the score.",
    "A difference says neither why it is there nor whom it harms; a low score excludes no harm.",
    "Tests of embeddings and of log probabilities need not show in what the model writes.",
)


def card_document(card: Scorecard) -> Document:
    """Lay out a scorecard as a document of sections, for any renderer."""
    word, tone = ("BLOCKED", Tone.BAD) if card.blocked else ("PASSED", Tone.GOOD)
    return Document(
        title=printable(f"Bias scorecard of {card.name}"),
        word=word,
        tone=tone,
        verdict=_verdict(card),
        counts=_NO_TOTAL,
        banner=_banner(card),
        facts=(
            ("developer", card.developer or "not named"),
            ("made", f"on {card.made} by slicewatch {card.version}"),
        ),
        sections=(*_sections(card), Section("Decision", (_verdict(card),), brief=Brief.FIRST)),
        folded="Sets, versions, owners, parts and formulas",
    )


def _banner(card: Scorecard) -> str:
    """Return which sets are invented; empty if all are of real people."""
    names = [dimension.name for dimension in card.dimensions if dimension.synthetic]
    if not names:
        return ""
    every = len(names) == len(card.dimensions)
    sets = "All sets are" if every else f"The sets of {', '.join(names)} are"
    return f"{sets} synthetic: invented test conditions, not groups of people."


def _verdict(card: Scorecard) -> str:
    """Return the sentence that sums up a card: which dimensions with a limit block."""
    gated = [
        dimension
        for dimension in card.dimensions
        if dimension.verdict is not DimensionVerdict.DIAGNOSTIC
    ]
    if not gated:
        return "No dimension has a limit, so nothing is decided."
    if card.blocked:
        names = ", ".join(dimension.name for dimension in card.blocked)
        limited = counted(len(gated), "dimension")
        return f"{len(card.blocked)} of {limited} with a limit block: {names}."
    return f"No score of {counted(len(gated), 'dimension')} is beyond its limit."


def _sections(card: Scorecard) -> Iterator[Section]:
    """Yield the card's sections in their order, without those that have nothing to say."""
    yield _dimensions(card)
    if card.blocked:
        yield _advice(card.blocked)
    tickets = [dimension for dimension in card.dimensions if dimension.recalibrate]
    if tickets:
        yield _tickets(tickets)
    if any(dimension.previous or dimension.baseline for dimension in card.dimensions):
        yield _changes(card)
    yield _sets(card)
    yield _parts(card)
    yield _formulas(card)
    if card.benchmarks:
        yield _benchmarks(card.benchmarks)
    yield Section("What no score says", _LIMITATIONS)


def _advice(blocked: Iterable[ScoredDimension]) -> Section:
    rows = ((dimension.name, dimension.owner, _next_step(dimension)) for dimension in blocked)
    note = "Hypotheses to test. A repair of one dimension may worsen another: compare all of them."
    return Section("What to do", (note,), table("dimension|owner|next", rows), Brief.ALL)


def _next_step(dimension: ScoredDimension) -> str:
    """Return what to do about a dimension, by its verdict."""
    match dimension.verdict:
        case DimensionVerdict.FAIL | DimensionVerdict.WORSE:
            return ADVICE[dimension.measure]
        case DimensionVerdict.NOT_MEASURED | DimensionVerdict.INCONCLUSIVE:
            return "collect more items, of every slice"
        case DimensionVerdict.NOT_COMPARED:
            return "measure the model in use on this set and version, too"
        case _:
            return "measure it again"


def _dimensions(card: Scorecard) -> Section:
    rows = (
        (
            dimension.name,
            TableCell(*_WORDS[dimension.verdict]),
            _score(dimension),
            _limit(dimension),
            _interval(dimension),
            f"{dimension.items:,}",
            "\n".join(_remarks(dimension)) or NONE,
        )
        for dimension in card.dimensions
    )
    columns = "dimension|verdict|score|limit|95 % interval|items|to know"
    return Section("Dimensions", (_POINT,), table(columns, rows), Brief.ALL)


def _remarks(dimension: ScoredDimension) -> Iterator[str]:
    """Yield what a reader must know besides a score: urgency, drift, its absence, few items."""
    if dimension.urgent:
        yield "high priority"
    if dimension.recalibrate:
        yield "recalibration ticket: it has drifted"
    if dimension.why:
        yield dimension.why
    if dimension.overdue:
        yield f"OVERDUE: {dimension.overdue}"
    if dimension.moved:
        yield f"furthest apart: {dimension.moved}"
    if dimension.limit is not None and 0 < dimension.items < FEW_ITEMS:
        yield f"fewer than {FEW_ITEMS} items: another set might well decide otherwise"
    if dimension.left_out:
        yield f"{counted(dimension.left_out, 'item')} left out: not in every variant"
    if dimension.p_value is not None:
        yield f"p = {p_value(dimension.p_value)} (permutations)"
    if dimension.limitation:
        yield dimension.limitation


def _tickets(tickets: list[ScoredDimension]) -> Section:
    rows = (
        (dimension.name, dimension.owner, _change(dimension.previous, dimension))
        for dimension in tickets
    )
    note = "A score has become so much worse since the last time that its set or judge is to be"
    return Section(
        "Recalibration tickets",
        (f"{note} looked at again.",),
        table("dimension|owner|since the last time", rows),
        Brief.ALL,
    )


def _changes(card: Scorecard) -> Section:
    rows = (
        (
            dimension.name,
            _change(dimension.previous, dimension),
            _change(dimension.baseline, dimension),
        )
        for dimension in card.dimensions
    )
    changes = table("dimension|since the last time|beside the baseline", rows)
    return Section("Changes", (), changes, Brief.ALL)


def _change(change: ScoreChange | None, dimension: ScoredDimension) -> str:
    """Return an earlier score and the present one in words: worse, better or as it was."""
    if change is None or dimension.score is None:
        return NONE
    by = change.worse_by
    how = "as it was" if abs(by) < _SMALLEST else f"{abs(by):.3f} {'worse' if by > 0 else 'better'}"
    return f"{_number(change.score)} on {change.measured}, now {_number(dimension.score)}: {how}"


def _sets(card: Scorecard) -> Section:
    rows = (
        (
            dimension.name,
            f"{dimension.probe_set} {dimension.probe_version}",
            dimension.model,
            dimension.rubric or NONE,
            dimension.measured,
            dimension.cadence,
            dimension.owner,
            "synthetic" if dimension.synthetic else "reviewed data of real people, guarded",
        )
        for dimension in card.dimensions
    )
    columns = "dimension|probe set|model|rubric|measured|cadence|owner|kind"
    return Section("Sets, versions and owners", (), table(columns, rows))


def _parts(card: Scorecard) -> Section:
    rows = (
        (
            dimension.name,
            part.name,
            NONE if part.value is None else _number(part.value),
            f"{part.items:,}",
        )
        for dimension in card.dimensions
        for part in dimension.parts
    )
    parts = table("dimension|variant, slice or set|value|items", rows)
    notes = () if parts else ("Parts of scores of real people are not shown.",)
    return Section("Parts of the scores", notes, parts)


def _formulas(card: Scorecard) -> Section:
    by_measure = {dimension.measure: dimension for dimension in card.dimensions}
    rows = (
        (dimension.title, dimension.meaning, dimension.scale, dimension.source)
        for dimension in by_measure.values()
    )
    return Section("What the scores mean", (), table("score|meaning|range|source", rows))


def _benchmarks(benchmarks: tuple[BenchmarkRow, ...]) -> Section:
    rows = (
        (
            row.name,
            row.benchmark,
            f"{row.metric} {_number(row.value)}",
            f"{row.items:,}",
            f"{row.model}, {row.measured}",
            row.owner,
            row.limitation,
        )
        for row in benchmarks
    )
    columns = "row|benchmark|result|items|model, measured|owner|limitation"
    note = "Diagnostic: a public set may have been seen in training, and never decides a release."
    return Section("Benchmarks", (note,), table(columns, rows))


def _score(dimension: ScoredDimension) -> str:
    """Return the score of a dimension as text, without its interval."""
    return NONE if dimension.score is None else _number(dimension.score)


def _limit(dimension: ScoredDimension) -> str:
    if dimension.limit is None:
        return "none"
    side = "at least" if dimension.lower_is_worse else "at most"
    unit = f" ({dimension.unit})" if dimension.unit else ""
    return f"{side} {_number(dimension.limit)}{unit}"


def _interval(dimension: ScoredDimension) -> str:
    if dimension.low is None or dimension.high is None:
        return NONE
    return f"{_number(dimension.low)} to {_number(dimension.high)}"


def _number(value: float) -> str:
    return f"{value:.3f}"
