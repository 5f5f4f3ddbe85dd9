"""From a scorecard file and its records to the scorecard."""

from __future__ import annotations

from dataclasses import dataclass, replace
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

FEW_ITEMS = 200
"""Below it a score says so: by chance alone it may be off by a tenth."""
SMALLEST_REAL = 11
"""Of records of real people, each slice has so many of each outcome, or no score is shown."""
_SHOWN = 100
_EXACT = 1e-9
"""Sums of decimals in floating point: .09 - .06 is .03."""


def score_card(
    file: CardFile,
    folder: Path,
    today: date,
    *,
    previous: Scorecard | None = None,
    baseline: Scorecard | None = None,
) -> Scorecard:
    """Measure all dimensions and judge them.

    Args:
        file: the scorecard file.
        folder: that its paths are relative to.
        today: a score that is older than its cadence allows is overdue.
        previous: the scorecard of the last time, for drift.
        baseline: the scorecard of what is in use: nothing may get worse than it.

    Raises:
        AuditError: records cannot be read.
    """
    scored = []
    for dimension in file.dimensions:
        one = _measured(dimension, folder)
        if previous is not None:
            one = _beside_previous(one, previous, file.scorecard)
        if baseline is not None:
            one = _beside_baseline(one, baseline)
        scored.append(replace(one, verdict=_verdict(one, dimension, file.scorecard, today)))
    rows = tuple(
        BenchmarkRow(**msgspec.structs.asdict(one) | {"measured": one.measured.isoformat()})
        for one in file.benchmarks
    )
    return Scorecard(file.scorecard.name, today.isoformat(), program_version(), tuple(scored), rows)


def _measured(dimension: Dimension, folder: Path) -> ScoredDimension:
    measure = MEASURES[dimension.measure]
    records = read_records(folder / dimension.records, measure.record)
    try:
        found, why = measure.measure(records), ""
        if not dimension.synthetic:
            found = _guarded(found, measure)
    except UnmeasurableError as error:
        found, why = None, str(error)
    return _scored(dimension, measure, found, why)


def _guarded(found: MeasuredScore, measure: Measure) -> MeasuredScore:
    """The part that may be shown of records of real people: the score alone, in hundredths.

    Raises:
        UnmeasurableError: a slice has so few of an outcome that they could be recognised.
    """
    for part in found.parts:
        hits = round((part.value or 0) * part.items) if measure.rates else part.items
        smallest = min(hits, part.items - hits) if measure.rates else part.items
        if smallest < SMALLEST_REAL:
            raise UnmeasurableError(
                f"a slice has fewer than {SMALLEST_REAL} records of an outcome, and the records are"
                " of real people; measure more of them, or merge slices"
            )
    return replace(
        found,
        score=round(found.score * _SHOWN) / _SHOWN,
        low=None if found.low is None else floor(found.low * _SHOWN) / _SHOWN,
        high=None if found.high is None else ceil(found.high * _SHOWN) / _SHOWN,
        parts=(),
    )


def _scored(
    dimension: Dimension, measure: Measure, found: MeasuredScore | None, why: str
) -> ScoredDimension:
    score = found.score if found else None
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
        low=found.low if found else None,
        high=found.high if found else None,
        limit=dimension.limit,
        lower_is_worse=not measure.higher_is_worse,
        items=found.items if found else 0,
        left_out=found.left_out if found else 0,
        few=found is not None and measure.rates and found.items < FEW_ITEMS,
        parts=found.parts if found else (),
        p_value=found.p_value if found else None,
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


@dataclass(frozen=True, slots=True)
class _Earlier:
    """The change of a dimension since an earlier scorecard, or why there is none."""

    change: ScoreChange | None
    why: str = ""

    @classmethod
    def from_card(cls, one: ScoredDimension, card: Scorecard) -> _Earlier:
        then = next((other for other in card.dimensions if other.name == one.name), None)
        if then is None:
            return cls(None, "the earlier scorecard has no such dimension")
        if _set_of(then) != _set_of(one):
            return cls(None, "the earlier score is of another measure, set or version of it")
        if then.score is None or one.score is None:
            return cls(None, "one of the two could not be measured")
        harm = MEASURES[one.measure].harm
        return cls(ScoreChange(then.measured, then.score, harm(one.score) - harm(then.score)))


def _set_of(one: ScoredDimension) -> tuple[str, str, str]:
    return one.measure, one.probe_set, one.probe_version


def _beside_previous(one: ScoredDimension, card: Scorecard, head: Head) -> ScoredDimension:
    change = _Earlier.from_card(one, card).change
    drifted = change is not None and change.worse_by >= head.drift - _EXACT
    return replace(one, previous=change, recalibrate=drifted)


def _beside_baseline(one: ScoredDimension, card: Scorecard) -> ScoredDimension:
    earlier = _Earlier.from_card(one, card)
    why = one.why or (f"not compared with the baseline: {earlier.why}" if earlier.why else "")
    return replace(one, baseline=earlier.change, why=why)


def _verdict(
    one: ScoredDimension, dimension: Dimension, head: Head, today: date
) -> DimensionVerdict:
    """The first that holds, from what is known least to what is known best."""
    if one.score is None:
        return (
            DimensionVerdict.NOT_MEASURED if one.limit is not None else DimensionVerdict.DIAGNOSTIC
        )
    if one.limit is None:
        return DimensionVerdict.DIAGNOSTIC
    if _is_overdue(dimension, today):
        return DimensionVerdict.OVERDUE
    harm = MEASURES[one.measure].harm
    if harm(one.score) > harm(one.limit) + _EXACT:
        return DimensionVerdict.FAIL
    if one.baseline is not None and one.baseline.worse_by > head.worse_by + _EXACT:
        return DimensionVerdict.WORSE
    return DimensionVerdict.PASS


def _is_overdue(dimension: Dimension, today: date) -> bool:
    days = Cadence(dimension.cadence).days
    return days is not None and (today - dimension.measured).days > days
