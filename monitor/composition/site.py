"""Status page, and the facts that pages and reports say of the installation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec
import sqlalchemy as sa

from alerts import dashboards
from alerts.exposition.exporter import Exporter
from alerts.rules import Conditions, breach_runbooks, runbooks
from monitor.core.counts.cells import atom_text
from monitor.core.publish.limitations import Limitation
from monitor.core.publish.side_by_side import version_groups
from monitor.core.time import DAY
from monitor.ports import Clock
from monitor.reports import AttributeFacts, ReportFacts, UseCaseFacts
from monitor.settings import Settings
from monitor.settings.as_text import settings_digest
from monitor.settings.checks import is_loopback
from monitor.settings.sections import AttributeSettings, UseCase
from monitor.store.upkeep.published_reader import PublishedReader
from monitor.version import program_version

if TYPE_CHECKING:
    from monitor.web import Site, SiteFacts


def build_site(
    settings: Settings,
    engine: sa.Engine,
    clock: Clock,
    blind: Callable[[], Sequence[str]],
    exporter: Exporter,
) -> Site:
    """Return the status page and API; ``blind()`` returns the reasons why the service is blind."""
    from monitor.web import Site  # noqa: PLC0415 - slow to load

    published, facts = PublishedReader(engine, settings.stream.topics), _site_facts(settings)
    conditions = Conditions(settings, facts.runbooks_url, exporter, clock).standing
    return Site(published, facts, blind=blind, conditions=conditions, now=clock.now)


def _site_facts(settings: Settings) -> SiteFacts:
    """Return what pages and reports say of the installation, from the settings."""
    from monitor.web import SiteFacts  # noqa: PLC0415 - slow to load

    alerting = settings.alerting
    base = alerting.runbooks_url if alerting.runbooks else "/runbooks"
    return SiteFacts(
        version=program_version(),
        limitations=_limitations(settings),
        dashboard_url=dashboards.address(settings, "fleet"),
        slice_dashboard_url=dashboards.address(settings, "slice"),
        runbooks_url=base,
        runbooks={metric: f"{base}/{name}.md" for metric, name in breach_runbooks().items()},
        runbook_texts=cache(lambda: runbooks(settings)),
        versions=tuple(version_groups(settings.contracts, settings.coding)),
        report=report_facts(settings),
        lateness=settings.stream.lateness,
    )


def report_facts(settings: Settings) -> ReportFacts:
    """Return the facts of the settings that a weekly report shows."""
    return ReportFacts(
        program=f"slicewatch {program_version()}",
        use_cases=tuple(map(_use_case_facts, settings.use_case)),
        attributes=tuple(sorted(map(_attribute_facts, settings.attribute), key=lambda a: a.name)),
        audit_rates=settings.coding.audit_rates,
        score_bands=settings.coding.band_names,
        horizon_days=settings.stream.horizon / DAY,
        limitations=_limitations(settings),
        present_threshold=settings.report.present_threshold,
        status_url=_status_url(settings.alerting.external_url),
        dashboard_url=dashboards.address(settings, "fleet"),
        settings_digest=settings_digest(settings),
        timezone=settings.report.timezone,
    )


def _status_url(url: str) -> str:
    """Return the status page's address without a trailing slash; empty for a loopback host."""
    return "" if is_loopback(urlsplit(url).hostname or "") else url.rstrip("/")


def _use_case_facts(use_case: UseCase) -> UseCaseFacts:
    contract = use_case.contract
    return UseCaseFacts(
        name=use_case.name,
        owner=use_case.owner,
        context=use_case.context,
        version=contract.version,
        effective=contract.effective,
        reason=contract.reason,
        where=atom_text(use_case.where) if use_case.where else "",
        compared=tuple((g.name, g.reference) for g in use_case.to_core().group_bys),
    )


def _attribute_facts(attribute: AttributeSettings) -> AttributeFacts:
    return AttributeFacts(
        name=attribute.name,
        values=attribute.listed,
        definition=attribute.definition,
        source="version" if attribute.version_of else attribute.source,
        purpose=attribute.purpose,
        approved_by=attribute.owner,
        special_category=attribute.special_category,
        target=tuple((value, float(share)) for value, share in sorted(attribute.target.items())),
    )


def _limitations(settings: Settings) -> tuple[Limitation, ...]:
    return tuple(Limitation(**msgspec.structs.asdict(declared)) for declared in settings.limitation)
