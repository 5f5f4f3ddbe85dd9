"""The pages as HTML: templates filled with contents, every text escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from importlib import resources
from urllib.parse import urlencode

import jinja2
from markupsafe import Markup

from monitor import drawing
from monitor.core.contract import Metric, Verdict
from monitor.core.publish import limit_words, words
from monitor.core.publish.annotations import Behind, Outcome
from monitor.core.publish.glossary import TERMS, slice_name
from monitor.core.publish.headlines import incident_sentence
from monitor.core.publish.history import HistoryPoint
from monitor.core.publish.incident_reports import IncidentReport, ValueReport
from monitor.core.publish.limitations import Limitation
from monitor.core.publish.lines import Cell, SliceLine
from monitor.core.publish.side_by_side import VersionGroup
from monitor.core.publish.snapshot import ShownGap, ShownRate
from monitor.core.time import to_micros
from monitor.drawing import charts
from monitor.reports import ReportFacts
from monitor.web.beginning import FirstNumbers
from monitor.web.contents import (
    ContractContent,
    IncidentList,
    Moment,
    Overview,
    ReportList,
    SliceContent,
)
from monitor.web.headlines import BLIND
from monitor.web.links import ViewSubject

PAGE_SIZE = 100
"""Slices on one page of an overview."""

_VERDICT_TONES = {
    Verdict.PASS.value: "good",
    Verdict.FAIL.value: "bad",
    Verdict.INCONCLUSIVE.value: "unsure",
    Verdict.INSUFFICIENT_SUPPORT.value: "grey",
    BLIND: "bad",
}


@dataclass(frozen=True, slots=True)
class SiteFacts:
    """Facts of the pages that the settings have.

    Attributes:
        version: of slicewatch.
        limitations: the register of known limitations.
        dashboard_url: of Grafana; None where there is none.
        slice_dashboard_url: of the dashboard of one slice, without its variables; None likewise.
        runbooks_url: of the runbooks; None where no browser can reach them.
        runbooks: the runbook of a breach, by metric; a metric without one is absent.
        versions: the group-bys over versions of the router.
        report: what weekly reports say of the settings.
        first: when the first numbers are shown.
    """

    version: str
    limitations: tuple[Limitation, ...] = ()
    dashboard_url: str | None = None
    slice_dashboard_url: str | None = None
    runbooks_url: str | None = None
    runbooks: Mapping[Metric, str] = field(default_factory=dict)
    versions: tuple[VersionGroup, ...] = ()
    report: ReportFacts = field(default_factory=lambda: ReportFacts("slicewatch"))
    first: FirstNumbers = field(default_factory=FirstNumbers)


class PageRenderer:
    """Renders pages; any thread may use it."""

    def __init__(self, facts: SiteFacts) -> None:
        """Load the templates."""
        style = (resources.files(drawing) / "style.css").read_text(encoding="utf-8")
        self._environment = _environment(facts, style)
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        self.policy = (
            f"default-src 'none'; style-src 'sha256-{digest}'; form-action 'self';"
            " base-uri 'none'; frame-ancestors 'none'"
        )

    def overview(self, page: Overview, view: ViewSubject, today: date) -> str:
        """The first page; ``today`` is a UTC date."""
        lines = (line for one in page.contracts for line in (one.total, *one.slices))
        scale = charts.gap_scales(lines)
        return self._render(
            "overview",
            page=page,
            view=view,
            today=today,
            strip=lambda cell: charts.gap_strip(cell, scale),
            shown=lambda contract: _shown(contract, view.page),
            same_why=_same_why,
            references=_references(page),
            most=PAGE_SIZE,
            behind=lambda line, cell: words.behind_text(cell.metric, line.slice, cell.gap),
            pages=lambda contract: -(-len(contract.slices) // PAGE_SIZE),
        )

    def slice(self, page: SliceContent, view: ViewSubject) -> str:
        """The page of one slice."""
        scale = charts.gap_scale(charts.sizes(page.line.cells))
        marks = _marks(page)
        drawn = {
            "rate": charts.rate_history(page.history, marks),
            "gap": charts.gap_history(page.history, marks),
            "calibration": charts.calibration(page.calibration),
        }
        return self._render(
            "slice",
            page=page,
            view=view,
            charts=drawn,
            dashboard_query=_dashboard_query(page),
            strip=lambda cell: charts.gap_strip(cell, scale),
            behind=lambda cell: words.behind_text(cell.metric, page.line.slice, cell.gap),
        )

    def incidents(self, page: IncidentList) -> str:
        """The list of incidents."""
        return self._render("incidents", page=page)

    def incident(
        self,
        one: IncidentReport,
        cell: Cell | None,
        slice_link: str,
        *,
        at: Moment | None,
        synthetic: bool,
        responds: bool,
        error: str = "",
    ) -> str:
        """The page of one incident.

        Args:
            one: the incident.
            at: what the newest Snapshot is of; None before the first.
            synthetic: its contract is of declared test conditions.
            cell: what the newest window shows of its slice and metric; None where nothing is.
            slice_link: query of the slice's page; empty where the slice is withheld.
            responds: whether the reader may act on it.
            error: why the last act was refused.
        """
        scale = charts.gap_scale(charts.sizes([cell] if cell else []))
        return self._render(
            "incident",
            one=one,
            cell=cell,
            at=at,
            synthetic=synthetic,
            slice_link=slice_link,
            responds=responds,
            error=error,
            open=one.state in ("open", "acknowledged", "accepted"),
            outcomes=[outcome.value for outcome in Outcome],
            strip=lambda cell: charts.gap_strip(cell, scale),
        )

    def reports(self, page: ReportList) -> str:
        """The list of weekly reports."""
        return self._render("reports", page=page)

    def message(self, title: str, text: str) -> str:
        """A page that says why there is none."""
        return self._render("message", title=title, text=text)

    def _render(self, name: str, **values: object) -> str:
        return self._environment.get_template(f"{name}.html.j2").render(values)


def _environment(facts: SiteFacts, style: str) -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader(str(__package__), "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "time": words.moment_text,
        "age": words.age_text,
        "micros": to_micros,
        "percent": words.percent,
        "rate": words.rate_text,
        "gap": words.gap_text,
        "ratio": words.ratio_text,
        "limit": limit_words.limit_text,
        "limits": limit_words.limits_text,
        "compared": limit_words.compared_text,
        "decides": limit_words.decides_text,
        "slice": slice_name,
        "severity": words.severity_text,
        "stage": words.stage_text,
        "point_rate": _point_rate,
        "point_gap": _point_gap,
    }
    made.globals |= {
        "site": facts,
        "style": Markup(style),  # noqa: S704 - our own file
        "tones": charts.TONES,
        "verdict_tones": _VERDICT_TONES,
        "terms": TERMS,
        "none_text": words.NONE,
        "sentence": lambda one: incident_sentence(one.metric, one.slice, one.behind, one.limit),
        "status": status_text,
        "value": _value_text,
    }
    return made


def _shown(contract: ContractContent, page: int) -> Sequence[SliceLine]:
    """The lines of a page; all decisions come first on the first one."""
    lines = contract.slices[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    return (contract.total, *lines) if page == 1 else lines


def _dashboard_query(page: SliceContent) -> str:
    """The variables of the dashboard of a slice."""
    chosen = {
        "contract": page.contract,
        "window": page.window,
        "group_by": page.line.group_by,
        "slice": page.line.slice,
        "metric": page.metric.value,
    }
    return urlencode({f"var-{name}": value for name, value in chosen.items()})


def _references(page: Overview) -> set[str]:
    """The slices that others are compared with."""
    cells = (cell for c in page.contracts for one in c.slices for cell in one.cells)
    return {cell.gap.reference for cell in cells if cell.gap is not None}


def _same_why(line: SliceLine) -> bool:
    """True when all metrics of a slice are undecided for one reason, which is said once then."""
    reasons = {(cell.why, cell.until) for cell in line.cells}
    return len(line.cells) > 1 and len(reasons) == 1


def _marks(page: SliceContent) -> list[charts.Mark]:
    """Incidents, new versions of the contract and of the router, on the axis of time."""
    found = [charts.Mark(one.since, "incident", f"incident {one.id}") for one in page.past]
    found += [
        charts.Mark(one.resolved_at, "resolved", f"incident {one.id} is resolved")
        for one in page.past
        if one.resolved_at is not None
    ]
    found += [
        charts.Mark(one.latest, "version", one.what)
        for one in page.findings
        if one.what.startswith("other versions")
    ]
    days = zip(page.history, page.history[1:], strict=False)
    found += [
        charts.Mark(after.ends_at, "contract", f"contract version {after.version}")
        for before, after in days
        if before.version != after.version and after.ends_at is not None
    ]
    return found


def _point_rate(point: HistoryPoint) -> str:
    if point.value is None and point.at_least is None and point.at_most is None:
        return words.bounds(point.lower, point.upper)
    rate = ShownRate(point.value, point.lower, point.upper, 0, point.at_least, point.at_most)
    return f"{words.rate_text(rate)} [{words.bounds(point.lower, point.upper)}]"


def _point_gap(point: HistoryPoint) -> str:
    return words.gap_text(
        ShownGap(point.reference or "", point.gap, point.gap_lower, point.gap_upper)
    )


def status_text(one: IncidentReport) -> str:
    """The state of an incident in words."""
    if one.accepted_until is not None:
        return f"accepted until {words.moment_text(one.accepted_until)}"
    state = one.state.value
    return f"{state}: {one.outcome.value.replace('_', ' ')}" if one.outcome else state


def _value_text(one: IncidentReport, shown: ValueReport) -> str:
    """A gap in points, or a rate where its level is what is broken."""
    at = f"in data to {words.moment_text(shown.at)}"
    if one.behind is Behind.LEVEL:
        return f"{words.percent(shown.value)} [{words.bounds(shown.lower, shown.upper)}], {at}"
    gap = ShownGap("", shown.value, shown.lower, shown.upper)
    return f"gap {words.gap_text(gap)} points, {at}"
