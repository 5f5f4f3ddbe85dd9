"""A headline is read at a glance: at most fifteen words, whatever it says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from published_lesson import T0, full, lesson

from monitor.core.contract import Severity
from monitor.core.metric import Metric
from monitor.core.publish.annotations import IncidentKind
from monitor.core.publish.pipeline import Pipeline
from monitor.core.publish.snapshot import ShownGap, ShownIncident
from monitor.core.state import State
from monitor.web import building, headlines
from monitor.web.contents import Overview
from monitor.web.links import ViewSubject

MOST_WORDS = 15


def page(state: State, metric: Metric = Metric.TPR, names: tuple[str, ...] = ("a",)) -> Overview:
    """The overview of contracts that limit one metric, whose slice is in a state."""
    gap = ShownGap("complement", 0.33, 0.2, 0.45)
    row = replace(full("channel=chat"), states={metric: state}, gaps={metric: gap})
    (table,) = lesson(row).contracts
    incident = ShownIncident(1, IncidentKind.BREACH, Severity.PAGE, metric, T0, "", "withheld")
    limited = replace(
        table,
        primary=metric,
        max_gaps={metric: 0.1},
        min_ratios={},
        min_levels={},
        max_levels={},
        incidents=(incident,),
    )
    contracts = tuple(replace(limited, contract=name) for name in names)
    snapshot = replace(lesson(), contracts=contracts)
    return building.overview(
        snapshot,
        None,
        building.contract_contents(snapshot, ViewSubject()),
        beginning=None,
        blind=(),
        conditions=(),
        pipeline=Pipeline((), None, None),
        limitations=(),
    )


@pytest.mark.parametrize("metric", [metric for metric in Metric if metric is not Metric.READY])
@pytest.mark.parametrize("state", list(State))
def test_a_verdict_has_at_most_fifteen_words(metric: Metric, state: State) -> None:
    sentence = page(state, metric).verdict.sentence
    assert 3 <= len(sentence.split()) <= MOST_WORDS, sentence


def test_of_several_contracts_the_worst_are_named() -> None:
    made = page(State.SUSPECTED, names=("replies", "search"))
    assert made.verdict.sentence == "replies, search: over a limit."


def test_an_open_incident_comes_before_a_window_that_shows_no_breach() -> None:
    made = page(State.WITHIN_CONTRACT)
    assert made.verdict.word == "fail"
    assert made.verdict.sentence == "An incident is open on a hidden slice."


@pytest.mark.parametrize("sentence", [headlines.EVALUATOR_BEHIND, headlines.NOTHING_NEWER])
def test_old_data_are_explained_in_few_words(sentence: str) -> None:
    assert len(sentence.split()) <= MOST_WORDS
