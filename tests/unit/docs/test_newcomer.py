"""Questions of somebody who has not seen the code: one search answers each of them.

A search is for a word or two of the question, in the architecture page and among the names of
files. It counts only while its hits are few enough to be read in a minute.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "deploy" / "docs" / "architecture.md").read_text()
PASSAGES = [" ".join(one.split()) for one in re.split(r"\n(?=\||\d+\. |- |\n)", PAGE)]
NAMES = sorted(
    str(path.relative_to(ROOT))
    for top in ("monitor", "consumers", "alerts")
    for path in (ROOT / top).rglob("*")
    if path.suffix in (".py", ".yaml", ".j2")
)
MOST = 7
"""Hits that can be read in a minute."""


def has_all(words: str, text: str) -> bool:
    """Each of the words as one, or as a part of a name that underscores join."""
    found = (re.search(rf"(?<![a-z]){one}(?![a-z])", text, re.IGNORECASE) for one in words.split())
    return all(found)


QUESTIONS = [
    ("Where is a label joined with its decision?", "joined", "monitor/store/ingest/join.py"),
    ("Where would I add a fifth metric?", "contract metric", "#a-contract-metric"),
    ("What is a calendar table?", "calendar table", "published once"),
    (
        "Which file decides when a page is resolved?",
        "resolved",
        "monitor/detection/pages/budget.py",
    ),
    ("What becomes of a copy of a message?", "copies", "dedupe.py"),
    ("Where do the texts of alerts stand?", "an alert", "alerts/rules/alerts.yaml"),
    ("Who may read the port, and who says so?", "may read", "alerts/http/guard.py"),
    ("Where are Snapshots stored?", "snapshots stored", "monitor/store/evaluator/records.py"),
    (
        "How is it made sure that one process evaluates?",
        "lease evaluator",
        "monitor/store/evaluator/lease.py",
    ),
    ("Which worker reads which partition?", "partitions", "ownership.py"),
    ("Why is my row suppressed?", "suppressed", "monitor/core/tables/bands.py"),
    ("What does a judge of model outputs do, and where?", "judge", "monitor/judging/"),
    ("Where is a scorecard made?", "scorecard", "monitor/audit/scorecard/"),
    ("Where do results of bias evaluations go?", "bias", "monitor/store/bias_score_rows.py"),
    ("How is one person's data erased?", "erase", "monitor/store/erasure.py"),
    ("How do I leave a bad hour out?", "left out", "monitor/store/exclusions.py"),
    ("What happens to decisions that come too late?", "too late", "every longer span"),
    (
        "Where is an incident acknowledged?",
        "acknowledged",
        "monitor/store/evaluator/stored_incidents.py",
    ),
    ("Why may a topic wait for the other?", "run ahead", "consumers/backpressure.py"),
    (
        "How do I change a table, when there is data?",
        "migration",
        "monitor/store/migrations/versions/",
    ),
    ("Who notices that Kafka is silent?", "kafka silent", "monitor/watchdog.py"),
    ("When are old rows deleted?", "old rows", "monitor/store/upkeep/retention.py"),
    ("Where do probes leave, and how often?", "probes sent router", "monitor/probing/"),
    ("Which tests do I run for a database?", "database", "`contract`"),
]


@pytest.mark.parametrize(("question", "words", "answer"), QUESTIONS)
def test_one_search_answers(question: str, words: str, answer: str) -> None:
    hits = [one for one in PASSAGES if has_all(words, one)]
    hits += [one for one in NAMES if has_all(words, Path(one).name)]
    assert len(hits) <= MOST, (question, hits)
    assert any(answer in one for one in hits), question
    if answer.endswith((".py", ".yaml", "/")) and "/" in answer:
        assert (ROOT / answer).exists()
