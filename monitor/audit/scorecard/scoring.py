"""Score the dimensions of a scorecard file from their records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date
from math import ceil, floor
from pathlib import Path

import msgspec

from monitor.audit.scorecard.card import (
    BenchmarkRow,
    DimensionVerdict,
    Scorecard,
    ScoreChange,
    ScoredDimension,
)
from monitor.audit.scorecard.card_file import Cadence, CardFile, Dimension, Head
from monitor.audit.scorecard.dimension_records import read_records
from monitor.audit.scorecard.measured import MeasuredScore, UnmeasurableError
from monitor.audit.scorecard.measures import MEASURES, Measure
from monitor.version import program_version

SMALLEST_REAL = 11
"""Records of each outcome that every slice of real people needs; below it no score is shown."""
_SHOWN = 100
_EXACT = 1e-9
"""Rounding allowance, so that .09 - .06 is .03."""


def score_card(
    file: CardFile,
    folder: Path,
    today: date,
    *,
    previous: Scorecard | None = None,
    baseline: Scorecard | None = None,
) -> Scorecard:
    """Measure and judge all dimensions of a scorecard file; return the Scorecard.

    Args:
        file: the scorecard file.
        folder: folder that its paths are relative to.
        today: a score that is older than its cadence allows is overdue.
        previous: the last scorecard, for drift.
        baseline: scorecard of the model in use; no score may be worse.

    Raises:
        AuditError: records cannot be read.
    """
    dimensions = []
    model = file.scorecard.model or max(file.dimensions, key=lambda d: d.measured).model
    for dimension in file.dimensions:
        scored = replace(_measure(dimension, folder), overdue=_overdue(dimension, today, model))
        if previous is not None:
            scored = _compare_with_previous(scored, previous, file.scorecard)
        if baseline is not None:
            scored = _compare_with_baseline(scored, baseline)
        dimensions.append(
            replace(scored, verdict=_verdict(scored, file.scorecard, baseline is not None))
        )
    benchmarks = tuple(
        BenchmarkRow(**msgspec.structs.asdict(row) | {"measured": row.measured.isoformat()})
        for row in file.benchmarks
    )
    head = file.scorecard
    return Scorecard(
        *(head.name, head.developer, today.isoformat(), program_version()),
        dimensions=tuple(dimensions),
        benchmarks=benchmarks,
    )


def _measure(dimension: Dimension, folder: Path) -> ScoredDimension:
    """Score a dimension from its file of records; without a score it says why."""
    measure = MEASURES[dimension.measure]
    records = read_records(folder / dimension.records, measure.record)
    few = ""
    try:
        _check_slices(dimension, records)
        measurement, why = measure.measure(records), ""
        few = _too_few(dimension, records, measurement)
        if not dimension.synthetic:
            measurement = _guarded_score(measurement, measure)
    except UnmeasurableError as error:
        measurement, why = None, str(error)
    return _scored_dimension(dimension, measure, measurement, why or few, few=bool(few))


def _check_slices(dimension: Dimension, records: Iterable[object]) -> None:
    """Raise UnmeasurableError if a declared variant or slice has no records."""
    names = {getattr(record, "variant", getattr(record, "slice", None)) for record in records}
    if absent := sorted(set(dimension.slices) - names):
        raise UnmeasurableError(f"declared, and without records: {', '.join(absent)}")


def _too_few(dimension: Dimension, records: Sequence[object], measurement: MeasuredScore) -> str:
    """Return why there are too few items for a pass; empty if there are enough."""
    if dimension.limit is None:
        return ""
    items = len({getattr(record, "item", i) for i, record in enumerate(records)})
    if items < dimension.min_items:
        return f"{items} items, and min_items is {dimension.min_items}"
    if measurement.items < dimension.min_compared:
        return f"{measurement.items} items compared, and min_compared is {dimension.min_compared}"
    return ""


def _guarded_score(measurement: MeasuredScore, measure: Measure) -> MeasuredScore:
    """Return a real people's score without parts, rounded to hundredths, interval outwards.

    Raises:
        UnmeasurableError: a slice has so few records of an outcome that people could be recognised.
    """
    for part in measurement.parts:
        hits = round((part.value or 0) * part.items) if measure.rates else part.items
        smallest = min(hits, part.items - hits) if measure.rates else part.items
        if smallest < SMALLEST_REAL:
            raise UnmeasurableError(
                f"a slice has fewer than {SMALLEST_REAL} records of an outcome, and the records are"
                " of real people; measure more of them, or merge slices"
            )
    return replace(
        measurement,
        score=round(measurement.score * _SHOWN) / _SHOWN,
        low=None if measurement.low is None else floor(measurement.low * _SHOWN) / _SHOWN,
        high=None if measurement.high is None else ceil(measurement.high * _SHOWN) / _SHOWN,
        parts=(),
        moved="",
    )


def _scored_dimension(
    dimension: Dimension,
    measure: Measure,
    measurement: MeasuredScore | None,
    why: str,
    *,
    few: bool,
) -> ScoredDimension:
    score = measurement.score if measurement else None
    urgent = measure.urgent is not None and score is not None and score >= measure.urgent - _EXACT
    return ScoredDimension(
        name=dimension.name,
        title=measure.title,
        measure=dimension.measure,
        meaning=measure.meaning,
        scale=measure.scale,
        source=measure.source,
        verdict=DimensionVerdict.NOT_MEASURED,
        why=why,
        score=score,
        low=measurement.low if measurement else None,
        high=measurement.high if measurement else None,
        limit=dimension.limit,
        lower_is_worse=not measure.higher_is_worse,
        unit=measure.unit,
        items=measurement.items if measurement else 0,
        left_out=measurement.left_out if measurement else 0,
        few=few,
        moved=measurement.moved if measurement else "",
        overdue="",
        parts=measurement.parts if measurement else (),
        p_value=measurement.p_value if measurement else None,
        urgent=urgent,
        synthetic=dimension.synthetic,
        probe_set=dimension.probe_set,
        probe_version=dimension.probe_version,
        model=dimension.model,
        rubric=dimension.rubric,
        measured=dimension.measured.isoformat(),
        cadence=dimension.cadence.value,
        owner=dimension.owner,
        limitation=dimension.limitation,
    )


def _change_since(scored: ScoredDimension, card: Scorecard) -> tuple[ScoreChange | None, str]:
    """Return the change of a score since an earlier card, and why there is none, else empty."""
    earlier = next(
        (dimension for dimension in card.dimensions if dimension.name == scored.name), None
    )
    if earlier is None:
        return None, "the earlier scorecard has no such dimension"
    if _set_of(earlier) != _set_of(scored):
        return None, "the earlier score is of another measure, set or version of it"
    if earlier.score is None or scored.score is None:
        return None, "one of the two could not be measured"
    harm = MEASURES[scored.measure].harm
    worse_by = harm(scored.score) - harm(earlier.score)
    return ScoreChange(earlier.measured, earlier.score, worse_by), ""


def _set_of(scored: ScoredDimension) -> tuple[str, str, str]:
    return scored.measure, scored.probe_set, scored.probe_version


def _compare_with_previous(scored: ScoredDimension, card: Scorecard, head: Head) -> ScoredDimension:
    """Add the change since an earlier card; a large one asks for recalibration."""
    change, _ = _change_since(scored, card)
    drifted = change is not None and change.worse_by >= head.drift - _EXACT
    return replace(scored, previous=change, recalibrate=drifted)


def _compare_with_baseline(scored: ScoredDimension, card: Scorecard) -> ScoredDimension:
    """Add the change against the baseline's card, or why there is none."""
    change, reason = _change_since(scored, card)
    why = scored.why or (f"not compared with the baseline: {reason}" if reason else "")
    return replace(scored, baseline=change, why=why)


def _verdict(scored: ScoredDimension, head: Head, compare: bool) -> DimensionVerdict:
    """Return the first verdict that applies; a score beyond its limit fails on any evidence."""
    if scored.limit is None:
        return DimensionVerdict.DIAGNOSTIC
    if scored.score is None:
        return DimensionVerdict.NOT_MEASURED
    harm = MEASURES[scored.measure].harm
    if harm(scored.score) > harm(scored.limit) + _EXACT:
        return DimensionVerdict.FAIL
    if scored.few:
        return DimensionVerdict.NOT_MEASURED
    return _verdict_within_limit(scored, head, compare)


def _verdict_within_limit(scored: ScoredDimension, head: Head, compare: bool) -> DimensionVerdict:
    """Return the verdict of a score that keeps its limit: its interval and baseline decide."""
    harm = MEASURES[scored.measure].harm
    worst = scored.low if scored.lower_is_worse else scored.high
    beyond = worst is not None and harm(worst) > harm(scored.limit or 0) + _EXACT
    # The items of a synthetic set are all there are. Real people are a sample.
    if beyond and not scored.synthetic:
        return DimensionVerdict.INCONCLUSIVE
    if scored.baseline is not None and scored.baseline.worse_by > head.worse_by + _EXACT:
        return DimensionVerdict.WORSE
    if compare and scored.baseline is None and not head.allow_uncompared:
        return DimensionVerdict.NOT_COMPARED
    return DimensionVerdict.PASS


def _overdue(dimension: Dimension, today: date, model: str) -> str:
    """Return why a new measurement is due: another model, or its age; empty if none is."""
    if dimension.model != model:
        return f"measured with model {dimension.model}; the release has {model}"
    days = Cadence(dimension.cadence).days
    if days is not None and (today - dimension.measured).days > days:
        return f"measured on {dimension.measured}, which is longer ago than {dimension.cadence}"
    return ""
