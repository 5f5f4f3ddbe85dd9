"""Which spans' tables are to be made now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from monitor.core.tables.settings import TableSettings
from monitor.core.tables.spans import Span, SpanKind
from monitor.core.time import DAY
from monitor.store.evaluator.calendar_tables import Era, Made, Stage

Turn = tuple[Stage, Span]
"""Tables of a span that are to be made."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far counting is (event time, microseconds).

    Attributes:
        watermark: decisions are complete to it.
        labels_to: frontier up to which label tables are made.
        horizon: how long a label is waited for.
        first_hour: start of the oldest hour with counts.
        first_day: start of the oldest UTC day with counts.
        hours_from: since when hours are kept completely.
        days_from: since when UTC days are.
    """

    watermark: int
    labels_to: int
    horizon: int
    first_hour: int
    first_day: int
    hours_from: int
    days_from: int

    def until(self, stage: Stage) -> int:
        """The instant by which spans have ended whose tables of a stage can be made."""
        final = self.watermark - self.horizon
        return (self.watermark, self.labels_to, final)[stage]

    def first(self, kind: SpanKind) -> int:
        """The first instant that a span of a kind has counts of."""
        return self.first_hour if kind is SpanKind.HOUR else self.first_day

    def has_counts(self, span: Span) -> bool:
        """Return True while everything that was counted in a span is kept."""
        in_days = span.kind is not SpanKind.HOUR and span.start % DAY == 0
        kept_from = self.days_from if in_days else self.hours_from
        return max(span.start, self.first(span.kind)) >= kept_from


@dataclass(frozen=True, slots=True)
class Eras:
    """Settings by the first instant of the spans they hold for; never empty."""

    eras: Sequence[Era]

    def at(self, instant: int) -> TableSettings:
        """Settings of spans that begin at an instant; the first ones before the first era."""
        before = [era.settings for era in self.eras if era.starts_at <= instant]
        return before[-1] if before else self.eras[0].settings

    def spans(self, kind: SpanKind, since: int, until: int) -> Iterator[Span]:
        """Successive spans of a kind that have ended, from the one that holds an instant.

        Where the zone's offset changes, the next span begins later than the last one ended.
        """
        span = Span.of(since, kind, self.at(since).offset)
        while span.end <= until:
            yield span
            span = self.after(span)

    def after(self, span: Span) -> Span:
        """The next span of the same kind."""
        following = Span.of(span.end, span.kind, self.at(span.end).offset)
        gap = following.start < span.end
        return Span(span.kind, following.index + 1, following.offset) if gap else following


def due(progress: Progress, made: Mapping[tuple[Stage, SpanKind], Made], eras: Eras) -> list[Turn]:
    """Spans whose tables are to be made, in their order: decisions first, then by end, then finest.

    Every span has its turn once, after the newest one of its kind: none is made again. One whose
    counts are not kept any more is passed over, and so is one that began under settings that make
    no tables.

    Args:
        progress: how far counting is.
        made: what is stored.
        eras: settings.
    """
    spans = [
        (stage, span)
        for stage in Stage
        for kind in SpanKind
        if stage is not Stage.FINAL or kind >= SpanKind.WEEK
        for span in _of_stage(stage, kind, progress, made, eras)
        if progress.has_counts(span) and eras.at(span.start).k
    ]
    return sorted(spans, key=lambda turn: (turn[0], turn[1].end, turn[1].kind))


def _of_stage(
    stage: Stage,
    kind: SpanKind,
    progress: Progress,
    made: Mapping[tuple[Stage, SpanKind], Made],
    eras: Eras,
) -> Iterator[Span]:
    before, until = made.get((stage, kind)), progress.until(stage)
    if before is not None:
        newest = Span.of(before.newest, kind, eras.at(before.newest).offset)
        return eras.spans(kind, eras.after(newest).start, until)
    if stage is Stage.DECISIONS:
        kept_from = progress.hours_from if kind is SpanKind.HOUR else progress.days_from
        return eras.spans(kind, max(progress.first(kind), kept_from), until)
    earlier = made.get((Stage(stage - 1), kind))
    return iter(()) if earlier is None else eras.spans(kind, earlier.oldest, until)
