"""Find the spans whose tables are to be made now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from monitor.core.tables.settings import TableSettings
from monitor.core.tables.spans import Span, SpanKind
from monitor.core.time import DAY, Grain
from monitor.store.evaluator.calendar_tables import FINE_KEPT_AFTER_HORIZON, Era, Made, Stage

Turn = tuple[Stage, Span]
"""Tables of a span that are to be made."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Instants that counting has reached, and from which counts are kept (microseconds).

    Attributes:
        watermark: decisions are complete to it.
        labels_to: frontier up to which label tables are made.
        horizon: how long a label is waited for.
        first: start of the oldest UTC day with counts: nothing was counted before.
        kept_from: since when panes of hours, and of UTC days, are kept completely.
    """

    watermark: int
    labels_to: int
    horizon: int
    first: int
    kept_from: Mapping[Grain, int]

    def until(self, stage: Stage) -> int:
        """Return the instant by which a span must have ended to get the tables of a stage."""
        if stage is Stage.DECISIONS:
            return self.watermark
        if stage is Stage.FIRST:
            return self.labels_to
        # Where a label shard lags, labels are waited for longer than their horizon.
        return min(self.labels_to, self.watermark - self.horizon)

    def has_counts(self, span: Span) -> bool:
        """Return True while all counts of a span are kept."""
        in_days = span.kind is not SpanKind.HOUR and span.start % DAY == 0
        kept_from = self.kept_from[Grain.DAY if in_days else Grain.HOUR]
        return max(span.start, self.first) >= kept_from


@dataclass(frozen=True, slots=True)
class Eras:
    """Settings of tables by the first instant they hold for; never empty."""

    eras: Sequence[Era]

    def at(self, instant: int) -> TableSettings:
        """Return the settings of spans that begin at an instant; before any era, the first ones."""
        before = [era.settings for era in self.eras if era.starts_at <= instant]
        return before[-1] if before else self.eras[0].settings

    def have_tables(self, span: Span) -> bool:
        """Return True when the settings of a span make tables of it."""
        return self.eras[0].starts_at <= span.start and self.at(span.start).k > 0

    def spans(self, kind: SpanKind, since: int, until: int) -> Iterator[Span]:
        """Yield successive spans of a kind that ended by ``until``, from that of ``since`` on.

        Where the zone's offset changes, the next span begins later than the last one ended.
        """
        span = Span.containing(since, kind, self.at(since).offset)
        while span.end <= until:
            yield span
            span = self.after(span)

    def after(self, span: Span) -> Span:
        """Return the next span of the same kind."""
        following = Span.containing(span.end, span.kind, self.at(span.end).offset)
        gap = following.start < span.end
        return Span(span.kind, following.index + 1, following.offset) if gap else following


def due(progress: Progress, made: Mapping[tuple[Stage, SpanKind], Made], eras: Eras) -> list[Turn]:
    """Return the (stage, span) turns whose tables are to be made now, in their order.

    Every span has one turn, after the newest made of its kind: none is made again. Spans whose
    counts are no longer kept, or that began under settings without tables, are passed over.

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
        for span in _spans_of_stage(stage, kind, progress, made, eras)
        if progress.has_counts(span) and eras.have_tables(span)
    ]
    stages = list(Stage)
    return sorted(spans, key=lambda turn: (stages.index(turn[0]), turn[1].end, turn[1].kind))


def _spans_of_stage(
    stage: Stage,
    kind: SpanKind,
    progress: Progress,
    made: Mapping[tuple[Stage, SpanKind], Made],
    eras: Eras,
) -> Iterator[Span]:
    before, until = made.get((stage, kind)), progress.until(stage)
    # A back-fill of years must not cost a turn for every span: windows and reports no longer need
    # old ones, and retention would delete their hours and days at once.
    passed = progress.watermark - progress.horizon - FINE_KEPT_AFTER_HORIZON
    grain = Grain.HOUR if kind is SpanKind.HOUR else Grain.DAY
    kept_from = max(progress.kept_from[grain], passed)
    if before is not None:
        newest = Span.containing(before.newest, kind, eras.at(before.newest).offset)
        return eras.spans(kind, max(eras.after(newest).start, kept_from), until)
    if stage is Stage.DECISIONS:
        return eras.spans(kind, max(progress.first, kept_from), until)
    earlier = made.get((Stage.DECISIONS if stage is Stage.FIRST else Stage.FIRST, kind))
    return iter(()) if earlier is None else eras.spans(kind, max(earlier.oldest, kept_from), until)
