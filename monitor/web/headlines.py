"""The verdict of a page in one sentence: what is broken first, what cannot be said last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from monitor.core.contract import Metric, State, Verdict
from monitor.core.publish.annotations import Behind, IncidentKind
from monitor.core.publish.conclusion import checks, overall
from monitor.core.publish.glossary import slice_name
from monitor.core.publish.snapshot import (
    WITHHELD,
    ContractTable,
    ShownGap,
    ShownIncident,
    Snapshot,
    WindowTable,
)
from monitor.core.rates.gap_words import RATED, said_of_slice
from monitor.core.time import to_datetime
from monitor.web.contents import ContractContent, Headline, SliceLine, StandingIncident
from monitor.web.words import points

BLIND = "blind"
_BAD = (State.BREACH, State.SUSPECTED)
NOTHING_YET = (
    "Nothing has been published yet: the first numbers appear after the first whole UTC day whose"
    " decisions are complete."
)

OUTDATED = "Everything was within the contract, but that is too long ago to say anything of now."


def of_page(
    contracts: Sequence[ContractContent],
    incidents: Sequence[StandingIncident],
    blind: Sequence[str],
    *,
    outdated: bool,
) -> Headline:
    """The verdict on everything.

    Args:
        contracts: as they are shown.
        incidents: those that are not over.
        blind: why the service does not see.
        outdated: what is shown is too old to say that anything is well.
    """
    if blind:
        return Headline(BLIND, f"slicewatch is blind: {blind[0]}. What is shown is out of date.")
    if not contracts:
        return Headline(Verdict.INSUFFICIENT_SUPPORT, NOTHING_YET)
    verdicts = [Verdict(one.verdict.word) for one in contracts]
    worst = overall(verdicts)
    pages = [one for one in incidents if one.kind == IncidentKind.PAGE and not one.accepted_until]
    if pages and worst is not Verdict.FAIL:
        return Headline(Verdict.FAIL, f"{_open(len(pages))}: {pages[0].sentence}.")
    if outdated and worst is Verdict.PASS:
        return Headline(Verdict.INSUFFICIENT_SUPPORT, OUTDATED)
    named = [one for one, verdict in zip(contracts, verdicts, strict=True) if verdict is worst]
    return Headline(worst, " ".join(_of_contract(one, len(contracts)) for one in named))


def _open(number: int) -> str:
    return "An incident is open" if number == 1 else f"{number} incidents are open"


def _of_contract(one: ContractContent, of: int) -> str:
    return one.verdict.sentence if of == 1 else f"Contract {one.contract}: {one.verdict.sentence}"


def of_contract(table: ContractTable, window: WindowTable, slices: Sequence[SliceLine]) -> Headline:
    """The verdict on one contract in a window; ``slices`` are ranked."""
    found = list(checks(table, window))
    tally = Counter(check.verdict for check in found)
    failed, passed = tally[Verdict.FAIL], tally[Verdict.PASS]
    verdict = overall(check.verdict for check in found)
    undecided = len(found) - failed - passed
    if verdict is Verdict.FAIL:
        more = f" {failed - 1} more of {len(found)} checks fail." if failed > 1 else ""
        return Headline(verdict, f"The contract is broken: {_worst(slices)}.{more}")
    if verdict is Verdict.PASS:
        return Headline(verdict, f"All {len(found)} checks are within the contract.")
    if not found:
        return Headline(verdict, "Nothing can be checked yet.")
    rest = f"{passed} of {len(found)} are within the contract, {undecided} are undecided"
    return Headline(verdict, f"No check fails; {rest}.")


def _worst(slices: Sequence[SliceLine]) -> str:
    """The first failing metric of the worst slice, in words."""
    for one in slices:
        for cell in one.cells:
            if cell.state in _BAD:
                return _behind(cell.metric, one.slice, cell.gap, cell.max_gap)
    return "a check fails"


def _behind(metric: Metric, slice_: str, gap: ShownGap | None, limit: float | None) -> str:
    name = slice_name(slice_)
    if gap is None or not gap.value:
        return f"{name}: {RATED[metric]} outside the limit"
    size = f"{points(abs(gap.value)).lstrip('+')} points"
    allowed = "" if limit is None else f", limit {points(limit).lstrip('+')}"
    what = said_of_slice(metric, gap.value)
    return f"{name}: {what} than those of {slice_name(gap.reference)} ({size}{allowed})"


def standing_incidents(snapshot: Snapshot) -> Iterator[StandingIncident]:
    """The incidents of a Snapshot, contract by contract."""
    for table in snapshot.contracts:
        for one in table.incidents:
            until = one.accepted_until
            yield StandingIncident(
                id=one.id,
                contract=table.contract,
                metric=one.metric,
                kind=one.kind.value,
                slice=one.slice,
                since=to_datetime(one.since),
                acknowledged=one.acknowledged,
                accepted_until=None if until is None else to_datetime(until),
                sentence=incident_sentence(one.metric, one.slice, one.behind),
            )


def incident_sentence(metric: Metric, slice_: str, behind: Behind | None) -> str:
    """What happened to whom, without a number."""
    name = slice_name(slice_)
    if slice_ == WITHHELD:
        return f"{RATED[metric].removeprefix('its ')}: details are withheld to protect few people"
    if behind is Behind.SLICE:
        return f"{name}: {said_of_slice(metric, 1)} than those of its reference"
    if behind is Behind.REFERENCE:
        return f"{name}: {said_of_slice(metric, -1)} than those of its reference"
    if behind is Behind.LEVEL:
        return f"{name}: {RATED[metric]} outside the level of the contract"
    return f"{name}: {RATED[metric]} outside the limit"


def of_incident(table: ContractTable, number: int) -> ShownIncident | None:
    """An incident of a contract that is not over; None where it has none of that number."""
    return next((one for one in table.incidents if one.id == number), None)
