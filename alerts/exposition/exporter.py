"""Content of a scrape: the pre-rendered slice page, the service's own metrics, or both.

The Accept headers of a scraper decide format and compression.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import exposition
from prometheus_client.core import Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from alerts.exposition.catalogue import OF_DECISIONS, OPERATIONS, Family
from alerts.exposition.renderer import EMPTY, Page, Renderer, gzipped
from alerts.exposition.service_metrics import ServiceMetrics
from monitor.core.publish.snapshot import Snapshot
from monitor.ports import Clock

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
# Sixty evaluator cycles of ten seconds: later than any slow cycle, early enough that a dead
# evaluator does not serve frozen green numbers for long.
STALE_SECONDS = 600.0

_log = logging.getLogger(__name__)


class _SelectedMetrics(Collector):
    """Collector of selected metrics of a registry; metrics in no family list are left out."""

    def __init__(self, registry: Collector, families: Iterable[Family], *prefixes: str) -> None:
        """Select the metrics of ``families``, and names that begin with one of the prefixes."""
        self._registry = registry
        self._stems = frozenset(family.stem for family in families)
        self._prefixes = prefixes

    def collect(self) -> Iterator[Metric]:
        """Yield the selected metrics, in the registry's order."""
        for metric in self._registry.collect():
            if metric.name in self._stems or metric.name.startswith(self._prefixes):
                yield metric


def metrics_body(
    registry: Collector, accept: str, gzip: bool, page: Page = EMPTY
) -> tuple[Sequence[bytes], str]:
    """Return parts and MIME type of a slice page and a registry, gzipped if asked."""
    if wants_openmetrics(accept):
        process_metrics = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]
        tail = page.openmetrics_counters + process_metrics
        content_type = OPENMETRICS
    else:
        tail = page.counters + exposition.generate_latest(registry)
        content_type = TEXT
    return gzipped(page, tail) if gzip else (*page.texts, tail), content_type


class Exporter:
    """Renders Snapshots to metrics pages, and serves the newest, unless stale, to any thread."""

    def __init__(
        self,
        metrics: ServiceMetrics,
        *,
        max_series: int,
        clock: Clock,
        started: Callable[[], bool] = lambda: True,
    ) -> None:
        """Begin with the slice page withheld.

        Args:
            metrics: the service's own metrics.
            max_series: budget of the slice page.
            clock: its monotonic time judges staleness.
            started: returns True when start-up has finished; until then the page is withheld, so
                that a restart does not show insufficient support for a moment.
        """
        self.metrics = metrics
        self._clock = clock
        self._started = started
        self._renderer = Renderer(max_series)
        self._snapshot: Snapshot | None = None
        self._of_decisions = _SelectedMetrics(metrics.registry, OF_DECISIONS)
        self._operations = _SelectedMetrics(metrics.registry, OPERATIONS, "process_")
        # Page and monotonic time of the evaluation behind it, replaced as one value.
        self._current: tuple[Page, float] | None = None

    def publish(self, snapshot: Snapshot, *, age: float = 0.0) -> None:
        """Render a Snapshot if it is new, and confirm the page as fresh, ``age`` seconds ago.

        Args:
            snapshot: result of the newest evaluation. Call this after every evaluation, changed or
                not: it is the sign of life that keeps the page shown.
            age: seconds since that evaluation, if another process made it.
        """
        start = self._clock.monotonic()
        page = self._current[0] if self._current else EMPTY
        if snapshot != self._snapshot:
            new_page = self._renderer.render(snapshot)
            self.metrics.rendered(
                self._clock.monotonic() - start, new_page.series, new_page.dropped_series
            )
            _warn_of_dropped(page, new_page)
            page, self._snapshot = new_page, snapshot
        self._current = (page, start - age)

    def body(self, accept: str, gzip: bool) -> tuple[Sequence[bytes], str]:
        """Return parts and MIME type of slice page and all service metrics, gzipped if asked."""
        return metrics_body(self.metrics.registry, accept, gzip, self._page_to_show())

    def samples(self, names: Iterable[str]) -> Sequence[Sample]:
        """Return the samples of some metrics, by their full names, as a scrape reads them."""
        line = re.compile(rf"^(?:{'|'.join(names)})[{{ ].*\n".encode(), re.MULTILINE)
        parts, _ = self.body("", gzip=False)
        text = b"".join(match for part in parts for match in line.findall(part)).decode()
        families = text_string_to_metric_families(text)
        return [sample for family in families for sample in family.samples]

    def fairness(self, accept: str, gzip: bool) -> tuple[Sequence[bytes], str]:
        """Return parts and MIME type of slice page and metrics on decisions, gzipped if asked."""
        return metrics_body(self._of_decisions, accept, gzip, self._page_to_show())

    def operations(self, accept: str, gzip: bool) -> tuple[Sequence[bytes], str]:
        """Return parts and MIME type of the metrics on the process alone, gzipped if asked."""
        self._page_to_show()
        return metrics_body(self._operations, accept, gzip)

    def _page_to_show(self) -> Page:
        """Return the page to show now, and record in the metrics whether it is withheld."""
        page = self._fresh()
        self.metrics.show_process("exposition_withheld", page is EMPTY)
        return page

    def _fresh(self) -> Page:
        """Return the current page; EMPTY if it is stale, or nothing is started."""
        page_and_time = self._current
        if page_and_time is None or not self._started():
            return EMPTY
        page, confirmed = page_and_time
        return EMPTY if self._clock.monotonic() - confirmed > STALE_SECONDS else page


def _warn_of_dropped(before: Page, page: Page) -> None:
    """Log which families are left out, when that changes."""
    if page.dropped and page.dropped != before.dropped:
        _log.warning(
            "max_series is exceeded: %d series left out (%s)",
            page.dropped_series,
            ", ".join(page.dropped),
        )


_OPENMETRICS_VERSIONS = ("", "0.0.1", "1.0.0")


def accepts_gzip(accept_encoding: str) -> bool:
    """Return True if an Accept-Encoding header allows gzip; False if it is unreadable.

    Example:
        >>> accepts_gzip("deflate, gzip;q=0.5"), accepts_gzip("gzip;q=0"), accepts_gzip("")
        (True, False, False)
    """
    weights = {name: weight for name, _, weight in _choices(accept_encoding)}
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0))) > 0


def wants_openmetrics(accept: str) -> bool:
    """Return True if an Accept header prefers OpenMetrics 1.0 to text; False if unreadable.

    Example:
        >>> wants_openmetrics("application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
        True
        >>> wants_openmetrics("application/openmetrics-text;version=abc;q=x")
        False
    """
    openmetrics = text = 0.0
    for name, parameters, weight in _choices(accept):
        if name == "application/openmetrics-text":
            if parameters.get("version", "") in _OPENMETRICS_VERSIONS:
                openmetrics = max(openmetrics, weight)
        elif name == "text/plain":
            text = max(text, weight)
    return openmetrics > 0 and openmetrics >= text


def _choices(header: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield name, parameters and weight of each choice of an Accept header."""
    for choice in header.split(","):
        name, *rest = (part.strip().lower() for part in choice.split(";"))
        pairs = (part.partition("=") for part in rest)
        parameters = {key.strip(): value.strip().strip('"') for key, _, value in pairs}
        yield name, parameters, _weight(parameters.get("q", "1"))


def _weight(text: str) -> float:
    # Digits only: float() would accept nan, inf and 1_0.
    return float(text) if re.fullmatch(r"[01](\.[0-9]{0,3})?", text) else 0.0
