"""Pages as HTML: templates filled with contents, every text escaped."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from urllib.parse import urlencode

import jinja2
from markupsafe import Markup

from monitor.core.contract import Verdict
from monitor.core.metric import Metric
from monitor.core.publish import limit_words, words
from monitor.core.publish.annotations import Behind, Outcome
from monitor.core.publish.glossary import slice_name
from monitor.core.publish.headlines import incident_sentence, value_text
from monitor.core.publish.history import HistoryPoint, Trends
from monitor.core.publish.incident_reports import IncidentReport
from monitor.core.publish.limitations import Limitation
from monitor.core.publish.lines import Cell, SliceLine
from monitor.core.publish.side_by_side import VersionGroup
from monitor.core.publish.snapshot import ShownGap, ShownRate
from monitor.core.publish.window_says import SURE_ANYWAY
from monitor.core.state import RANKS, SLICE_CLASSES
from monitor.core.time import MINUTE, to_micros
from monitor.present import charts, html
from monitor.reports import ReportFacts
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
"""Number of slices on one page of an overview."""

_VERDICTS = {
    Verdict.PASS.value: ("good", "within limits"),
    Verdict.FAIL.value: ("bad", "over limit"),
    Verdict.INCONCLUSIVE.value: ("unsure", "undecided"),
    Verdict.INSUFFICIENT_SUPPORT.value: ("grey", "not enough data"),
    BLIND: ("bad", "blind"),
}
"""CSS class and words of each verdict."""


@dataclass(frozen=True, slots=True)
class SiteFacts:
    """Facts from the settings that pages show, such as limitations, dashboards and runbooks.

    Attributes:
        version: version of slicewatch.
        limitations: register of known limitations.
        dashboard_url: URL of Grafana; None without Grafana.
        slice_dashboard_url: URL of the slice dashboard, without its variables; None likewise.
        runbooks_url: URL of the runbooks.
        runbooks: URL of the runbook of a breach, by metric.
        runbook_texts: returns the runbooks in Markdown, by name.
        versions: group-bys over versions of the router.
        report: facts for weekly reports.
        lateness: microseconds that the watermark stays behind the newest decision.
    """

    version: str
    limitations: tuple[Limitation, ...] = ()
    dashboard_url: str | None = None
    slice_dashboard_url: str | None = None
    runbooks_url: str = "/runbooks"
    runbooks: Mapping[Metric, str] = field(default_factory=dict)
    runbook_texts: Callable[[], Mapping[str, str]] = dict
    versions: tuple[VersionGroup, ...] = ()
    report: ReportFacts = field(default_factory=lambda: ReportFacts("slicewatch"))
    lateness: int = 10 * MINUTE


_LEAST_TREND = 0.1
"""Height of the axis of trends, at least: smaller moves are mostly chance."""


class PageRenderer:
    """Renderer of all pages from contents to HTML; any thread may use it."""

    def __init__(self, facts: SiteFacts) -> None:
        """Load templates and style; set ``policy``, the content policy that admits the style."""
        style = html.style()
        self._environment = _environment(facts, style)
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        self.policy = (
            f"default-src 'none'; style-src 'sha256-{digest}'; form-action 'self';"
            " base-uri 'none'; frame-ancestors 'none'"
        )

    def overview(self, page: Overview, view: ViewSubject, trends: Mapping[str, Trends]) -> str:
        """Return the overview page as HTML.

        Args:
            page: the content.
            view: subject of the view, for its links.
            trends: trends of the primary metric, by contract.
        """
        lines = (line for contract in page.contracts for line in (contract.total, *contract.slices))
        scale = charts.gap_scale(size for line in lines for size in charts.sizes(line.cells))
        return self._render(
            "overview",
            page=page,
            view=view,
            counts=_total_counts(page),
            service=_service_text(page),
            axis=charts.gap_axis(scale),
            strip=lambda cell: charts.gap_strip(cell, scale),
            spark=_spark(trends),
            shown=lambda contract: _lines_on_page(contract, view),
            most=PAGE_SIZE,
            pages=lambda contract: -(-len(contract.slices) // PAGE_SIZE),
        )

    def slice(self, page: SliceContent, view: ViewSubject) -> str:
        """Return the page of one slice as HTML."""
        scale = charts.gap_scale(charts.sizes(page.line.cells))
        marks = _history_marks(page)
        drawings = {
            "rate": charts.rate_history(page.history, marks),
            "gap": charts.gap_history(page.history, marks),
            "calibration": charts.calibration(page.calibration),
        }
        return self._render(
            "slice",
            page=page,
            view=view,
            charts=drawings,
            dashboard_query=_dashboard_query(page),
            strip=lambda cell: charts.gap_strip(cell, scale),
        )

    def incidents(self, page: IncidentList) -> str:
        """Return the list of incidents as HTML."""
        return self._render("incidents", page=page)

    def incident(
        self,
        incident: IncidentReport,
        content: SliceContent | None,
        *,
        at: Moment | None,
        synthetic: bool,
        responds: bool,
        again: str = "",
        error: str = "",
    ) -> str:
        """Return an incident's page as HTML; ``responds`` shows forms, ``error`` a refused act.

        Args:
            incident: the incident.
            content: its slice as it is published now; None if that is hidden or gone.
            at: time of the newest Snapshot; None before the first.
            synthetic: whether its contract is about declared test conditions.
            responds: whether the reader may act on it.
            again: how often it came before, in words; empty for a first time.
            error: reason why the last act was refused.
        """
        cell = _cell_of(content.line, incident.metric) if content else None
        scale = charts.gap_scale(charts.sizes([cell] if cell else []))
        draw = charts.rate_history if incident.behind is Behind.LEVEL else charts.gap_history
        return self._render(
            "incident",
            incident=incident,
            cell=cell,
            history=draw(content.history, _history_marks(content)) if content else "",
            slice_link=incident_view(incident).query() if content else "",
            at=at,
            synthetic=synthetic,
            responds=responds,
            again=again,
            error=error,
            open=incident.state in ("open", "acknowledged", "accepted"),
            strip=lambda cell: charts.gap_strip(cell, scale),
        )

    def reports(self, page: ReportList) -> str:
        """Return the list of weekly reports as HTML."""
        return self._render("reports", page=page)

    def runbook(self, body: Markup) -> str:
        """Return the page of a runbook, or of their list."""
        return self._render("runbook", body=body)

    def message(self, title: str, text: str) -> str:
        """Return a page with a title and one text, as HTML."""
        return self._render("message", title=title, text=text)

    def _render(self, name: str, **values: object) -> str:
        return self._environment.get_template(f"{name}.html.j2").render(values)


def _environment(facts: SiteFacts, style: str) -> jinja2.Environment:
    """Return the Jinja environment of the pages, with its filters and facts."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(str(__package__), "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "time": words.moment_text,
        "age": words.age_text,
        "micros": to_micros,
        "percent": words.percent,
        "rate": words.rate_text,
        "gap": words.gap_text,
        "points": words.points,
        "ratio": words.ratio_text,
        "limit": limit_words.limit_text,
        "limits": limit_words.limits_text,
        "numbers": limit_words.numbers_text,
        "decides": limit_words.decides_text,
        "slice": slice_name,
        "severity": words.severity_text,
        "stage": words.stage_text,
        "references": _references,
        "point_rate": _point_rate,
        "point_gap": _point_gap,
    }
    environment.globals |= {
        "site": facts,
        "style": Markup(style),  # noqa: S704 - our own file
        "ranks": RANKS,
        "verdicts": _VERDICTS,
        "classes": {name: name.replace("_", " ") for name in SLICE_CLASSES},
        "outcomes": tuple(Outcome),
        "none_text": words.NONE,
        "sure_anyway": SURE_ANYWAY,
        "sentence": lambda incident: incident_sentence(
            incident.metric, incident.slice, incident.behind, incident.limit
        ),
        "status": status_text,
        "value": value_text,
    }
    return environment


def _lines_on_page(contract: ContractContent, view: ViewSubject) -> Sequence[SliceLine]:
    """Return the slice lines of a page; the first begins with all decisions, if unfiltered."""
    lines = contract.slices[(view.page - 1) * PAGE_SIZE : view.page * PAGE_SIZE]
    leads = view.page == 1 and not (view.find or view.show)
    return (contract.total, *lines) if leads else lines


def _total_counts(page: Overview) -> Counter[str]:
    """Return the number of slices of all contracts by class."""
    return sum((Counter(contract.counts) for contract in page.contracts), Counter())


def _service_text(page: Overview) -> str:
    """Return the service's health in a few words: its gravest fault, if any."""
    waiting = sum(topic.unowned + topic.parked for topic in page.pipeline.topics)
    if page.blind or waiting:
        return "blind" if page.blind else f"{waiting} partitions wait"
    return "behind" if page.outdated else "up to date"


def _spark(trends: Mapping[str, Trends]) -> Callable[[str, SliceLine], Markup]:
    """Return a function that draws the trend of a contract's slice, on one scale a contract."""
    scales = {contract: _trend_scale(lines) for contract, lines in trends.items() if lines}

    def draw(contract: str, line: SliceLine) -> Markup:
        trend = trends.get(contract, {}).get((line.group_by, line.slice))
        return charts.sparkline(trend, *scales[contract]) if trend else Markup("")

    return draw


def _trend_scale(trends: Trends) -> tuple[date, tuple[float, float]]:
    """Return the last day, and the lowest and highest rate, a tenth apart or more."""
    rates = [rate for trend in trends.values() for _, rate in trend]
    last = max(trend[-1][0] for trend in trends.values())
    low = min(*rates, max(0.0, max(rates) - _LEAST_TREND))
    return last, (low, max(*rates, _LEAST_TREND))


def _cell_of(line: SliceLine, metric: Metric) -> Cell | None:
    return next((cell for cell in line.cells if cell.metric is metric), None)


def incident_view(incident: IncidentReport) -> ViewSubject:
    """Return the view of the slice and metric that an incident is about."""
    return ViewSubject(incident.contract, "", incident.group_by, incident.slice, incident.metric)


def _dashboard_query(page: SliceContent) -> str:
    """Return the variables of the slice dashboard as a query string."""
    variables = {
        "contract": page.contract,
        "window": page.window,
        "group_by": page.line.group_by,
        "slice": page.line.slice,
        "metric": page.metric.value,
    }
    return urlencode({f"var-{name}": value for name, value in variables.items()})


def _references(line: SliceLine) -> str:
    """Return the names that a slice's metrics are compared with, for people; empty without."""
    names = dict.fromkeys(slice_name(cell.gap.reference) for cell in line.cells if cell.gap)
    return "; ".join(names)


def _history_marks(page: SliceContent) -> list[charts.Mark]:
    """Return marks of incidents and of new contract or router versions, with times and texts."""
    marks = [
        charts.Mark(incident.since, "incident", f"incident {incident.id}") for incident in page.past
    ]
    marks += [
        charts.Mark(incident.resolved_at, "resolved", f"incident {incident.id} is resolved")
        for incident in page.past
        if incident.resolved_at is not None
    ]
    marks += [
        charts.Mark(finding.latest, "version", finding.what)
        for finding in page.findings
        if finding.what.startswith("other versions")
    ]
    days = zip(page.history, page.history[1:], strict=False)
    marks += [
        charts.Mark(after.ends_at, "contract", f"contract version {after.version}")
        for before, after in days
        if before.version != after.version and after.ends_at is not None
    ]
    return marks


def _point_rate(point: HistoryPoint) -> str:
    if point.value is None and point.at_least is None and point.at_most is None:
        return words.bounds(point.lower, point.upper)
    rate = ShownRate(point.value, point.lower, point.upper, 0, point.at_least, point.at_most)
    return f"{words.rate_text(rate)} [{words.bounds(point.lower, point.upper)}]"


def _point_gap(point: HistoryPoint) -> str:
    return words.gap_text(
        ShownGap(point.reference or "", point.gap, point.gap_lower, point.gap_upper)
    )


def status_text(incident: IncidentReport) -> str:
    """Return the state of an incident in words, with its outcome or the end of acceptance."""
    if incident.accepted_until is not None:
        return f"accepted until {words.moment_text(incident.accepted_until)}"
    state = incident.state.value
    return f"{state}: {incident.outcome.words}" if incident.outcome else state
