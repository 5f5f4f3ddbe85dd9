"""Verdict of a page in one sentence: broken limits come first, unknown states last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from monitor.core.contract import Verdict
from monitor.core.publish.annotations import IncidentKind
from monitor.core.publish.conclusion import overall
from monitor.core.publish.glossary import slice_name
from monitor.core.publish.headlines import Headline, incident_sentence
from monitor.core.publish.snapshot import Snapshot
from monitor.core.time import optional_datetime, to_datetime
from monitor.web.contents import ContractContent, StandingIncident

BLIND = "blind"
NOTHING_YET = "Nothing is published yet."

OUTDATED = "The data are too old to judge"
EVALUATOR_BEHIND = f"{OUTDATED}: the evaluator is behind; see slicewatch db status."
NOTHING_NEWER = f"{OUTDATED}: no newer decision came; see slicewatch_consumer_lag_messages."


def page_headline(
    contracts: Sequence[ContractContent],
    incidents: Sequence[StandingIncident],
    blind: Sequence[str],
    *,
    outdated: bool,
    newer: bool = False,
) -> Headline:
    """Return the page's Headline: blindness first, then breaches, outdated data, worst verdict.

    Args:
        contracts: contracts of the page.
        incidents: incidents that are not over.
        blind: reasons why the service cannot see the router.
        outdated: whether the page is too old to say that anything is well.
        newer: whether the store has decisions that are recent enough for that.
    """
    if blind:
        detail = "What is shown is out of date." if contracts else NOTHING_YET
        return Headline(BLIND, f"slicewatch does not see the router. {detail}")
    if not contracts:
        return Headline(Verdict.INSUFFICIENT_SUPPORT, NOTHING_YET)
    verdicts = [Verdict(contract.verdict.word) for contract in contracts]
    worst = overall(verdicts)
    breaches = [
        incident
        for incident in incidents
        if incident.kind == IncidentKind.BREACH and not incident.accepted_until
    ]
    if breaches and worst is not Verdict.FAIL:
        return Headline(Verdict.FAIL, f"{_open(len(breaches))} on {slice_name(breaches[0].slice)}.")
    if outdated and worst is Verdict.PASS:
        why = EVALUATOR_BEHIND if newer else NOTHING_NEWER
        return Headline(Verdict.INSUFFICIENT_SUPPORT, why)
    if len(contracts) == 1:
        return contracts[0].verdict
    pairs = zip(contracts, verdicts, strict=True)
    names = [contract.contract for contract, verdict in pairs if verdict is worst]
    return Headline(worst, f"{', '.join(names)}: {_OF_SEVERAL.get(worst, 'undecided')}.")


_OF_SEVERAL = {Verdict.FAIL: "over a limit", Verdict.PASS: "all within their limits"}


def _open(count: int) -> str:
    return "An incident is open" if count == 1 else f"{count} incidents are open, the first"


def standing_incidents(snapshot: Snapshot) -> Iterator[StandingIncident]:
    """Yield a StandingIncident per open incident of a Snapshot, contract by contract."""
    for table in snapshot.contracts:
        for incident in table.incidents:
            yield StandingIncident(
                id=incident.id,
                contract=table.contract,
                metric=incident.metric,
                kind=incident.kind.value,
                severity=incident.severity.value,
                slice=incident.slice,
                since=to_datetime(incident.since),
                acknowledged=incident.acknowledged,
                accepted_until=optional_datetime(incident.accepted_until),
                sentence=incident_sentence(
                    incident.metric, incident.slice, incident.behind, incident.limit
                ),
            )
