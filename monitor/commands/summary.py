"""Guarded tables of ``slicewatch replay --summary``: verdicts of every contract, by metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from monitor.core.contract import Verdict
from monitor.core.metric import Metric
from monitor.core.publish.conclusion import LimitCheck, checks, limited, overall
from monitor.core.publish.glossary import slice_name
from monitor.core.publish.limit_words import limit_text, limits_text, needed_text, own_limits_text
from monitor.core.publish.lines import all_places, cell, window_of
from monitor.core.publish.reasons import Place
from monitor.core.publish.snapshot import (
    ContractTable,
    LimitKind,
    Period,
    ShownRate,
    Snapshot,
    WindowTable,
    tables_of,
)
from monitor.core.publish.states import VERDICT_OF
from monitor.core.publish.window_notes import window_notes
from monitor.core.publish.words import (
    NONE,
    age_text,
    bounded_rate_text,
    bounds,
    gap_text,
    iso_text,
    ratio_text,
)
from monitor.core.state import State
from monitor.core.time import SECOND
from monitor.present.document import Document, Section, TableCell, Tone, table

SYNTHETIC = "synthetic test conditions, not a finding about people"
_TONES = {Verdict.PASS: Tone.GOOD, Verdict.FAIL: Tone.BAD}


def summary(snapshot: Snapshot | None) -> Iterator[Document]:
    """Yield a document per contract that has published anything in its deciding window.

    First come tables for each metric with a limit, then the rates without limits, then a line that
    says whether the contract is kept.
    """
    for contract in snapshot.contracts if snapshot else ():
        window = window_of(contract)
        if snapshot and window:
            yield _document(contract, window, snapshot.watermark or 0)


def _document(contract: ContractTable, window: WindowTable, now: int) -> Document:
    judged = list(checks(contract, window))
    verdict = overall(check.verdict for check in judged)
    return Document(
        title=f"{contract.contract} v{contract.version}, window {contract.window}",
        word=f"{contract.contract} v{contract.version}: {verdict}",
        tone=_TONES.get(verdict, Tone.PLAIN),
        verdict=_tally(judged),
        facts=tuple(_facts(contract, window, now)),
        sections=(
            *(_limited(contract, window, metric, now) for metric in limited(contract)),
            *_unlimited(contract, window, now),
        ),
    )


def _tally(judged: Sequence[LimitCheck]) -> str:
    """Return the number of checks by outcome, with the failed ones by name."""
    counts = Counter(check.verdict for check in judged)
    failed = [_failed(check) for check in judged if check.verdict is Verdict.FAIL]
    undecided = len(judged) - counts[Verdict.PASS] - len(failed)
    failures = f" Fails: {'; '.join(failed)}." if failed else ""
    return (
        f"Of {len(judged)} checks {len(failed)} fail, {counts[Verdict.PASS]} pass, {undecided} are"
        f" undecided.{failures}"
    )


def _failed(check: LimitCheck) -> str:
    limit = "" if check.decided_by is None else f" ({limit_text(check.decided_by)})"
    return f"{check.metric.row.name} of {check.name}{limit}"


def _facts(contract: ContractTable, window: WindowTable, now: int) -> Iterator[tuple[str, str]]:
    """Yield name and text of what has to be known to read the tables of a contract."""
    yield "complete to", f"{iso_text(now)}; ages count from there"
    yield "numbers", "with their 95 % interval; a gap above 0: worse off; n is the support"
    if contract.synthetic:
        yield "kind", SYNTHETIC
    else:
        yield "privacy", f"numbers of fewer than {contract.k} are hidden"
    if contract.max_age is not None:
        yield "stale", f"numbers older than {_age(contract.max_age)} are not within the contract"
    for note in (*window_notes(contract, window), *_missing_labels(window)):
        yield "note", note


def _age(micros: int) -> str:
    return age_text(micros / SECOND)


def _missing_labels(window: WindowTable) -> Iterator[str]:
    """Yield a sentence per slice whose missing labels matter, with the ranges of its rates."""
    for row in (row for group in window.groups for row in group.rows):
        ranges = [
            f"{metric.row.name} {bounds(rate.least, rate.most)}"
            for metric, rate in row.rates.items()
            if rate.least is not None and row.states[metric] is State.MATURING
        ]
        if ranges and row.completeness is not None:
            yield (
                f"{row.slice} lacks labels (completeness {row.completeness:.2f});"
                f" whatever they would say: {', '.join(ranges)}"
            )


def _limited(contract: ContractTable, window: WindowTable, metric: Metric, now: int) -> Section:
    """Return the section of a metric: its limits, and rate, gap and verdict of every slice."""
    role = "primary" if metric is contract.primary else "guardrail"
    usual = limits_text(contract.limits_of("", "", metric))
    own_texts = (f"{name}: {text}" for name, text in own_limits_text(contract, metric))
    limits = [*filter(None, [usual]), *own_texts, f"needs {needed_text(contract, metric)}"]
    ratio = LimitKind.MIN_RATIO in contract.limit_kinds(metric)
    columns = f"slice|rate|n|{'gap in points, ratio' if ratio else 'gap in points'}|verdict: state"
    rows = (_row(place, metric, ratio=ratio) for place in all_places(contract, window))
    return Section(
        f"{metric.row.name} ({role}): {'; '.join(limits)}",
        tuple(_spans(window, now, labelled=metric.labelled)),
        table(columns, rows),
    )


def _name(place: Place) -> str:
    """Return the name of a row's slice, with a line for each attribute."""
    return slice_name(place.row.slice).replace(",", ",\n")


def _row(place: Place, metric: Metric, *, ratio: bool) -> Iterator[str | TableCell]:
    """Yield the cells of a slice: name, rate, support, gap with any ratio, and verdict."""
    rate = place.row.rates.get(metric)
    yield _name(place)
    yield bounded_rate_text(rate, "\n")
    yield _support(place.contract, rate)
    if metric not in place.row.states:
        yield from (NONE, NONE)
        return
    shown = cell(place, metric)
    yield "\n".join([gap_text(shown.gap), *([ratio_text(shown.gap)] if ratio else [])])
    verdict = VERDICT_OF[shown.state]
    decided = verdict in (Verdict.PASS, Verdict.FAIL)
    state = shown.state.value.replace("_", " ")
    text = f"{verdict}: {state}" if decided else state
    if place.row.slice and shown.gap is None and shown.state is State.NO_LIMIT:
        text = "reference"
    if shown.mirror_of and shown.state is not State.BETTER_OFF:
        text = f"judged with {slice_name(shown.mirror_of)}"
    yield TableCell(text, Tone(shown.state.row.tone))


def _unlimited(contract: ContractTable, window: WindowTable, now: int) -> Iterator[Section]:
    """Yield the section of selection and blocked rates that no limit is on; none if all are."""
    metrics = [m for m in (Metric.SELECTION, Metric.BLOCKED) if m not in limited(contract)]
    if metrics:
        rows = (_unlimited_row(place, metrics) for place in all_places(contract, window))
        columns = "|".join(["slice", *(metric.row.name for metric in metrics), "n"])
        spans = tuple(_spans(window, now, labelled=False))
        yield Section("rates without a limit", spans, table(columns, rows))


def _unlimited_row(place: Place, metrics: Sequence[Metric]) -> Iterator[str]:
    rates = [place.row.rates.get(metric) for metric in metrics]
    yield _name(place)
    yield from (bounded_rate_text(rate, "\n") for rate in rates)
    yield _support(place.contract, rates[0])


def _spans(window: WindowTable, now: int, *, labelled: bool) -> Iterator[str]:
    """Yield a text per span of the tables: who it is of, its ends, its length and its age."""
    names: dict[Period | None, list[str]] = {}
    for part in tables_of(window):
        period = part.labelled if labelled else part.decisions
        names.setdefault(period, []).append(part.group_by or "all decisions")
    for period, tables in names.items():
        yield f"{', '.join(tables)}: {span(period, now)}"


def span(period: Period | None, now: int) -> str:
    """Return start, end, length and age at ``now`` of a period as text; times in us."""
    if period is None:
        return "nothing published yet"
    length, age = _age(period.end - period.start), _age(max(0, now - period.end))
    return f"{iso_text(period.start)} to {iso_text(period.end)}, {length} long, {age} old"


def _support(contract: ContractTable, rate: ShownRate | None) -> str:
    return NONE if rate is None else contract.support_text(rate.support)
