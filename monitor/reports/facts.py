"""Facts of a report that come from the settings; none of them is counted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from monitor.core.publish.limitations import Limitation
from monitor.core.time import UTC_ZONE


@dataclass(frozen=True, slots=True)
class AttributeFacts:
    """Attribute as a report shows it: values, definition, source and approval, as declared.

    Attributes:
        name: of the attribute.
        values: listed ones, or the names of its ranges.
        definition: what it means, and how it can be wrong; may be empty.
        source: where its value comes from.
        purpose: why it is used; may be empty.
        approved_by: who approved its use; may be empty.
        special_category: whether the law protects it specially.
        target: shares of its values in the population that is to be reached; empty where unknown.
    """

    name: str
    values: tuple[str, ...]
    definition: str
    source: str
    purpose: str
    approved_by: str
    special_category: bool
    target: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class UseCaseFacts:
    """Use case and contract as a report shows them, as their owner declared them.

    Attributes:
        name: of the use case, and of its contract.
        owner: who answers for it.
        context: what it is used for; may be empty.
        version: of the contract in the settings.
        effective: since when that version holds.
        reason: why it was made, and what its owner accepts in exchange.
        where: attribute values that decide which decisions belong to it, as a slice text.
        compared: each group-by, and what its slices are compared with.
    """

    name: str
    owner: str
    context: str
    version: str
    effective: date
    reason: str
    where: str
    compared: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ReportFacts:
    """Facts of the settings for a weekly report; made by ``composition.site.report_facts``.

    Attributes:
        program: name and version of the program that writes the report.
        use_cases: in the order of the settings.
        attributes: by name.
        audit_rates: shares of decisions of which a label is requested, largest first.
        score_bands: names of the score bands.
        horizon_days: days that a label is waited for.
        limitations: the register of known limitations.
        interval_width: of a TPR or FPR that the label budget plans for, from bound to bound.
        present_threshold: the score from which on the router serves now; None where not known.
        status_url: where people reach the status page, without a slash at its end; empty where
            nothing is said.
        dashboard_url: of Grafana; None where there is none.
        timezone: name of the one that weeks begin in now.
        settings_digest: SHA-256 of the settings that numbers and texts depend on, in hexadecimal.
    """

    program: str
    use_cases: tuple[UseCaseFacts, ...] = ()
    attributes: tuple[AttributeFacts, ...] = ()
    audit_rates: tuple[float, ...] = ()
    score_bands: tuple[str, ...] = ()
    horizon_days: float = 0.0
    limitations: tuple[Limitation, ...] = ()
    status_url: str = ""
    dashboard_url: str | None = None
    settings_digest: str = ""
    interval_width: float = 0.10
    present_threshold: float | None = None
    timezone: str = UTC_ZONE
