"""Status page and API by path: requests in, answers out."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import wraps
from http import HTTPStatus

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from monitor.core.publish.act_input import checked_act_input, closing
from monitor.core.publish.conditions import StandingCondition
from monitor.core.publish.history import SliceKey, Trends
from monitor.core.publish.incident_reports import IncidentReport
from monitor.core.publish.recurrence import recurrence
from monitor.core.publish.snapshot import Snapshot
from monitor.core.time import to_datetime, to_micros
from monitor.errors import SlicewatchError, StoreError
from monitor.web import building, csv_files, openapi, pages, report_views, runbooks
from monitor.web.beginning import beginning
from monitor.web.contents import (
    ContractContent,
    HistoryContent,
    IncidentList,
    Moment,
    Overview,
    SliceContent,
)
from monitor.web.links import LinkError, NothingThereError, ViewSubject
from monitor.web.pages import PageRenderer, SiteFacts
from monitor.web.published import Published
from monitor.web.report_views import ReportViews

Endpoint = Callable[[Request], Response]
"""Function from a request to its answer."""

_Contents = dict[tuple[str, str, str], tuple[ContractContent, ...]]
_Built = tuple[int, _Contents, dict[tuple[str, str], Trends]]
"""Number of a Snapshot, and what was built and read for it."""

MAX_INCIDENTS = 50
"""Number of incidents on a page; the command lists all."""

_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)  # within a database's integers
_BUSY = {"Retry-After": "1"}
_log = logging.getLogger("slicewatch.access")


class Site:
    """Status page and API, made from published values; any thread may use it."""

    def __init__(
        self,
        published: Published,
        facts: SiteFacts,
        *,
        blind: Callable[[], Sequence[str]],
        conditions: Callable[[], Sequence[StandingCondition]] = tuple,
        now: Callable[[], int],
    ) -> None:
        """Load the templates; ``blind()`` returns reasons for blindness, ``now()`` wall time (us).

        Args:
            published: reader of published values.
            facts: facts from the settings.
            blind: reasons why the service cannot see the router; must only read memory.
            conditions: conditions of alerts that hold now; must only read memory.
            now: wall clock, microseconds.
        """
        self._published = published
        self._facts = facts
        self._blind, self._conditions = blind, conditions
        self._now = now
        self._pages = PageRenderer(facts)
        self._reports = ReportViews(published, facts.report)
        self._built: _Built = (0, {}, {})
        self._openapi = msgspec.json.encode(openapi.document(facts.version))

    def views(self) -> dict[str, Endpoint]:
        """Return the endpoints that only read (pages, CSV files, API answers), by path."""
        pages = {
            "/": self._overview_page,
            "/slice": self._slice_page,
            "/incidents": self._incidents_page,
            "/incidents/{number}": self._incident_page,
            "/reports": self._reports_page,
            "/report": self._report_page,
            "/runbooks": self._runbooks_page,
            "/runbooks/{name}": self._runbook_page,
        }
        files = {
            "overview": lambda request: csv_files.contracts_text(*_tables(self._overview(request))),
            "versions": lambda request: csv_files.versions_text(*_tables(self._overview(request))),
            "slice": lambda request: csv_files.slice_text(self._slice(request)),
            "history": lambda request: csv_files.history_text(self._history(request)),
            "incidents": lambda _: csv_files.incidents_text(self._incidents().incidents),
            "reports": lambda _: report_views.as_csv_file(self._reports.list()),
        }
        answers = {
            openapi.SNAPSHOT: lambda request: _json(self._overview(request)),
            openapi.SLICE: lambda request: _json(self._slice(request)),
            openapi.HISTORY: lambda request: _json(self._history(request)),
            openapi.INCIDENTS: lambda _: _json(self._incidents()),
            openapi.INCIDENT: lambda request: _json(self._incident(request)),
            openapi.REPORTS: lambda _: _json(self._reports.list()),
            openapi.REPORT: self._reports.document,
            openapi.DOCUMENT: lambda _: Response(self._openapi, media_type="application/json"),
        }
        return {
            **{path: self._as_page(make) for path, make in pages.items()},
            **{f"/{name}.csv": _as_text(_csv_file(name, make)) for name, make in files.items()},
            "/report.csv": _as_text(lambda request: _csv(*self._reports.table(request))),
            **{path: _as_text(make) for path, make in answers.items()},
        }

    def forms(self) -> dict[str, Endpoint]:
        """Return the endpoints that record acts on incidents, by path."""
        actions = {"/acknowledge": self._acknowledge, "/close": self._close}
        return {path: self._as_page(make) for path, make in actions.items()}

    # Contents

    def _numbered_snapshot(self, view: ViewSubject) -> tuple[int, Snapshot] | None:
        """Return (number, Snapshot) at the view's time; None before the first one with tables."""
        if view.as_of is None:
            numbered_snapshot = self._published.newest()
            return (
                None
                if numbered_snapshot is None or numbered_snapshot[1].watermark is None
                else numbered_snapshot
            )
        numbered_snapshot = self._published.at(view.as_of)
        if numbered_snapshot is None:
            raise NothingThereError("nothing was published at that time, or it is kept no longer")
        return numbered_snapshot

    def _moment(self, view: ViewSubject, numbered_snapshot: tuple[int, Snapshot]) -> Moment:
        return building.moment(*numbered_snapshot, newest=view.as_of is None, now=self._now())

    def _overview(self, request: Request) -> Overview:
        """Return the first page's content: a Snapshot or, before the first, the beginning."""
        view = _view(request)
        numbered_snapshot = self._numbered_snapshot(view)
        pipeline = self._published.pipeline()
        return building.overview(
            numbered_snapshot[1] if numbered_snapshot else None,
            self._moment(view, numbered_snapshot) if numbered_snapshot else None,
            self._contracts(view, numbered_snapshot) if numbered_snapshot else (),
            beginning=None
            if numbered_snapshot
            else beginning(pipeline, self._facts.lateness, self._now()),
            blind=self._blind() if view.as_of is None else (),
            conditions=self._conditions() if view.as_of is None else (),
            pipeline=pipeline,
            limitations=self._facts.limitations,
        )

    def _contracts(
        self, view: ViewSubject, numbered_snapshot: tuple[int, Snapshot]
    ) -> tuple[ContractContent, ...]:
        """Return the contracts of a view; cache those of the newest Snapshot."""
        number, snapshot = numbered_snapshot
        if view.as_of is not None:
            contents = building.contract_contents(snapshot, view, self._facts.versions)
            return tuple(building.narrowed(content, view) for content in contents)
        newest, built, _ = self._built
        if newest != number:
            built = {}
            self._built = number, built, {}
        key = view.contract, view.window, view.group_by
        if key not in built:  # at worst, two threads build the same content
            built[key] = building.contract_contents(snapshot, view, self._facts.versions)
        return tuple(building.narrowed(content, view) for content in built[key])

    def _trends(self, content: ContractContent) -> Trends:
        """Return the trends of a contract's primary metric, read once for a Snapshot."""
        trends = self._built[2]
        key = content.contract, content.window
        if key not in trends:
            trends[key] = self._published.trends(*key, content.metrics[0])
        return trends[key]

    def _slice(self, request: Request) -> SliceContent:
        """Return a slice's page content: rates, history and its incidents."""
        view, numbered_snapshot = _view(request), self._required_snapshot(request)
        incidents = [
            incident
            for incident in self._published.incidents(self._now(), MAX_INCIDENTS)
            if view.as_of is None or to_micros(incident.since) <= view.as_of
        ]
        points = self._history_of(numbered_snapshot[1], view).points
        return building.slice_content(
            numbered_snapshot[1], self._moment(view, numbered_snapshot), view, points, incidents
        )

    def _history(self, request: Request) -> HistoryContent:
        return self._history_of(self._required_snapshot(request)[1], _view(request))

    def _required_snapshot(self, request: Request) -> tuple[int, Snapshot]:
        """Return number and Snapshot of a link; an error before the first one."""
        numbered_snapshot = self._numbered_snapshot(_view(request))
        if numbered_snapshot is None:
            raise NothingThereError("nothing is published yet; the overview says what it waits for")
        return numbered_snapshot

    def _history_of(self, snapshot: Snapshot, view: ViewSubject) -> HistoryContent:
        """Return a slice's published history, up to the link's moment."""
        table, place = building.chosen_place(snapshot, view)
        key = SliceKey(
            contract=table.contract,
            window=place.window.window,
            group_by=view.group_by,
            slice=view.slice,
            metric=building.chosen_metric(table, view),
        )
        points = (
            point
            for point in self._published.history(key)
            if view.as_of is None or point.day <= to_datetime(view.as_of).date()
        )
        return HistoryContent(**asdict(key), points=tuple(points))

    def _incidents(self) -> IncidentList:
        incidents = tuple(self._published.incidents(self._now(), MAX_INCIDENTS + 1))
        return IncidentList(incidents[:MAX_INCIDENTS], len(incidents) > MAX_INCIDENTS)

    def _incident(self, request: Request) -> IncidentReport:
        return self._incident_of(str(request.path_params["number"]))

    def _incident_of(self, number: str) -> IncidentReport:
        """Return the incident of this number; an error if there is none."""
        incident = None
        if _NUMBER.fullmatch(number):
            incident = self._published.incident(int(number), self._now())
        if incident is None:
            raise NothingThereError("there is no incident of that number")
        return incident

    # Pages

    def _overview_page(self, request: Request) -> Response:
        page = self._overview(request)
        # Parameters that the page ignores were not checked, and must not come back in its links.
        view = _view(request).of_all_slices
        contracts = page.contracts if view.as_of is None else ()
        trends = {c.contract: self._trends(c) for c in contracts if c.metrics}
        return self._html(self._pages.overview(page, view, trends))

    def _slice_page(self, request: Request) -> Response:
        return self._html(self._pages.slice(self._slice(request), _view(request)))

    def _incidents_page(self, _: Request) -> Response:
        return self._html(self._pages.incidents(self._incidents()))

    def _incident_page(self, request: Request) -> Response:
        return self._html(self._incident_html(self._incident(request), request))

    def _reports_page(self, _: Request) -> Response:
        return self._html(self._pages.reports(self._reports.list()))

    def _report_page(self, request: Request) -> Response:
        page = self._reports.page(request)
        return self._html(page, policy=report_views.policy(page))

    def _runbooks_page(self, _: Request) -> Response:
        return self._html(self._pages.runbook(runbooks.list_html(self._facts.runbook_texts())))

    def _runbook_page(self, request: Request) -> Response:
        text = self._facts.runbook_texts().get(str(request.path_params["name"]))
        if text is None:
            raise NothingThereError("there is no runbook of that name")
        return self._html(self._pages.runbook(runbooks.to_html(text)))

    def _incident_html(self, incident: IncidentReport, request: Request, error: str = "") -> str:
        """Return an incident's page, with the slice as it is now; ``error`` of a refused form."""
        newest = self._numbered_snapshot(ViewSubject())
        tables = newest[1].contracts if newest else ()
        table = next((table for table in tables if table.contract == incident.contract), None)
        return self._pages.incident(
            incident,
            self._incident_slice(incident, newest) if newest else None,
            at=self._moment(ViewSubject(), newest) if newest else None,
            synthetic=table is not None and table.synthetic,
            responds=bool(request.state.responds),
            again=recurrence(incident, self._published.incidents(self._now(), MAX_INCIDENTS)),
            error=error,
        )

    def _incident_slice(
        self, incident: IncidentReport, newest: tuple[int, Snapshot]
    ) -> SliceContent | None:
        """Return the slice of an incident as it is published now; None if hidden or gone."""
        view = pages.incident_view(incident)
        try:
            points = self._history_of(newest[1], view).points
            at = self._moment(view, newest)
            return building.slice_content(newest[1], at, view, points, [incident])
        except LinkError:
            return None

    def _html(
        self, body: str, status: HTTPStatus = HTTPStatus.OK, *, policy: str | None = None
    ) -> Response:
        """Return a page as a response, with the headers that protect it."""
        headers = {
            "Content-Security-Policy": policy or self._pages.policy,
            "Referrer-Policy": "same-origin",  # without it a form has no origin to be checked
            "X-Frame-Options": "DENY",
        }
        return Response(body, status, headers, media_type="text/html")

    # Acts

    def _acknowledge(self, request: Request) -> Response:
        def act(number: int, fields: Mapping[str, str]) -> None:
            act_fields = checked_act_input(_author(fields), fields.get("note", ""), _field_name)
            self._published.acknowledge(number, act_fields, self._now())

        return self._perform(request, "acknowledged", act)

    def _close(self, request: Request) -> Response:
        def act(number: int, fields: Mapping[str, str]) -> None:
            act_fields = checked_act_input(_author(fields), fields.get("note", ""), _field_name)
            now = self._now()
            outcome = closing(fields.get("outcome"), fields.get("until"), now, _field_name)
            self._published.close(number, outcome, act_fields, now)

        return self._perform(request, "closed", act)

    def _perform(
        self, request: Request, action: str, act: Callable[[int, Mapping[str, str]], None]
    ) -> Response:
        """Perform an act, log it and redirect to the incident; if refused, return its page."""
        fields: Mapping[str, str] = request.state.fields
        incident = self._incident_of(fields.get("incident", ""))
        try:
            act(incident.id, fields)
        except SlicewatchError as error:
            page = self._incident_html(incident, request, str(error))
            return self._html(page, HTTPStatus.BAD_REQUEST)
        _log.info(
            "incident %s", action, extra={"incident": incident.id, "reader": request.state.reader}
        )
        return RedirectResponse(f"/incidents/{incident.id}", HTTPStatus.SEE_OTHER)

    # Refusals

    def _as_page(self, make: Endpoint) -> Endpoint:
        """Wrap an endpoint so that its errors are returned as HTML pages with a status."""

        @wraps(make)
        def answered(request: Request) -> Response:
            """Return the page, or one that says in words why there is none."""
            try:
                return make(request)
            except LinkError as error:
                title, status = "This link shows nothing", HTTPStatus.BAD_REQUEST
                text = f"{str(error)[0].upper()}{str(error)[1:]}."
            except NothingThereError as error:
                title, status = "Not there", HTTPStatus.NOT_FOUND
                text = f"{str(error)[0].upper()}{str(error)[1:]}."
            except StoreError:
                title, status = "Not now", HTTPStatus.SERVICE_UNAVAILABLE
                text = "The store cannot be read at the moment. Try again."
            return self._html(self._pages.message(title, text), status)

        return answered


def _as_text(make: Endpoint) -> Endpoint:
    """Wrap an endpoint so that its errors are returned as JSON with a status."""

    @wraps(make)
    def answered(request: Request) -> Response:
        """Return the answer, or the error as plain text."""
        try:
            return make(request)
        except LinkError as error:
            return _refusal(HTTPStatus.BAD_REQUEST, str(error))
        except NothingThereError as error:
            return _refusal(HTTPStatus.NOT_FOUND, str(error))
        except StoreError:
            busy = "the store cannot be read at the moment; try again"
            return _refusal(HTTPStatus.SERVICE_UNAVAILABLE, busy)

    return answered


def _refusal(status: HTTPStatus, why: str) -> Response:
    headers = _BUSY if status is HTTPStatus.SERVICE_UNAVAILABLE else None
    body = msgspec.json.encode({"error": why})
    return Response(body, status, headers, media_type="application/json")


def _view(request: Request) -> ViewSubject:
    return ViewSubject.parse(dict(request.query_params))


def _json(content: object) -> Response:
    return Response(msgspec.json.encode(content), media_type="application/json")


def _tables(page: Overview) -> tuple[Moment | None, tuple[ContractContent, ...]]:
    return page.moment, page.contracts


def _csv_file(name: str, write: Callable[[Request], str]) -> Endpoint:
    return lambda request: _csv(name, write(request))


def _csv(name: str, text: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="slicewatch-{name}.csv"'}
    return Response(text, headers=headers, media_type="text/csv")


def _author(fields: Mapping[str, str]) -> str:
    """Return who acts, as the form says; an error if it is empty."""
    author = fields.get("by", "")
    if not author.strip():
        raise SlicewatchError("Your name is missing: a person on duty or a team")
    return author


_FIELD_NAMES = {"by": "Your name", "note": "The note", "outcome": "Outcome", "until": "Last day"}


def _field_name(field: str) -> str:
    return _FIELD_NAMES[field]
