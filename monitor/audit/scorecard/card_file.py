"""Scorecard files: the dimensions, with their sets, limits, cadence and owners.

TOML; paths are relative to the file:

    [scorecard]
    name = "hiring-assistant"

    [[dimension]]
    name = "refusals"
    measure = "refusal_asymmetry"
    records = "refusals.jsonl"
    synthetic = true            # invented test conditions, no reviewed data of real people
    probe_set = "hiring"
    probe_version = "3"
    model = "m-12"
    rubric = "r1"               # of who judged, if anybody did
    measured = 2026-11-20
    limit = 0.05                # without it the dimension is diagnostic
    slices = ["anna", "aisha"]  # variants or slices that must be among the records
    cadence = "weekly"          # daily, weekly, monthly, quarterly or release
    owner = "A. Person"

    [[benchmark]]
    name = "bbq-age"
    benchmark = "BBQ"
    metric = "accuracy"
    value = 0.83
    items = 3680
    model = "m-12"
    measured = 2026-11-20
    owner = "A. Person"
    limitation = "multiple choice in English; says nothing of free answers"
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from monitor.audit.record_files import (
    Label,
    Truth,
    Version,
    field_name,
    kind_of,
    problem,
    toml_tree,
)
from monitor.audit.scorecard.dimension_records import typed
from monitor.audit.scorecard.measures import MEASURES
from monitor.settings.kinds import Name

_MAX_BYTES = 1 << 20
DRIFT = 0.03
"""Rise in harm since the last scorecard that opens a recalibration ticket."""
WORSE_BY = 0.01
"""Rise in harm above the baseline that blocks a release when exceeded."""
FEW_ITEMS, FEW_COMPARED = 200, 100
"""Fewest items of a set, and fewest comparable ones, that can pass; by chance a score of fewer may
be off by a tenth."""


class Cadence(enum.StrEnum):
    """Time that may pass between two measurements of a dimension."""

    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"
    QUARTERLY = "quarterly"
    RELEASE = "release"

    @property
    def days(self) -> int | None:
        """Return the days after which a score is overdue; None for a score per release."""
        return _DAYS.get(self)


_DAYS = {Cadence.DAILY: 1, Cadence.WEEKLY: 7, Cadence.MONTHLY: 31, Cadence.QUARTERLY: 92}

Day = Annotated[date, Meta(description="a date such as 2026-11-20, without quotes")]
Margin = Annotated[float, Meta(ge=0, le=1, description="a number from 0 to 1, such as 0.03")]
Limit = Annotated[float, Meta(ge=0, le=100, description="a number from 0, such as 0.05")]
FileName = Annotated[str, Meta(min_length=1, description="the path of a file, in quotes")]
Whole = Annotated[int, Meta(ge=1, description="a whole number from 1")]
Names = Annotated[tuple[Label, ...], Meta(description="names of variants or slices, in a list")]
Number = Annotated[float, Meta(description="a number")]
MeasureName = Annotated[
    str, Meta(pattern=rf"^({'|'.join(MEASURES)})\Z", description=f"one of {', '.join(MEASURES)}")
]
CadenceName = Annotated[Cadence, Meta(description=f"one of {', '.join(Cadence)}")]


class Head(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Table [scorecard] of the file: the product, and tolerances for comparisons.

    Attributes:
        name: the product.
        developer: who made the model.
        model: what is released; a score of another model is overdue. Default: the newest score's.
        drift: rise in harm since ``--previous`` that becomes a recalibration ticket.
        worse_by: rise in harm above ``--baseline`` that blocks when exceeded.
        allow_uncompared: with ``--baseline``, a score without a comparable one does not block.
    """

    name: Name
    developer: Label | None = None
    model: Version | None = None
    drift: Margin = DRIFT
    worse_by: Margin = WORSE_BY
    allow_uncompared: Truth = False


class Dimension(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Table [[dimension]] of the file: what to measure, its limit and its owner.

    Attributes:
        name: by it scorecards are compared over time.
        measure: what is computed.
        records: file of the records, relative to the scorecard.
        synthetic: true for invented test conditions, false for reviewed data of real people.
        probe_set: the set that was sent.
        probe_version: version of that set.
        model: version of what answered.
        rubric: version of what judged the answers, if anything did.
        measured: day of the measurement.
        limit: highest score allowed (disparate_impact: lowest); without it the score is diagnostic.
        slices: variants or slices that must occur, or nothing is measured.
        min_items: fewest items of a set that can pass.
        min_compared: fewest items that can be compared and pass.
        cadence: after this time a score is overdue and blocks; release: it holds for its release.
        owner: who answers for it.
        limitation: what the score does not say.
    """

    name: Name
    measure: MeasureName
    records: FileName
    synthetic: Truth
    probe_set: Label
    probe_version: Version
    model: Version
    rubric: Version | None = None
    measured: Day
    limit: Limit | None = None
    slices: Names = ()
    min_items: Whole = FEW_ITEMS
    min_compared: Whole = FEW_COMPARED
    cadence: CadenceName
    owner: Label
    limitation: Label | None = None


class Benchmark(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Table [[benchmark]] of the file: a public result, never compared with a limit.

    Attributes:
        name: of the row.
        benchmark: the public set, such as BBQ.
        metric: what the set measures.
        value: the result.
        items: items of the set.
        model: version of what answered.
        measured: day of the measurement.
        owner: who answers for it.
        limitation: what the result does not say.
    """

    name: Name
    benchmark: Label
    metric: Label
    value: Number
    items: Whole
    model: Version
    measured: Day
    owner: Label
    limitation: Label


class CardFile(Struct, frozen=True, kw_only=True):
    """Content of a scorecard file; dimensions and benchmarks have unique names."""

    scorecard: Head
    dimensions: tuple[Dimension, ...]
    benchmarks: tuple[Benchmark, ...] = ()


def read_card(path: Path, today: date) -> CardFile:
    """Read and check a scorecard file; no measurement may be later than ``today``.

    Args:
        path: path of the file.
        today: latest day of a measurement.

    Raises:
        AuditError: the file cannot be read, or has unknown or unfit content.
    """
    tree = toml_tree(path, _MAX_BYTES, "a scorecard file")
    for name in tree:
        if name not in ("scorecard", "dimension", "benchmark"):
            tables = "known here: [scorecard], [[dimension]], [[benchmark]]"
            raise problem(path, f"unknown table; {tables}", field=field_name(name))
    head = tree.get("scorecard")
    if not isinstance(head, dict):
        raise problem(path, "missing; write a table [scorecard] with a name", field="scorecard")
    card = CardFile(
        scorecard=typed(path, head, Head, place=("scorecard",)),
        dimensions=tuple(_listed(path, tree, "dimension", Dimension)),
        benchmarks=tuple(_listed(path, tree, "benchmark", Benchmark)),
    )
    if not card.dimensions:
        raise problem(path, "no dimension; write a table [[dimension]] for each")
    _check_names(path, (*card.dimensions, *card.benchmarks))
    _check_dates(path, (*card.dimensions, *card.benchmarks), today)
    return card


def _listed(path: Path, tree: Mapping[str, object], name: str, kind: type[Any]) -> Iterable[Any]:
    """Yield the tables ``[[name]]`` of a card file as ``kind``; errors name the field."""
    tables = tree.get(name, [])
    if not isinstance(tables, list):
        raise problem(path, f"found {kind_of(tables)}; write [[{name}]]", field=name)
    for number, table in enumerate(tables, 1):
        place = (name, str(number))
        if not isinstance(table, dict):
            text = f"found {kind_of(table)}; write [[{name}]]"
            raise problem(path, text, field=field_name(*place))
        yield typed(path, table, kind, place=place)


def _check_names(path: Path, named: Iterable[Dimension | Benchmark]) -> None:
    names = [table.name for table in named]
    for name in names:
        if names.count(name) > 1:
            raise problem(path, f"two tables have the name {name}; rename one", field="name")


def _check_dates(path: Path, dated: Iterable[Dimension | Benchmark], today: date) -> None:
    for table in dated:
        if isinstance(table.measured, datetime) or table.measured > today:
            text = f"{table.name} was measured after today, {today}; write the day it was"
            raise problem(path, text, field="measured")
