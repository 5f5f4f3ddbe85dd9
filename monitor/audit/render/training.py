"""The sections on a training set: who is in it, and what balancing it could do at most."""

from __future__ import annotations

from collections.abc import Iterator

from monitor.audit.balancing import BALANCING_CAN, BALANCING_CANNOT, Balancing, Weight
from monitor.audit.dataset import DatasetReport, ReadyShare, Representation, SliceShare
from monitor.audit.render import words
from monitor.audit.render.sections import Section, table
from monitor.audit.render.words import NOTHING, Numbers
from monitor.audit.report import SYNTHETIC_SENTENCE


def sections(training: DatasetReport) -> Iterator[Section]:
    """Representation and balancing, group-by after group-by, then what balancing cannot do."""
    numbers = Numbers(exact=training.synthetic)
    for found in training.tables:
        yield _representation(found, training, numbers)
        if found.balancing is not None:
            yield _balancing(found.group_by, found.balancing, numbers)
    yield Section("What balancing can and cannot do", (*BALANCING_CAN, *BALANCING_CANNOT))


def _representation(found: Representation, training: DatasetReport, numbers: Numbers) -> Section:
    return Section(
        f"Training data by {found.group_by}",
        tuple(_notes(found, training, numbers)),
        table(
            "slice|rows|share|target|points off|ready|ready, target|ready, against all others",
            (_share(one, numbers) for one in found.slices),
        ),
    )


def _notes(found: Representation, training: DatasetReport, numbers: Numbers) -> Iterator[str]:
    if training.synthetic:
        yield SYNTHETIC_SENTENCE
    target = "the target of the file" if training.target_stated else "equal shares"
    yield (
        f"{numbers.support(training.rows)} rows, against {target}. It says what a judge was taught"
        " on, and nothing of how the router treats anybody."
    )
    if found.withheld:
        yield "Shares are withheld: a slice has too few rows to be shown."
    elif found.ready_withheld:
        yield "Labels are withheld: a slice has too few rows of one label."
    else:
        yield f"At most {numbers.points(found.points / 100)} points off."


def _share(one: SliceShare, numbers: Numbers) -> tuple[str, ...]:
    return (
        words.slice_name(one.slice),
        numbers.support(one.rows),
        numbers.rate(one.share),
        numbers.rate(one.target),
        numbers.points(one.points / 100),
        *_ready(one.ready, numbers),
    )


def _ready(ready: ReadyShare | None, numbers: Numbers) -> tuple[str, ...]:
    if ready is None:
        return (NOTHING,) * 3
    bounds = numbers.points_interval(ready.lower, ready.upper)
    difference = f"{numbers.points(ready.difference)} points\n({bounds})"
    return (
        numbers.rate(ready.share),
        numbers.rate(ready.target),
        difference if ready.difference is not None else NOTHING,
    )


def _balancing(group_by: str, found: Balancing, numbers: Numbers) -> Section:
    return Section(
        f"Balancing by {group_by}",
        (
            f"Weighted as below, the rows are worth {found.effective_rows:,.0f} and are"
            f" {numbers.points(found.points_left / 100)} points off. Without weights"
            f" {found.rows_needed:,} more rows are needed.",
        ),
        table("slice|label|weight|more rows needed", map(_weight, found.weights)),
    )


def _weight(one: Weight) -> tuple[str, ...]:
    return (
        words.slice_name(one.slice),
        NOTHING if one.ready is None else words.expected(one.ready),
        "no rows to weigh" if one.weight is None else f"{one.weight:.2f}",
        f"{one.rows_needed:,}",
    )
