"""``slicewatch report --wait``: the Release of a week that has just ended, once it is there."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from published_lesson import BOTH, lesson
from served_site import TOPICS, publish

from monitor.commands import report
from monitor.core.publish.release import Release, Revision, encode
from monitor.core.time import DAY, HOUR, IsoWeek
from monitor.errors import SlicewatchError
from monitor.store.evaluator.store import Cycle, EvaluatorStore

WEEK = IsoWeek.named("2024-W40")


class Waiting:
    """A clock that each wait moves on, and what the evaluator does meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waited = 0.0
        self.stores_after: tuple[float, sa.Engine] | None = None
        clock = SimpleNamespace(sleep=self.sleep, monotonic=lambda: self.waited)
        monkeypatch.setattr("monitor.commands.report.time", clock)

    def sleep(self, seconds: float) -> None:
        self.waited += seconds
        if self.stores_after and self.waited >= self.stores_after[0]:
            release(self.stores_after[1])
            self.stores_after = None


def release(engine: sa.Engine, week: IsoWeek = WEEK) -> None:
    store = EvaluatorStore(engine, TOPICS[0])
    epoch = store.lease.acquire("me", DAY)
    assert epoch is not None
    body = encode(Release(week.name, week.start, week.end, lesson(*BOTH).contracts))
    store.commit(epoch, Cycle(weeks=[Revision(week.name, 1, week.end, body)]), week.end)


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Waiting:
    return Waiting(monkeypatch)


@pytest.mark.parametrize("reached", [WEEK.end - HOUR, WEEK.end + HOUR])
def test_it_is_asked_for_until_it_is_there(
    engine: sa.Engine, waiting: Waiting, reached: int
) -> None:
    """Whether the last hour is still being counted, or the evaluator has not come to it."""
    publish(engine, lesson(*BOTH, at=reached), reached)
    waiting.stores_after = 20.0, engine
    assert report._wait_for_report(engine, WEEK, None, 60.0).revision.week == WEEK.name
    assert 20 <= waiting.waited < 22


def test_who_does_not_wait_or_waits_too_short_is_told_why(
    engine: sa.Engine, waiting: Waiting
) -> None:
    publish(engine, lesson(*BOTH, at=WEEK.end + HOUR), WEEK.end + HOUR)
    for seconds in (0.0, 10.0):
        with pytest.raises(SlicewatchError, match=r"is not stored yet.*--wait SECONDS"):
            report._wait_for_report(engine, WEEK, None, seconds)
    assert 10 <= waiting.waited < 11


def test_nobody_waits_for_what_cannot_come(engine: sa.Engine, waiting: Waiting) -> None:
    publish(engine, lesson(*BOTH, at=WEEK.end + HOUR), WEEK.end + HOUR)
    release(engine)
    of = {
        IsoWeek.named("2024-W30"): "stored are 2024-W40 to 2024-W40",
        IsoWeek.named("9990-W01"): "is not over",
    }
    for week, said in of.items():
        with pytest.raises(SlicewatchError, match=said):
            report._wait_for_report(engine, week, None, 1e4)
    with pytest.raises(SlicewatchError, match="no such revision; the newest is 1"):
        report._wait_for_report(engine, WEEK, 2, 1e4)
    assert waiting.waited == 0
