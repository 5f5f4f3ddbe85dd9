"""Plays a world of labels to the service: raw events through decoding, ingest and evaluation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from adversary.service import settings_text
from adversary.worlds import AUDIT_RATES, DAY, MINUTE, ROUTES, START, Ints, World
from label_worlds import LabelWorld, Stall
from pipeline import DECISIONS, LABELS, Pipeline

from monitor.core.contract import Severity
from monitor.core.metric import Metric
from monitor.core.publish.snapshot import LabelsAtFault, LimitKind, decode
from monitor.core.time import WINDOWS
from monitor.detection.pages.streams import BUDGET_DAYS, Direction, Stream
from monitor.evaluate.publish import publisher

PARTITIONS = 4
"""Of the labels' topic, by the number of the decision."""

STEP = DAY
SCORES = (0.5, 0.8, 0.95)
"""One in each band."""

_DECISION = (
    '{{"decision_id":"d{id}","decided_at":"{at}Z","route":"{route}","judge_score":{score},'
    '"threshold":0.0,"evidence_passed":true,"attributes":{attributes},"versions":{{"judge":"j",'
    '"rubric":"r","policy":"p","router":"t"}},"audit_p":{audit},"label_requested":{asked}{unit}}}'
)
_LABEL = (
    '{{"label_id":"l{id}","decision_id":"d{id}","decided_at":"{at}Z","version":1,"ready":{ready},'
    '"kind":"initial","reason":"{reason}","reviewer":"r","labelled_at":"{said}Z"}}'
)


@dataclass(frozen=True)
class Played:
    """What was said of a world.

    Attributes:
        days: of event time.
        false: crossings of streams whose contract was kept: days since the world began, and the
            stream.
        found: days from the breach until the evaluator said that a stream in breach had crossed,
            the wait for labels included; None if none did.
        off: days from the breach to the estimated change of the stream that crossed first.
        told: days from the fault to the first time that labels of a faulty slice were reported.
        wrongly_told: slices that were reported though nothing was wrong with them.
        woken: days since the world began until a page named a metric and slice, and its limit.
    """

    days: int
    false: list[tuple[float, str]]
    found: float | None
    off: float | None
    told: float | None
    wrongly_told: list[str]
    woken: dict[tuple[Metric, str, LimitKind | None], float]

    @property
    def bound(self) -> float:
        """False pages that are to be expected at most."""
        return self.days / BUDGET_DAYS


class RawEvents:
    """The events of a world as their producers would send them.

    Args:
        world: all of it.
        unit: so many decisions after another name one sender; 0 for none.
    """

    def __init__(self, world: World, unit: int = 0) -> None:
        self.world = world
        self._unit = unit
        self._attributes = [
            json.dumps(dict(zip(world.names, atom, strict=True))) for atom in world.atoms
        ]

    def decisions(self, rows: Ints) -> list[bytes | None]:
        """Of these decisions."""
        one = self.world
        columns = (
            rows, _iso(one.at[rows]), one.atom[rows], one.route[rows], one.band[rows],
            one.rate[rows], one.asked[rows],
        )  # fmt: skip
        return [
            _DECISION.format(
                id=row, at=at, attributes=self._attributes[atom], route=ROUTES[route],
                score=SCORES[band],
                audit=AUDIT_RATES[rate], asked="true" if asked else "false",
                unit=f',"unit":"u{row // self._unit}"' if self._unit else "",
            ).encode()
            for row, at, atom, route, band, rate, asked in zip(
                *(column.tolist() for column in columns), strict=True
            )
        ]  # fmt: skip

    def labels(self, places: Ints) -> list[bytes | None]:
        """Those at these places of all labels."""
        one = self.world
        says = one.says[places]
        columns = (
            says, _iso(one.at[says]), one.ready[places], one.route[says], _iso(one.said_at[places])
        )  # fmt: skip
        return [
            _LABEL.format(
                id=row, at=at, ready="true" if ready else "false",
                reason="review" if ROUTES[route] == "human_review" else "audit", said=said,
            ).encode()
            for row, at, ready, route, said in zip(
                *(column.tolist() for column in columns), strict=True
            )
        ]  # fmt: skip


def _iso(micros: Ints) -> npt.NDArray[np.str_]:
    return np.datetime_as_string(micros.astype("datetime64[us]"))


class Feed:
    """Sends what comes until an instant; a stalled partition's labels wait at their producer."""

    def __init__(self, events: RawEvents, pipeline: Pipeline, stall: Stall | None = None) -> None:
        self._events, self._pipeline, self._stall = events, pipeline, stall
        self._done = [0] * (PARTITIONS + 1)
        says = self._events.world.says
        self._labels = [np.flatnonzero(says % PARTITIONS == part) for part in range(PARTITIONS)]

    def until(self, now: int) -> None:
        world, broker = self._events.world, self._pipeline.broker
        end = int(np.searchsorted(world.at, now))
        broker.produce(DECISIONS, self._events.decisions(np.arange(self._done[-1], end)), 0)
        self._done[-1] = end
        self._pipeline.drain()
        for part, mine in enumerate(self._labels):
            end = int(np.searchsorted(world.said_at[mine], self._reaches(part, now)))
            broker.produce(LABELS, self._events.labels(mine[self._done[part] : end]), part)
            self._done[part] = end
        self._pipeline.drain()

    def _reaches(self, partition: int, now: int) -> int:
        stall = self._stall
        if stall is None or partition != stall.partition or now >= START + stall.until * DAY:
            return now
        return min(now, START + int(stall.since * DAY))


def play(world: LabelWorld, folder: Path, step: int = STEP) -> Played:
    """All days as they come, an evaluation after each step."""
    days = world.labelling.days
    unit = world.labelling.alike if world.units else 0
    events = RawEvents(world.labelling.world(), unit)
    text = live_settings(events.world) + world.limits
    told: list[tuple[float, LabelsAtFault]] = []
    crossings: dict[Stream, _Crossing] = {}
    woken: dict[tuple[Metric, str, LimitKind | None], float] = {}
    # The contract's window alone: the others would take most of the time.
    only = patch.object(publisher, "WINDOWS", {"7d": WINDOWS["7d"]})
    with only, Pipeline(folder, (1, PARTITIONS), text=text, stream__clock="live") as pipeline:
        pipeline.clock.seconds = START / 1e6
        pipeline.worker()
        feed, evaluator = Feed(events, pipeline, world.stall), pipeline.evaluator()
        for now in range(START + step, START + days * DAY + 1, step):
            pipeline.clock.seconds = max(pipeline.clock.seconds, (now + MINUTE) / 1e6)
            feed.until(now)
            assert evaluator.cycle()
            snapshot = pipeline.snapshot()
            tables = decode(snapshot).contracts if snapshot else ()
            told += [((now - START) / DAY, one) for t in tables for one in t.labels_at_fault]
            for one in (one for table in tables for one in table.incidents):
                if one.severity is Severity.PAGE:
                    broken = one.metric, one.slice, one.limit.kind if one.limit else None
                    woken.setdefault(broken, (now - START) / DAY)
            for stream, crossed, began in _crossings(pipeline):
                crossings.setdefault(stream, _Crossing(crossed, (now - START) / DAY, began))
        return replace(_judged(world, crossings, told), woken=woken)


def live_settings(world: World) -> str:
    """The settings of the world, live."""
    text = settings_text(world, exact=False).replace('clock = "history"\n', "")
    return text.replace('horizon = "7d"', 'horizon = "30d"')  # the default


def _crossings(pipeline: Pipeline) -> Iterator[tuple[Stream, float, float]]:
    query = sa.text("SELECT stream, crossed_at, began FROM crossing")
    with pipeline.engine.connect() as connection:
        for key, at, began in connection.execute(query):
            yield Stream.parse(key), (at - START) / DAY, (began - START) / DAY


class _Crossing(NamedTuple):
    """Days since the world began: the hour that crossed, when that was said, the change itself."""

    crossed: float
    said: float
    began: float


def _judged(
    world: LabelWorld,
    crossings: Mapping[Stream, _Crossing],
    told: list[tuple[float, LabelsAtFault]],
) -> Played:
    since = world.labelling.gap_from
    breached, faulty = _slices(world.breached), _slices(world.faulty)
    right_streams = {
        stream
        for stream, crossing in crossings.items()
        if crossing.crossed > since and _beyond(stream, breached)
    }
    true = sorted((crossings[stream].said, crossings[stream].began) for stream in right_streams)
    false = [
        (crossing.crossed, stream.key)
        for stream, crossing in crossings.items()
        if stream not in right_streams
    ]
    right = [day for day, one in told if one.slice in faulty]
    return Played(
        world.labelling.days,
        sorted(false),
        true[0][0] - since if true else None,
        true[0][1] - since if true else None,
        min(right) - world.since if right else None,
        sorted({one.slice for _, one in told} - faulty),
        {},
    )


def _slices(rows: Iterable[int]) -> set[str]:
    return {f"a=s{row:02d}" for row in rows}


def _beyond(stream: Stream, breached: set[str]) -> bool:
    """Whether a stream is of a gap that was made; others' complements hardly move."""
    worse = stream.direction is Direction.SLICE_WORSE
    return stream.metric is Metric.TPR and worse and stream.slice in breached
