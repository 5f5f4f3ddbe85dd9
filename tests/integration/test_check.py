"""``slicewatch check`` against a real broker and a real store."""

from __future__ import annotations

from pathlib import Path

import pytest
from brokers import Broker
from click.testing import CliRunner, Result
from migrated import bring_to_head

from monitor.clock import SystemClock
from monitor.commands.check import command
from monitor.composition.store import begin_service, open_store
from monitor.errors import SlicewatchError
from monitor.settings import load

SETTINGS = Path(__file__).parents[2] / "deploy" / "examples" / "ten_pairs.toml"


@pytest.fixture
def environment(kafka: Broker, topic_name: str, tmp_path: Path) -> dict[str, str]:
    kafka.create_topic(f"{topic_name}-d", 3, {"retention.ms": "86400000"})
    kafka.create_topic(f"{topic_name}-l", 2, {"retention.ms": "-1"})
    return {
        "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": kafka.bootstrap,
        "SLICEWATCH__STREAM__DECISIONS_TOPIC": f"{topic_name}-d",
        "SLICEWATCH__STREAM__LABELS_TOPIC": f"{topic_name}-l",
        "SLICEWATCH__STORE__URL": f"sqlite:///{tmp_path}/store.db",
        "SLICEWATCH__PRIVACY__ID_KEY": "a-secret-that-nobody-may-read-0123",
    }


def check(environment: dict[str, str], *arguments: str) -> Result:
    return CliRunner(env=environment).invoke(
        command, ["--settings", str(SETTINGS), *arguments], standalone_mode=False
    )


def test_prints_the_resolved_settings_without_secrets(environment: dict[str, str]) -> None:
    result, brief = check(environment, "--all"), check(environment)
    assert result.exit_code == brief.exit_code == 0
    assert 'group_id = "slicewatch"' in result.output
    assert "a-secret" not in result.output
    assert "16 possible atoms" in brief.output
    shown = brief.output.splitlines()[:-1]
    assert result.output.splitlines()[: len(shown)] == shown, "the settings come last"


def test_says_what_it_found(environment: dict[str, str], kafka: Broker) -> None:
    open_store(load(SETTINGS, environment), SystemClock()).dispose()
    lines = check(environment, "--connect").output.splitlines()
    assert f"ok: broker at {kafka.bootstrap}" in lines
    assert any(line.startswith("ok: topic") and "3 partitions" in line for line in lines)
    assert "ok: a start would change nothing" in lines
    assert (
        "ok: it can be written, with its dead letters: a transaction for writing was opened, and"
        " nothing written"
    ) in lines
    if kafka.kind == "kafka":  # the embedded broker describes no configuration
        assert any("keeps messages for 1 days, less than stream.horizon" in x for x in lines)
        assert any("2 partitions, keeps messages for ever" in line for line in lines)


def test_every_failure_is_named_in_one_line(environment: dict[str, str]) -> None:
    open_store(load(SETTINGS, environment), SystemClock()).dispose()
    broken = {
        **environment,
        "SLICEWATCH__STREAM__LABELS_TOPIC": "no-such-topic",
        "SLICEWATCH__USE_CASE__0__CONTRACT__MAX_TPR_GAP": "0.2",
    }
    result = check(broken, "--connect")
    assert isinstance(result.exception, SlicewatchError)
    message = str(result.exception)
    assert "no-such-topic does not exist" in message
    assert "numbers changed under the unchanged version 1" in message
    assert "\n" not in message


def test_a_new_contract_version_is_announced(environment: dict[str, str]) -> None:
    open_store(load(SETTINGS, environment), SystemClock()).dispose()
    newer = {
        **environment,
        "SLICEWATCH__USE_CASE__0__CONTRACT__MAX_TPR_GAP": "0.2",
        "SLICEWATCH__USE_CASE__0__CONTRACT__VERSION": "2",
    }
    assert "contract ten-pairs version 2 is new" in check(newer, "--connect").output


def test_another_coding_is_refused(environment: dict[str, str]) -> None:
    open_store(load(SETTINGS, environment), SystemClock()).dispose()
    other = {**environment, "SLICEWATCH__STREAM__SCORE_BANDS": "0.5"}
    with pytest.raises(SlicewatchError, match="score_bands"):
        open_store(load(SETTINGS, other), SystemClock())


def test_a_changed_mapping_is_announced(environment: dict[str, str]) -> None:
    """It changes what every message means."""
    names = ("decision_id", "decided_at", "route", "evidence_passed", "audit_p", "label_requested")
    fields = ", ".join(f'{name} = "/{name}"' for name in names)
    environment |= {"SLICEWATCH__MAPPING__DECISIONS__FIELDS": f"{{ {fields} }}"}
    settings = load(SETTINGS, environment)
    engine = open_store(settings, SystemClock())
    try:
        assert not begin_service(settings, engine, SystemClock())
        mapped = {**environment, "SLICEWATCH__MAPPING__DECISIONS__TIMES": "seconds"}
        line = 'mapping.decisions.times is "seconds" now, and was "milliseconds" at the last start'
        assert f"a start would report: {line}" in check(mapped, "--connect").output
        assert begin_service(load(SETTINGS, mapped), engine, SystemClock()) == [line]
        assert not begin_service(load(SETTINGS, mapped), engine, SystemClock())
    finally:
        engine.dispose()


def test_a_database_that_cannot_be_written_is_said(
    environment: dict[str, str], postgres_url: str
) -> None:
    """A login that only reads, and a server that takes no writes: what a standby is."""
    environment = {**environment, "SLICEWATCH__STORE__URL": postgres_url}
    bring_to_head(postgres_url)
    said = check(environment, "--connect").output
    assert "ok: it can be written, with its dead letters: this login has the rights" in said
    more = "&" if "?" in postgres_url else "?"
    standby = f"{postgres_url}{more}options=-cdefault_transaction_read_only%3Don"
    failed = check({**environment, "SLICEWATCH__STORE__URL": standby}, "--connect")
    assert "the database takes no writes" in str(failed.exception)
