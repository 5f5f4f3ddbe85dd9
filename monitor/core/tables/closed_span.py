"""The tables of one span, made from its counts and from earlier tables; nothing is stored here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from monitor.core.counts.cells import Int64s
from monitor.core.tables.label_tables import label_tables, unanswered_table
from monitor.core.tables.reader import Measure, Table
from monitor.core.tables.row_counts import Column, changed_labels
from monitor.core.tables.settings import TableSettings
from monitor.core.tables.spans import Edition, Span, SpanKind
from monitor.core.tables.table_rule import Draft, publish


@dataclass(frozen=True, slots=True)
class ClosedSpan:
    """A closed span with its counts, settings and earlier tables, from which its tables are made.

    Attributes:
        span: which.
        settings: that held when it began.
        rows: what is counted in it by now: see :class:`Column`.
        past: tables published within it; the rule may bind new ones to them.
    """

    span: Span
    settings: TableSettings
    rows: Int64s
    past: Sequence[Table] = ()

    def decision_table(self, effect: float = 1.0) -> tuple[Table, ...]:
        """Return the decision table, alone in the tuple, bound to earlier decision tables.

        Args:
            effect: design effect of the units of the use case, rounded up.
        """
        (table,) = self._single_table(Measure.DECISIONS, self.rows[Column.DECISIONS])
        return (replace(table, effect=effect),)

    def first_edition(self) -> tuple[Table, ...]:
        """Return the first edition of the label tables; a week's has missing labels as well."""
        past = [table for table in self.past if table.edition is Edition.FIRST]
        return self._label_tables(past)

    def pairs_table(self, pairs: Int64s) -> tuple[Table, ...]:
        """Return the table of ``pairs`` (decisions with two labels), alone in the tuple.

        Args:
            pairs: as :meth:`RowCounter.count_pairs` gives them.
        """
        return self._single_table(Measure.PAIRS, pairs)

    def final_edition(self, counts_before: Int64s) -> tuple[Table, ...]:
        """Return the final edition; rows with fewer than k changed labels repeat the first.

        Args:
            counts_before: :attr:`label_counts` when the first edition was made.
        """
        changed = changed_labels(counts_before, self.label_counts)
        return self._label_tables(self.past, changed)

    @property
    def label_counts(self) -> Int64s:
        """Return exact counts ready, not ready and revised, shape (3, rows, reviewed parts)."""
        return self.rows[Column.READY :, :, self.settings.reviewed]

    def _single_table(self, measure: Measure, counts: Int64s) -> tuple[Table, ...]:
        """Return the table of a measure that is bound to earlier tables of this measure alone."""
        past = [table for table in self.past if table.measure is measure]
        draft = Draft(self.settings.frame(self.span, measure), measure, counts)
        return publish([draft], past, self.settings.k)

    def _label_tables(
        self, past: Sequence[Table], changed: Int64s | None = None
    ) -> tuple[Table, ...]:
        settings, span, k = self.settings, self.span, self.settings.k
        frame = settings.frame(span, Measure.READY)
        tied = [table for table in past if table.measure is not Measure.PAIRS]
        labels = label_tables(frame, self.label_counts[:2], tied, k, changed)
        if span.kind < SpanKind.WEEK:  # in a day, too few are missing for any band but the lowest
            return labels
        unanswered = self.rows[Column.UNANSWERED][:, settings.reviewed]
        without_bands = settings.frame(span, Measure.UNANSWERED)
        places = frame.layout.places_of(without_bands.layout.rows)
        draft = Draft(without_bands, Measure.UNANSWERED, unanswered[places])
        return (*labels, *unanswered_table(draft, labels, tied, k, changed))
