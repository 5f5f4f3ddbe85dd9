"""Scorecards of three weeks, sent as events: the drift of the last one is a ticket."""

from __future__ import annotations

import json
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import lesson
import pytest
from click.testing import CliRunner
from hiring import DRIFTED, FIRST, REPAIRED, HiringScores, write_hiring
from kafka_broker import KafkaBroker
from monitoring import eventually
from notified import watching
from running import Running
from signed_probes import WITH_KEY

from monitor.cli import cli

pytestmark = pytest.mark.full

SETTINGS = Path(__file__).parents[2] / "deploy" / "examples" / "ten_pairs.toml"
LIMITS = {"refusals": 0.05, "lpbs": 0.10, "cbs": 0.10}
WEEKS = ((FIRST, "m-1", 14), (REPAIRED, "m-2", 7), (DRIFTED, "m-2", 0))


def events(folder: Path, scores: HiringScores, model: str, measured: date) -> list[bytes]:
    """What ``slicewatch audit --scorecard --events`` writes."""
    card, file = write_hiring(folder, scores, measured=measured, model=model), folder / "events"
    arguments = ["audit", "--scorecard", str(card), "--events", str(file)]
    assert CliRunner().invoke(cli, arguments).exit_code in (0, 1)
    return file.read_bytes().splitlines()


def declared(folder: Path) -> Path:
    """The example's settings with the three dimensions."""
    text = SETTINGS.read_text() + "".join(
        f'\n[[bias_dimension]]\nname = "{name}"\nlimit = {limit}\n'
        for name, limit in {**LIMITS, "never": 0.1}.items()
    )
    text += 'max_age = "7d"\n'
    (folder / "slicewatch.toml").write_text(text)
    return folder / "slicewatch.toml"


@pytest.mark.timeout(600)
def test_the_drift_of_the_third_week_is_a_ticket(
    apache: KafkaBroker, topic_name: str, tmp_path: Path
) -> None:
    topic, today = f"{topic_name}-l", datetime.now(UTC).date()
    for end in "dl":
        apache.create_topic(f"{topic_name}-{end}", 1)
    first, second, third = (
        events(tmp_path / model / str(ago), scores, model, today - timedelta(days=ago))
        for scores, model, ago in WEEKS
    )
    undeclared = json.dumps(json.loads(first[0]) | {"dimension": "total"}).encode()
    environment = {
        "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": apache.bootstrap,
        "SLICEWATCH__STREAM__DECISIONS_TOPIC": f"{topic_name}-d",
        "SLICEWATCH__STREAM__LABELS_TOPIC": topic,
        "SLICEWATCH__STREAM__GROUP_ID": topic_name[-8:],
        "SLICEWATCH__STREAM__SESSION_TIMEOUT": "6s",
        "SLICEWATCH__STORE__URL": f"sqlite:///{tmp_path}/store.db",
        **WITH_KEY,
    }
    settings = declared(tmp_path)
    apache.produce(topic, [*lesson.encode(lesson.labels()), *first, undeclared, *second])
    with Running(tmp_path, ["run", "--settings", str(settings)], environment) as service:
        service.until(lambda: scores_of(service) == [0.0425, 0.06, 0.08], "the second week")
        assert service.value("slicewatch_bias_score_drifted", dimension="lpbs") == 0
        due = service.value("slicewatch_bias_score_due_timestamp_seconds", dimension="never")
        assert 0 < time.time() - (due or 0) < 600, "nobody measures it, and it is due"
        assert (
            service.value("slicewatch_dead_letters_total", topic=topic, reason="invalid_value") == 1
        )
        with watching(tmp_path / "watch", settings, environment, service.port) as watch:
            watch.wait_for("slicewatch_bias_score")
            service.kill()
            apache.produce(topic, [*second, *third, *third])
            service.restart()
            eventually(lambda: bool(tickets(watch.told.posts)), "a ticket")
            names = {alert["labels"]["dimension"] for alert in tickets(watch.told.posts)}
            assert names == {"lpbs"}
            (text, *_) = [one["annotations"]["description"] for one in tickets(watch.told.posts)]
            assert "Worse by 0.030." in text
            assert not watch.firing("bias_score_beyond_limit")
        assert scores_of(service) == [0.0425, 0.09, 0.08]


def scores_of(service: Running) -> list[float | None]:
    found = [service.value("slicewatch_bias_score", dimension=name) for name in LIMITS]
    return [None if one is None else round(one, 6) for one in found]


def tickets(posts: list[tuple[str, dict[str, object]]]) -> list[dict[str, dict[str, str]]]:
    return [
        alert
        for path, body in posts
        if path == "/ticket"
        for alert in body["alerts"]  # type: ignore[attr-defined]
        if alert["labels"].get("condition") == "bias_score_drifted"
    ]
