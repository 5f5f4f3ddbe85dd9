"""The verdict of a page in one sentence: what is broken first, what cannot be said last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from monitor.core.contract import Verdict
from monitor.core.publish.annotations import IncidentKind
from monitor.core.publish.conclusion import overall
from monitor.core.publish.headlines import Headline, incident_sentence
from monitor.core.publish.snapshot import Snapshot
from monitor.core.time import to_datetime
from monitor.web.contents import ContractContent, StandingIncident

BLIND = "blind"
NOTHING_YET = "Nothing is published yet."

OUTDATED = "Everything was within the contract, but that is too long ago to say anything of now"
EVALUATOR_BEHIND = (
    f"{OUTDATED}: newer decisions are in the store, and the evaluator is behind. Look first at the"
    " log of the process that evaluates; slicewatch db status names it."
)
NOTHING_NEWER = (
    f"{OUTDATED}: the store has no newer decision. Look first at slicewatch_consumer_lag_messages:"
    " above 0, ingest is behind; at 0, the router, or what sends its decisions, is silent."
)


def of_page(
    contracts: Sequence[ContractContent],
    incidents: Sequence[StandingIncident],
    blind: Sequence[str],
    *,
    outdated: bool,
    newer: bool = False,
) -> Headline:
    """The verdict on everything.

    Args:
        contracts: as they are shown.
        incidents: those that are not over.
        blind: why the service does not see.
        outdated: what is shown is too old to say that anything is well.
        newer: the store has decisions that are not too old for that.
    """
    if blind:
        shown = "What is shown is out of date." if contracts else NOTHING_YET
        return Headline(BLIND, f"slicewatch is blind: {blind[0]}. {shown}")
    if not contracts:
        return Headline(Verdict.INSUFFICIENT_SUPPORT, NOTHING_YET)
    verdicts = [Verdict(one.verdict.word) for one in contracts]
    worst = overall(verdicts)
    breaches = [
        one for one in incidents if one.kind == IncidentKind.BREACH and not one.accepted_until
    ]
    if breaches and worst is not Verdict.FAIL:
        return Headline(Verdict.FAIL, f"{_open(len(breaches))}: {breaches[0].sentence}.")
    if outdated and worst is Verdict.PASS:
        why = EVALUATOR_BEHIND if newer else NOTHING_NEWER
        return Headline(Verdict.INSUFFICIENT_SUPPORT, why)
    named = [one for one, verdict in zip(contracts, verdicts, strict=True) if verdict is worst]
    return Headline(worst, " ".join(_of_contract(one, len(contracts)) for one in named))


def _open(number: int) -> str:
    return "An incident is open" if number == 1 else f"{number} incidents are open"


def _of_contract(one: ContractContent, of: int) -> str:
    return one.verdict.sentence if of == 1 else f"Contract {one.contract}: {one.verdict.sentence}"


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
                severity=one.severity.value,
                slice=one.slice,
                since=to_datetime(one.since),
                acknowledged=one.acknowledged,
                accepted_until=None if until is None else to_datetime(until),
                sentence=incident_sentence(one.metric, one.slice, one.behind, one.limit),
            )
