"""The lesson's ten pairs through Kafka, read from the running service's own output."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import lesson
import pytest
from brokers import Broker
from running import Running
from signed_probes import WITH_KEY

SETTINGS = Path(__file__).parents[2] / "deploy" / "examples" / "ten_pairs.toml"
SLICES = ("language_variety=formal", "language_variety=conversational")


@pytest.fixture
def environment(kafka: Broker, topic_name: str, tmp_path: Path) -> dict[str, str]:
    """Topics of our own that hold the ten pairs, and the settings that point to them."""
    decisions, labels = f"{topic_name}-decisions", f"{topic_name}-labels"
    kafka.create_topic(decisions, 1)
    kafka.create_topic(labels, 1)
    kafka.produce(decisions, lesson.encode(lesson.decisions()))
    kafka.produce(labels, lesson.encode(lesson.labels()))
    kafka.produce(decisions, lesson.encode(iter([lesson.tick()])))
    return {
        "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": kafka.bootstrap,
        "SLICEWATCH__STREAM__DECISIONS_TOPIC": decisions,
        "SLICEWATCH__STREAM__LABELS_TOPIC": labels,
        "SLICEWATCH__STREAM__GROUP_ID": topic_name[-8:],
        "SLICEWATCH__STREAM__SESSION_TIMEOUT": "6s",
        "SLICEWATCH__STORE__URL": f"sqlite:///{tmp_path}/store.db",
        **WITH_KEY,
    }


@pytest.fixture(params=["kafka-python", pytest.param("librdkafka", marks=pytest.mark.full)])
def service(
    request: pytest.FixtureRequest, environment: dict[str, str], tmp_path: Path
) -> Iterator[Running]:
    environment["SLICEWATCH__STREAM__CLIENT"] = request.param
    with Running(tmp_path, ["run", "--settings", str(SETTINGS)], environment) as running:
        yield running


def _rate(service: Running, name: str, metric: str, slice_: str) -> float | None:
    return service.value(
        f"slicewatch_slice_{name}", metric=metric, slice=slice_, window="7d",
        group_by="language_variety",
    )  # fmt: skip


def test_the_numbers_of_the_lesson(service: Running) -> None:
    formal, conversational = SLICES
    service.until(lambda: _rate(service, "rate_ratio", "tpr", formal) is not None, "a TPR")
    expected = {
        ("selection", formal): 0.6,
        ("selection", conversational): 0.3,
        ("tpr", formal): 5 / 6,
        ("tpr", conversational): 3 / 6,
        ("fpr", formal): 1 / 4,
        ("fpr", conversational): 0.0,
    }
    for (metric, slice_), rate in expected.items():
        assert _rate(service, "rate_ratio", metric, slice_) == pytest.approx(rate, abs=1e-12)
    for slice_, low, high in ((formal, 0.436, 0.970), (conversational, 0.188, 0.812)):
        assert _rate(service, "rate_lower_ratio", "tpr", slice_) == pytest.approx(low, abs=5e-4)
        assert _rate(service, "rate_upper_ratio", "tpr", slice_) == pytest.approx(high, abs=5e-4)
    # Positive means worse off: conversational waits more often, and gets less unclear replies.
    for metric, gap in (("tpr", 1 / 3), ("fpr", -1 / 4)):
        assert _rate(service, "gap_ratio", metric, conversational) == pytest.approx(gap, abs=1e-12)
        lower = _rate(service, "gap_lower_ratio", metric, conversational)
        upper = _rate(service, "gap_upper_ratio", metric, conversational)
        assert lower is not None
        assert upper is not None
        assert lower < 0.10 < upper or lower < -0.10 < upper
        assert lower <= 0.10
        assert upper >= -0.10
        verdict = service.value(
            "slicewatch_slice_verdict",
            metric=metric, slice=conversational, verdict="inconclusive",
        )  # fmt: skip
        assert verdict == 1
    state = service.value(
        "slicewatch_slice_state", metric="tpr", slice=conversational, state="inconclusive"
    )
    assert state == 1
    assert 'synthetic="true"' in service.get("/metrics")[1]


def test_under_a_real_contract_no_number_of_them_appears(
    environment: dict[str, str], tmp_path: Path
) -> None:
    settings = SETTINGS.read_text().replace("k = 1\n", "k = 11\n")
    settings = settings.replace("min_positives = 1", "min_positives = 50")
    settings = settings.replace("min_negatives = 1", "min_negatives = 30")
    (tmp_path / "guarded.toml").write_text(settings)
    with Running(tmp_path, ["run", "--settings", "guarded.toml"], environment) as service:
        service.until(
            lambda: service.value(
                "slicewatch_slice_state", metric="tpr", slice=SLICES[0], state="suppressed"
            ) == 1,
            "the hidden state",
        )  # fmt: skip
        page = service.get("/metrics")[1]
        numbers = [
            line
            for line in page.splitlines()
            if re.match(r"slicewatch_slice_(?!state)", line) and 'slice="language' in line
        ]
        assert numbers == []
        shown = {
            dict(labels)["state"]
            for (name, labels), value in service.metrics().items()
            if name == "slicewatch_slice_state" and value == 1 and dict(labels)["slice"] != ""
        }
        assert shown == {"suppressed"}


def test_stops_when_it_is_asked_to_and_leaves_the_port(service: Running) -> None:
    service.until(lambda: service.get("/readyz")[0] == 200, "readiness")
    assert service.stop() == 0
    assert "did not stop in time" not in service.log.read_text()
    assert service.get("/livez")[0] == 0
