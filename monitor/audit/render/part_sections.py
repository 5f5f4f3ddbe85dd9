"""Sections of a report: those of one part of a set, flips first, and those of the training set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from monitor.audit.audit_report import (
    FLIP_SENTENCE,
    SYNTHETIC_SENTENCE,
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
from monitor.audit.dataset import (
    BALANCING_CAN,
    BALANCING_CANNOT,
    Balancing,
    DatasetReport,
    ReadyShare,
    Representation,
    SliceShare,
    Weight,
)
from monitor.audit.render import words
from monitor.audit.render.words import CHECKS, TRIALS, CheckFormat, Numbers
from monitor.core.contract import Role, Verdict
from monitor.core.metric import Metric
from monitor.core.probes.flips import FlipDirection
from monitor.core.publish.words import (
    NONE,
    bounded_rate_text,
    distance,
    gap_bounds,
    percent,
    points,
)
from monitor.present.document import Brief, Section, TableCell, Tone, mark, table

_TONES = {
    Point.PASS: Tone.GOOD,
    Point.FAIL: Tone.BAD,
    Point.BETTER_OFF: Tone.PLAIN,
    Point.NONE: Tone.UNSURE,
    Verdict.BETTER_OFF: Tone.PLAIN,
    Verdict.PASS: Tone.GOOD,
    Verdict.FAIL: Tone.BAD,
    Verdict.INCONCLUSIVE: Tone.UNSURE,
    Verdict.INSUFFICIENT_SUPPORT: Tone.UNSURE,
    None: Tone.PLAIN,
}
_UNDECIDED = (Verdict.INCONCLUSIVE, Verdict.INSUFFICIENT_SUPPORT)
FLIPS = "Flips"
_THRESHOLDS = 11
"""Number of other thresholds shown, those nearest to the ones that decided; JSON has all."""
_NAMED = 5
"""Most reference variants that are named."""
_NAMES = 3
"""Number of leading columns that name a calibration row: attribute, slice and band."""
Row = tuple[str | TableCell, ...]
_RATES = (Metric.SELECTION, Metric.TPR, Metric.FPR)


def sections(part: Part, numbers: Numbers, prefix: str = "") -> Iterator[Section]:
    """Yield the sections of a part that have a table, and the flips even without a table.

    Args:
        part: the part to show.
        numbers: format of numbers.
        prefix: text before every title.
    """
    for section in _all_sections(part, numbers):
        if section.tables or section.title == FLIPS:
            brief = Brief.NOTHING if prefix else section.brief
            yield replace(section, title=prefix + section.title, brief=brief)


def _all_sections(part: Part, numbers: Numbers) -> Iterator[Section]:
    single, joint = _by_group(part.slices, joint=False), _by_group(part.slices, joint=True)
    yield flips(part)
    yield _counts(part.counts, numbers)
    yield from (_rates(f"Slices by {name}", lines, numbers) for name, lines in single.items())
    yield _checks(part.checks, numbers)
    yield _support(part, numbers)
    yield _calibration(part.calibration, numbers)
    yield from (_rates(f"Intersections: {name}", lines, numbers) for name, lines in joint.items())
    yield _what_if(part.what_if)
    yield _advice(part)


def _by_group(lines: Iterable[SliceLine], *, joint: bool) -> dict[str, list[SliceLine]]:
    """Group lines by group-by, single or joint; the total precedes the first single one's lines."""
    by_group: dict[str, list[SliceLine]] = {}
    total: list[SliceLine] = []
    for line in lines:
        if not line.slice:
            total.append(line)
        elif ("+" in line.group_by) is joint:
            by_group.setdefault(line.group_by, [] if by_group or joint else [*total]).append(line)
    return by_group


def flips(part: Part, title: str = FLIPS, brief: Brief = Brief.ALL) -> Section:
    """Return the section that lists a part's flips with both routes, or says why none is listed."""
    if part.flips_withheld:
        withheld = "Reviewed data of real people: flips are counted below, and listed nowhere."
        return Section(title, (withheld, FLIP_SENTENCE), brief=brief)
    flip_table = table(
        "pair|expected|reference|compared with it|what happened|stage/cause", map(_flip, part.flips)
    )
    if not part.flips:
        no_flip = f"No pair flipped, of {part.pairs:,} compared."
        return Section(title, (no_flip, FLIP_SENTENCE), brief=brief)
    return Section(title, (FLIP_SENTENCE, _reference_note(part.flips)), flip_table, brief)


def _reference_note(flips: Iterable[ShownFlip]) -> str:
    """Return a note that names the reference variants and explains the choice."""
    names = sorted({flip.reference.variant for flip in flips})
    more = ", ..." if len(names) > _NAMED else ""
    return (
        f"reference = {', '.join(names[:_NAMED])}{more}: the contract's; where it names none, the"
        " variant whose name sorts first."
    )


def _flip(flip: ShownFlip) -> Row:
    return (
        flip.pair,
        words.expected(flip.expected_ready),
        _variant(flip.reference),
        _variant(flip.variant),
        f"{words.direction(flip)}\n{words.what_happened(flip)}",
        words.stage(flip).replace("/", "/\n"),
    )


def _variant(outcome: VariantOutcome) -> str:
    return f"{outcome.variant}\n{words.outcome(outcome).replace(': ', chr(10), 1)}"


def _counts(lines: Iterable[FlipCounts], numbers: Numbers) -> Section:
    notes = [
        "Flips after the evidence gate. A flip delays a ready reply, or serves an unready one:"
        " two errors, counted apart. McNemar's exact two-sided test asks if flips lean one way."
    ]
    if not numbers.exact:
        notes.append("Of real people: each number is a lower bound; - is hidden.")
    return Section(
        "Flips by axis",
        tuple(notes),
        table(
            "axis|expected|compared|flips|held back|served|at the gate|stages|McNemar p",
            (_count(line, numbers) for line in lines),
        ),
    )


def _count(line: FlipCounts, numbers: Numbers) -> tuple[str, ...]:
    """Return a line of flip counts as texts of a table's row."""
    kind = line.by, words.expected(line.expected_ready)
    if line.withheld:
        return (*kind, "withheld", *(NONE,) * 6)
    return (
        *kind,
        *(numbers.support(count) for count in (line.compared, line.flips)),
        *(numbers.support(line.directions.get(way, 0)) for way in FlipDirection),
        numbers.support(line.at_gate),
        "\n".join(_staged(stage, n, numbers) for stage, n in line.stages.items()) or NONE,
        words.p_value(line.p_value),
    )


def _staged(stage: str, flips: int, numbers: Numbers) -> str:
    return f"{stage}: {numbers.support(flips)}".replace("/", "/\n")


def _rates(title: str, lines: Iterable[SliceLine], numbers: Numbers) -> Section:
    notes = ["Rates with their 95 % Wilson intervals, and the support that they rest on."]
    columns = "slice|selection|TPR|positives|FPR|negatives|blocked"
    if numbers.exact:
        notes.append("TPR of all: ready replies that the evidence gate stopped count as unserved.")
        columns += "|TPR of all"
    rows = _with_content((_slice(line, numbers) for line in lines), 1)
    return Section(title, (*notes, *_left_out_note(numbers)), table(columns, rows))


def _left_out_note(numbers: Numbers) -> tuple[str, ...]:
    """Return the note that absent values are withheld; empty for exact numbers."""
    return () if numbers.exact else ("Hidden rows are left out.",)


def _with_content(rows: Iterable[Row], names: int) -> Iterator[Row]:
    """Yield the rows with any content after the first ``names`` cells."""
    return (row for row in rows if any(cell != NONE for cell in row[names:]))


def _slice(line: SliceLine, numbers: Numbers) -> Row:
    """Return the rates of a slice as texts of a table's row."""
    selection, tpr, fpr = (bounded_rate_text(line.rates.get(metric), "\n") for metric in _RATES)
    blocked = line.rates.get(Metric.BLOCKED)
    return (
        words.slice_name(line.slice),
        selection,
        tpr,
        _supported(line, Metric.TPR, numbers),
        fpr,
        _supported(line, Metric.FPR, numbers),
        percent(blocked.value) if blocked and blocked.value is not None else NONE,
        *([percent(line.tpr_with_blocked)] if numbers.exact else ()),
    )


def _supported(line: SliceLine, metric: Metric, numbers: Numbers) -> str | TableCell:
    support, needed = line.supports.get(metric), line.needed.get(metric)
    if support is None or needed is None or support >= needed:
        return numbers.support(support)
    return TableCell(f"{numbers.support(support)}\ninsufficient", Tone.UNSURE)


def _checks(lines: tuple[Check, ...], numbers: Numbers) -> Section:
    notes = [
        "Verdicts by the point and by its 95 % interval; in production the interval decides. Gaps"
        " are in points; above 0: worse off. Each harm is counted once, at the side that has it."
    ]
    if numbers.exact:
        notes.append("A gap is over the pairs that hold both sides.")
    elif not all(line.matched for line in lines):
        notes.append(
            "Where slice and reference do not hold the same pairs (other pairs), the gap is also"
            " one between different requests, and not between variants alone."
        )
    if any(line.point is Point.NONE for line in lines):
        notes.append(f"NONE: the point decides nothing. {_WHY_NONE[numbers.exact]}")
    columns = "by|slice|check|point|by point|interval|by interval"
    rows = (_check(line, numbers) for line in lines)
    return Section("Contract checks", tuple(notes), table(columns, rows), Brief.FAILING)


_WHY_NONE = {
    True: "No pair has such a reply on both sides.",
    False: "It is hidden to protect privacy.",
}


def _check(line: Check, numbers: Numbers) -> Row:
    """Return a check as a table's row: limit, value, interval and both verdicts."""
    write = CheckFormat.for_check(line.name)
    return (
        words.attributes(line.slice),
        words.slice_name(line.slice) + _against(line, numbers),
        f"{CHECKS[line.name]}\n{write.limit(line.limit)}{write.unit}{_role(line)}",
        write.value(line.value) + _worse_off(line),
        TableCell(_word(line.point), _TONES[line.point]),
        write.bounds(line.lower, line.upper),
        TableCell(_word(line.verdict), _verdict_tone(line.verdict, numbers)),
    )


def _role(line: Check) -> str:
    return "\n(guardrail)" if line.role is Role.GUARDRAIL else ""


def _worse_off(line: Check) -> str:
    """Return a second line that says which side is worse off; empty if neither."""
    if not line.worse_off:
        return ""
    if line.worse_off == line.slice:
        return "\nworse off"
    if Point.FAIL is line.point or Verdict.FAIL is line.verdict:
        return f"\n{words.slice_name(line.against)}\nworse off"
    return "\nbetter off"


def _against(line: Check, numbers: Numbers) -> str:
    """Return a second line with the reference, and a note if the pairs differ."""
    if not line.against:
        return ""
    pairs_note = (
        "" if line.matched else f"\n({'no pair of both' if numbers.exact else 'other pairs'})"
    )
    return f"\nagainst {words.slice_name(line.against)}{pairs_note}"


def _verdict_tone(verdict: Verdict | None, numbers: Numbers) -> Tone:
    """Return the emphasis of a verdict; undecided ones on reviewed data are bad."""
    if verdict in _UNDECIDED and not numbers.exact:
        return Tone.BAD
    return _TONES[verdict]


def _word(verdict: Point | Verdict | None) -> str:
    return NONE if verdict is None else verdict.value.upper().replace("_", "\n")


def _support(part: Part, numbers: Numbers) -> Section:
    rows = (
        (
            words.attributes(line.slice),
            words.slice_name(line.slice),
            TRIALS.get(line.metric, line.metric.row.name),
            numbers.support(line.support),
            f"{line.needed:,}",
            mark(line.met, "PASS", "FAIL"),
        )
        for line in part.supports
    )
    return Section("Support", (), table("by|slice|of|support|needed|verdict", rows))


def _calibration(lines: tuple[CalibrationLine, ...], numbers: Numbers) -> Section:
    notes = (
        "Share of replies that were ready, by score band. A band without replies is absent, not"
        " 0 %; below ten it says nothing.",
    )
    columns = "by|slice|score band|n|ready|support"
    rows = _with_content(_calibration_rows(lines, numbers), _NAMES)
    return Section("Calibration", notes + _left_out_note(numbers), table(columns, rows))


def _calibration_rows(lines: tuple[CalibrationLine, ...], numbers: Numbers) -> Iterator[Row]:
    """Yield a row per slice and band; exact numbers include absent bands."""
    by_slice_and_band = {(line.slice, line.band): line for line in lines}
    bands = words.in_order({line.band for line in lines})
    for slice_ in dict.fromkeys(line.slice for line in lines):
        for band in bands:
            line = by_slice_and_band.get((slice_, band))
            if line is not None:
                yield (*_names_of(slice_, band), *_cells(line, numbers))
            elif numbers.exact:
                yield (*_names_of(slice_, band), "0", "absent", NONE)


def _names_of(slice_: str, band: str) -> tuple[str, ...]:
    return words.attributes(slice_), words.slice_name(slice_), band


def _cells(line: CalibrationLine, numbers: Numbers) -> Row:
    """Return number, ready rate and sufficiency of a score band; dashes if all is hidden."""
    n, ready = numbers.support(line.n), bounded_rate_text(line.rate)
    if n == ready == NONE:
        return (NONE,) * 3
    enough = (
        TableCell("sufficient", Tone.GOOD)
        if line.sufficient
        else TableCell("insufficient", Tone.UNSURE)
    )
    return n, ready, enough


def _what_if(lines: tuple[WhatIfLine, ...]) -> Section:
    shown = _nearest_thresholds(lines)
    notes = [
        "One threshold for all variants, applied to these replies: a look back, not a forecast."
        " Gaps are in points; above 0: worse off."
    ]
    if len(shown) < len(lines):
        notes.append(
            f"The {len(shown)} nearest to what decided, of {len(lines)}; the JSON report has all."
        )
    attribute = next((words.attributes(slice_) for line in lines for slice_ in line.tpr), NONE)
    columns = "threshold|flips|TPR|FPR|TPR gap|FPR gap"
    rows = (_threshold(near_line) for near_line in shown)
    return Section(f"Other thresholds, by {attribute}", tuple(notes), table(columns, rows))


def _nearest_thresholds(lines: Sequence[WhatIfLine]) -> list[WhatIfLine]:
    """Return the _THRESHOLDS lines nearest to the deciding thresholds, rising."""
    deciding = [place for place, line in enumerate(lines) if line.current] or [0]
    nearest = sorted(
        range(len(lines)), key=lambda place: min(abs(place - decided) for decided in deciding)
    )
    return [lines[place] for place in sorted(nearest[:_THRESHOLDS])]


def _threshold(line: WhatIfLine) -> tuple[str, ...]:
    return (
        words.number(line.threshold) + (" (now)" if line.current else ""),
        f"{line.flips:,}",
        _by_slice(line.tpr),
        _by_slice(line.fpr),
        points(line.tpr_gap),
        points(line.fpr_gap),
    )


def _by_slice(rates: Mapping[str, float | None]) -> str:
    return "\n".join(f"{words.slice_name(s)} {percent(rate)}" for s, rate in rates.items())


def _advice(part: Part) -> Section:
    rows = (
        (recommendation.stage, recommendation.helps, recommendation.does_not_help)
        for recommendation in part.advice
    )
    return Section(
        "What to try",
        ("Each is a hypothesis to test, not a finding.",),
        table("stage that failed|what usually helps|what does not", rows),
    )


def training_sections(training: DatasetReport) -> Iterator[Section]:
    """Yield sections on representation and balancing by group-by, then on balancing's limits."""
    numbers = Numbers(exact=training.synthetic)
    for representation in training.tables:
        yield _representation(representation, training, numbers)
        if representation.balancing is not None:
            yield _balancing(representation.group_by, representation.balancing, numbers)
    yield Section("What balancing can and cannot do", (*BALANCING_CAN, *BALANCING_CANNOT))


def _representation(
    representation: Representation, training: DatasetReport, numbers: Numbers
) -> Section:
    return Section(
        f"Training data by {representation.group_by}",
        tuple(_notes(representation, training, numbers)),
        table(
            "slice|rows|share|target|points off|ready|ready, target|ready, against all others",
            (_share(slice_share, numbers) for slice_share in representation.slices),
        ),
    )


def _notes(
    representation: Representation, training: DatasetReport, numbers: Numbers
) -> Iterator[str]:
    if training.synthetic:
        yield SYNTHETIC_SENTENCE
    target = "the target of the file" if training.target_stated else "equal shares"
    yield (
        f"{numbers.support(training.rows)} rows, against {target}. It says what a judge was taught"
        " on, and nothing of how the router treats anybody."
    )
    if representation.withheld:
        yield "Shares are hidden to protect privacy."
    elif representation.ready_withheld:
        yield "Labels are hidden to protect privacy."
    else:
        yield f"At most {distance(representation.points / 100)} points off."


def _share(slice_share: SliceShare, numbers: Numbers) -> tuple[str, ...]:
    return (
        words.slice_name(slice_share.slice),
        numbers.support(slice_share.rows),
        percent(slice_share.share),
        percent(slice_share.target),
        distance(slice_share.points / 100),
        *_ready(slice_share.ready, numbers),
    )


def _ready(ready: ReadyShare | None, numbers: Numbers) -> tuple[str, ...]:
    if ready is None:
        return (NONE,) * 3
    bounds = gap_bounds(ready.lower, ready.upper)
    difference = f"{distance(ready.difference)} points\n({bounds})"
    return (
        percent(ready.share),
        percent(ready.target),
        difference if ready.difference is not None else NONE,
    )


def _balancing(group_by: str, balancing: Balancing, numbers: Numbers) -> Section:
    return Section(
        f"Balancing by {group_by}",
        (
            f"Weighted as below, the rows are worth {balancing.effective_rows:,.0f} and are"
            f" {distance(balancing.points_left / 100)} points off. Without weights"
            f" {balancing.rows_needed:,} more rows are needed.",
        ),
        table("slice|label|weight|more rows needed", map(_weight, balancing.weights)),
    )


def _weight(weight: Weight) -> tuple[str, ...]:
    return (
        words.slice_name(weight.slice),
        NONE if weight.ready is None else words.expected(weight.ready),
        "no rows to weigh" if weight.weight is None else f"{weight.weight:.2f}",
        f"{weight.rows_needed:,}",
    )
