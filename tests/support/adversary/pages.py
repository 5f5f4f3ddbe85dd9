"""From bytes to publications: all that an attacker keeps of a scrape."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from adversary.service import Fetched
from adversary.worlds import DAY

_SAMPLE = re.compile(r"^(slicewatch_[a-z0-9_]+)\{(.*)\}$")
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')

_MARKS = {
    "watermark": re.compile(r"^slicewatch_watermark_timestamp_seconds (\S+)$", re.M),
    "frontier": re.compile(r"^slicewatch_label_frontier_timestamp_seconds (\S+)$", re.M),
}
_FIRST = re.compile(
    r"^slicewatch_window_start_timestamp_seconds"
    r'\{[^}]*group_by="",window="28d",kind="decisions"\} (\S+)$',
    re.M,
)

DECISIONS, LABELLED = "decisions", "labelled"
METRICS = {DECISIONS: ("selection", "blocked"), LABELLED: ("tpr", "fpr", "ready")}

RATE = {
    "slicewatch_slice_rate_ratio": "value",
    "slicewatch_slice_rate_lower_ratio": "lower",
    "slicewatch_slice_rate_upper_ratio": "upper",
    "slicewatch_slice_rate_at_least_ratio": "at_least",
    "slicewatch_slice_rate_at_most_ratio": "at_most",
    "slicewatch_slice_support_band": "support",
    "slicewatch_slice_as_labelled_ratio": "as_labelled",
    "slicewatch_slice_gap_ratio": "gap",
    "slicewatch_slice_gap_lower_ratio": "gap_lower",
    "slicewatch_slice_gap_upper_ratio": "gap_upper",
    "slicewatch_slice_relative_rate_ratio": "ratio",
    "slicewatch_slice_relative_rate_lower_ratio": "ratio_lower",
    "slicewatch_slice_relative_rate_upper_ratio": "ratio_upper",
}
_ONE_OF = {"slicewatch_slice_state": "state", "slicewatch_slice_verdict": "verdict"}
_EDGES = {
    "slicewatch_window_start_timestamp_seconds": 0,
    "slicewatch_window_end_timestamp_seconds": 1,
}
_CALIBRATION = {
    "slicewatch_slice_calibration_ratio": "value",
    "slicewatch_slice_calibration_support_band": "support",
}

Numbers = dict[str, float]
"""What is published of one rate, by what it is: value, support, at_least, gap, ..."""


@dataclass(frozen=True)
class Publication:
    """One group-by over one span of event time, as it was first shown.

    Attributes:
        group_by: attribute names; empty is the total.
        kind: ``decisions`` or ``labelled``.
        start: first instant (microseconds).
        end: exclusive.
        rows: by slice and metric; a slice without numbers is hidden.
        words: states and verdicts by slice and metric, where they are told.
        bands: calibration by slice and score band.
        at: when it was fetched.
        window: one of those it was shown in.
        epoch: which merge map it was made under: they are made anew with the first full day of
            decisions, with that of labels, and every Monday.
    """

    group_by: tuple[str, ...]
    kind: str
    start: int
    end: int
    rows: dict[str, dict[str, Numbers]]
    words: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    bands: dict[str, dict[str, Numbers]] = field(default_factory=dict)
    at: int = 0
    window: str = ""
    epoch: tuple[int, int] = (0, 0)

    @property
    def span(self) -> tuple[tuple[str, ...], str, int, int]:
        """What it is about."""
        return self.group_by, self.kind, self.start, self.end

    @property
    def shown(self) -> bool:
        return any(self.rows.values())

    def told(self) -> str:
        """All that it says, as text, to compare."""
        return repr((self.rows, self.words, self.bands))


@cache
def parse_name(name: str) -> tuple[str, dict[str, str]] | None:
    """The metric and labels of a sample; None where it tells of no slice."""
    found = _SAMPLE.match(name)
    return (found[1], dict(_LABEL.findall(found[2]))) if found else None


def parse_slice(text: str) -> dict[str, str]:
    """Attribute values of a slice."""
    return dict(pair.split("=", 1) for pair in text.split(",")) if text else {}


@dataclass
class _Table:
    """Everything about one group-by in one window of one scrape."""

    edges: dict[str, list[int]] = field(default_factory=dict)
    rows: dict[str, dict[str, Numbers]] = field(default_factory=dict)
    words: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    bands: dict[str, dict[str, Numbers]] = field(default_factory=dict)

    def add(self, name: str, labels: dict[str, str], value: float) -> None:
        if name in _EDGES:
            ends = self.edges.setdefault(labels["kind"], [0, 0])
            ends[_EDGES[name]] = round(value * 1e6)
        elif name in RATE:
            row = self.rows.setdefault(labels["slice"], {})
            row.setdefault(labels["metric"], {})[RATE[name]] = value
        elif name in _ONE_OF and value:
            word = _ONE_OF[name]
            told = self.words.setdefault(labels["slice"], {}).setdefault(labels["metric"], {})
            told[word] = labels[word]
        elif name in _CALIBRATION:
            row = self.bands.setdefault(labels["slice"], {})
            row.setdefault(labels["band"], {})[_CALIBRATION[name]] = value


class Reader:
    """Reads scrapes one after another and keeps every publication that is new."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, str], list[str]] = {}
        self._known: set[tuple[object, str]] = set()
        self.publications: list[Publication] = []
        self.begins: int | None = None
        self.slices: dict[tuple[str, ...], set[str]] = {}

    def read(self, fetched: Fetched) -> None:
        """Everything a scrape shows."""
        tables: dict[tuple[str, str], list[str]] = {}
        epoch = self._epoch(fetched.body)
        for line in fetched.body.splitlines():
            parsed = None if line.startswith("#") else parse_name(line.rpartition(" ")[0])
            if parsed and "window" in parsed[1]:
                labels = parsed[1]
                tables.setdefault((labels.get("group_by", ""), labels["window"]), []).append(line)
        for where, lines in tables.items():
            if self._before.get(where) != lines:
                self._keep(where, lines, fetched.at, epoch)
        self._before = tables

    def _epoch(self, body: str) -> tuple[int, int]:
        marks = [_MARKS[name].search(body) for name in ("watermark", "frontier")]
        watermark, frontier = (round(float(m[1]) * 1e6) if m else None for m in marks)
        first = _FIRST.search(body)
        if watermark is None or first is None:
            return 0, 0
        self.begins = self.begins or round(float(first[1]) * 1e6)
        stage = int(watermark - self.begins >= DAY)
        stage += int(bool(stage) and (frontier or 0) - self.begins >= DAY)
        return stage, (watermark + 3 * DAY) // (7 * DAY)

    def _keep(
        self, where: tuple[str, str], lines: list[str], at: int, epoch: tuple[int, int]
    ) -> None:
        table = _Table()
        for line in lines:
            name, _, value = line.rpartition(" ")
            parsed = parse_name(name)
            assert parsed is not None
            table.add(*parsed, float(value))
        group_by = tuple(where[0].split("+")) if where[0] else ()
        self.slices.setdefault(group_by, set()).update({*table.rows, *table.words})
        for publication in _publications(group_by, where[1], table, at, epoch):
            key = publication.span, publication.told()
            if key not in self._known:
                self._known.add(key)
                self.publications.append(publication)


def _publications(
    group_by: tuple[str, ...], window: str, table: _Table, at: int, epoch: tuple[int, int]
) -> Iterator[Publication]:
    for kind, (start, end) in table.edges.items():
        rows = {
            text: {m: numbers for m, numbers in row.items() if m in METRICS[kind]}
            for text, row in table.rows.items()
        }
        words = {
            text: {m: told for m, told in row.items() if m in METRICS[kind]}
            for text, row in table.words.items()
        }
        bands = table.bands if kind == LABELLED else {}
        yield Publication(group_by, kind, start, end, rows, words, bands, at, window, epoch)


def read_all(scrapes: Iterable[Fetched]) -> Reader:
    """Everything that was ever shown."""
    reader = Reader()
    for fetched in scrapes:
        reader.read(fetched)
    return reader
