"""The sections of one part of a set, flips first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from monitor.audit.render import words
from monitor.audit.render.sections import Cell, Section, Tone, mark, table
from monitor.audit.render.words import CHECKS, METRICS, NOTHING, TRIALS, Numbers
from monitor.audit.report import (
    FLIP_SENTENCE,
    CalibrationLine,
    Check,
    FlipCounts,
    Part,
    Point,
    ShownFlip,
    SliceLine,
    VariantOutcome,
    WhatIfLine,
)
from monitor.core.contract import Metric, Verdict
from monitor.core.flips import Direction

_TONES = {
    Point.PASS: Tone.GOOD,
    Point.FAIL: Tone.BAD,
    Point.NONE: Tone.UNSURE,
    Verdict.PASS: Tone.GOOD,
    Verdict.FAIL: Tone.BAD,
    Verdict.INSUFFICIENT_SUPPORT: Tone.UNSURE,
    None: Tone.PLAIN,
}
FLIPS = "Flips"
_RATES = (Metric.SELECTION, Metric.TPR, Metric.FPR)


def sections(part: Part, numbers: Numbers, prefix: str = "") -> Iterator[Section]:
    """All sections of a part.

    Args:
        part: what is shown.
        numbers: how numbers are written.
        prefix: set before every title.
    """
    for one in _all(part, numbers):
        if one.table is not None or one.title == FLIPS:
            yield Section(prefix + one.title, one.notes, one.table, one.short and not prefix)


def _all(part: Part, numbers: Numbers) -> Iterator[Section]:
    single, joint = _by_group(part.slices, joint=False), _by_group(part.slices, joint=True)
    yield flips(part)
    yield _counts(part.counts, numbers)
    yield from (_rates(f"Slices by {name}", lines, numbers) for name, lines in single.items())
    yield _checks(part.checks, numbers)
    yield _support(part, numbers)
    yield _calibration(part.calibration, numbers)
    yield from (_rates(f"Intersections: {name}", lines, numbers) for name, lines in joint.items())
    yield _what_if(part.what_if, numbers)
    yield _advice(part)


def _by_group(lines: Iterable[SliceLine], *, joint: bool) -> dict[str, list[SliceLine]]:
    """Slices by group-by; the total stands above those of the first one."""
    found: dict[str, list[SliceLine]] = {}
    total: list[SliceLine] = []
    for line in lines:
        if not line.slice:
            total.append(line)
        elif ("+" in line.group_by) is joint:
            found.setdefault(line.group_by, [] if found or joint else [*total]).append(line)
    return found


def flips(part: Part, title: str = FLIPS) -> Section:
    """Every flip with both routes; of people none is listed."""
    if part.flips_withheld:
        nobody = "Reviewed data of real people: flips are counted below, and listed nowhere."
        return Section(title, (nobody, FLIP_SENTENCE), short=True)
    found = table(
        "pair|expected|reference|compared with it|what happened|stage/cause",
        map(_flip, part.flips),
    )
    none = () if part.flips else (f"No pair flipped, of {part.pairs:,} compared.",)
    return Section(title, (*none, FLIP_SENTENCE), found, short=True)


def _flip(flip: ShownFlip) -> tuple[str | Cell, ...]:
    return (
        flip.pair,
        words.expected(flip.expected_ready),
        _variant(flip.reference),
        _variant(flip.variant),
        f"{words.direction(flip)}\n{words.what_happened(flip)}",
        words.stage(flip).replace("/", "/\n"),
    )


def _variant(one: VariantOutcome) -> str:
    return f"{one.variant}\n{words.outcome(one).replace(': ', chr(10), 1)}"


def _counts(lines: Iterable[FlipCounts], numbers: Numbers) -> Section:
    notes = [
        "Behind the evidence gate, which is held outside. McNemar's exact two-sided test asks"
        " whether flips go one way more often than chance would have it."
    ]
    if not numbers.exact:
        notes.append(
            "Of real people: each number is one that the truth is at least, and - says nothing."
        )
    return Section(
        "Flips by axis",
        tuple(notes),
        table(
            "axis|compared|flips|held back|served|at the gate|stages|McNemar p",
            (_count(line, numbers) for line in lines),
        ),
    )


def _count(line: FlipCounts, numbers: Numbers) -> tuple[str, ...]:
    if line.withheld:
        return (line.by, "withheld", *(NOTHING,) * 6)
    return (
        line.by,
        *(numbers.support(count) for count in (line.compared, line.flips)),
        *(numbers.support(line.directions.get(way, 0)) for way in Direction),
        numbers.support(line.at_gate),
        "\n".join(f"{stage}: {numbers.support(n)}" for stage, n in line.stages.items()) or NOTHING,
        words.p_value(line.p_value),
    )


def _rates(title: str, lines: Iterable[SliceLine], numbers: Numbers) -> Section:
    note = "Rates with their 95 % Wilson intervals, and the support that they rest on."
    columns = "slice|selection|TPR|positives|FPR|negatives|blocked"
    return Section(title, (note,), table(columns, (_slice(line, numbers) for line in lines)))


def _slice(line: SliceLine, numbers: Numbers) -> tuple[str | Cell, ...]:
    selection, tpr, fpr = (numbers.shown(line.rates.get(metric), "\n") for metric in _RATES)
    blocked = line.rates.get(Metric.BLOCKED)
    return (
        words.slice_name(line.slice),
        selection,
        tpr,
        _supported(line, Metric.TPR, numbers),
        fpr,
        _supported(line, Metric.FPR, numbers),
        numbers.rate(blocked.value) if blocked and blocked.value is not None else NOTHING,
    )


def _supported(line: SliceLine, metric: Metric, numbers: Numbers) -> str | Cell:
    support, needed = line.supports.get(metric), line.needed.get(metric)
    if support is None or needed is None or support >= needed:
        return numbers.support(support)
    return Cell(f"{numbers.support(support)}\ninsufficient", Tone.UNSURE)


def _checks(lines: tuple[Check, ...], numbers: Numbers) -> Section:
    notes = [
        "What the point says and what its 95 % interval says, side by side. In production intervals"
        " alone decide. Gaps are in points."
    ]
    if not all(line.matched for line in lines):
        notes.append(
            "Where slice and reference do not hold the same pairs, the gap is one between other"
            " requests, and says nothing of how a wording is treated."
        )
    columns = "by|slice|check|point|by point|interval|by interval"
    rows = (_check(line, numbers) for line in lines)
    return Section("Contract checks", tuple(notes), table(columns, rows), short=True)


def _check(line: Check, numbers: Numbers) -> tuple[str | Cell, ...]:
    gap = line.name.endswith("_gap")
    write = numbers.points if gap else numbers.rate
    bounds = numbers.points_interval if gap else numbers.interval
    return (
        words.attributes(line.slice),
        words.slice_name(line.slice) + _against(line),
        f"{CHECKS[line.name]}\n{write(line.limit)}{' points' if gap else ''}",
        write(line.value),
        Cell(line.point.value.upper(), _TONES[line.point]),
        bounds(line.lower, line.upper),
        Cell(_verdict(line.verdict), _TONES[line.verdict]),
    )


def _against(line: Check) -> str:
    if not line.against:
        return ""
    return f"\nagainst {words.slice_name(line.against)}" + (
        "" if line.matched else "\n(other pairs)"
    )


def _verdict(verdict: Verdict | None) -> str:
    if verdict is None:
        return NOTHING
    return verdict.value.upper().replace("_", "\n")


def _support(part: Part, numbers: Numbers) -> Section:
    rows = (
        (
            words.attributes(line.slice),
            words.slice_name(line.slice),
            TRIALS.get(line.metric, METRICS[line.metric]),
            numbers.support(line.support),
            f"{line.needed:,}",
            mark(line.met, "PASS", "FAIL"),
        )
        for line in part.supports
    )
    return Section("Support", (), table("by|slice|of|support|needed|verdict", rows))


def _calibration(lines: tuple[CalibrationLine, ...], numbers: Numbers) -> Section:
    note = (
        "Share of replies that were ready, by score band. A band without replies is absent, not"
        " 0 %; below ten it says nothing."
    )
    columns = "by|slice|score band|n|ready|support"
    return Section("Calibration", (note,), table(columns, _calibrated(lines, numbers)))


def _calibrated(
    lines: tuple[CalibrationLine, ...], numbers: Numbers
) -> Iterator[tuple[str | Cell, ...]]:
    """A row for each slice and band; of guarded numbers nothing tells why one is not there."""
    found = {(line.slice, line.band): line for line in lines}
    bands = words.in_order({line.band for line in lines})
    for slice_ in dict.fromkeys(line.slice for line in lines):
        for band in bands:
            line = found.get((slice_, band))
            if line is not None:
                yield (*_named(slice_, band), *_cells(line, numbers))
            elif numbers.exact:
                yield (*_named(slice_, band), "0", "absent", NOTHING)


def _named(slice_: str, band: str) -> tuple[str, ...]:
    return words.attributes(slice_), words.slice_name(slice_), band


def _cells(line: CalibrationLine, numbers: Numbers) -> tuple[str | Cell, ...]:
    enough = Cell("sufficient", Tone.GOOD) if line.sufficient else Cell("insufficient", Tone.UNSURE)
    return numbers.support(line.n), numbers.shown(line.rate), enough


def _what_if(lines: tuple[WhatIfLine, ...], numbers: Numbers) -> Section:
    note = (
        "What one threshold for all variants would have made of these very replies: a look back,"
        " not a forecast. Gaps are in points."
    )
    columns = "threshold|flips|TPR|FPR|TPR gap|FPR gap"
    return Section(
        "Other thresholds", (note,), table(columns, (_if(one, numbers) for one in lines))
    )


def _if(line: WhatIfLine, numbers: Numbers) -> tuple[str, ...]:
    return (
        words.number(line.threshold) + (" (now)" if line.current else ""),
        f"{line.flips:,}",
        _by_slice(line.tpr, numbers),
        _by_slice(line.fpr, numbers),
        numbers.points(line.tpr_gap),
        numbers.points(line.fpr_gap),
    )


def _by_slice(rates: Mapping[str, float | None], numbers: Numbers) -> str:
    return "\n".join(f"{words.slice_name(s)} {numbers.rate(rate)}" for s, rate in rates.items())


def _advice(part: Part) -> Section:
    rows = ((one.stage, one.helps, one.does_not_help) for one in part.advice)
    return Section(
        "What to try",
        ("Each is a hypothesis to test, not a finding.",),
        table("stage that failed|what usually helps|what does not", rows),
    )
