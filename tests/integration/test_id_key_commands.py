"""Making a key, seeing which there are, giving one up: what a person does about id keys."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from datetime import date
from pathlib import Path

import lesson
import pytest
from click.testing import CliRunner, Result
from id_keys import KEY, rotated
from pipeline import DECISIONS, LABELS, SETTINGS, Pipeline, messages

from monitor.cli import cli
from monitor.errors import SlicewatchError
from monitor.settings import load

NEW_KEY = "another key for tests, from the day of the rotation on"
BOTH = rotated(SETTINGS, ("default", KEY, None), ("june", NEW_KEY, "2026-06-02"))


def invoke(*arguments: str | Path, **env: str) -> Result:
    return CliRunner(env=env).invoke(cli, [*map(str, arguments)], standalone_mode=False)


def refused(result: Result) -> str:
    assert isinstance(result.exception, SlicewatchError)
    assert "\n" not in str(result.exception)
    return str(result.exception)


# Making a key


def test_a_new_key_is_random_and_its_owners_alone(tmp_path: Path) -> None:
    keys = set()
    for name in ("one", "two"):
        result = invoke("db", "new-key", tmp_path / name)
        key = (tmp_path / name).read_text().strip()
        assert len(bytes.fromhex(key)) == 32
        assert key not in result.output
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
        keys.add(key)
    assert len(keys) == 2


def test_a_new_key_fits_into_the_settings(tmp_path: Path) -> None:
    invoke("db", "new-key", tmp_path / "key")
    path = tmp_path / "settings.toml"
    path.write_text(SETTINGS.replace(f'id_key = "{KEY}"', f'id_key_file = "{tmp_path}/key"'))
    (only,) = load(path, {}).privacy.keys
    assert only.key is not None
    assert only.key.reveal() == (tmp_path / "key").read_text().strip()


@pytest.mark.parametrize("name", ["there", "link", "", "none/key"])
def test_no_file_is_overwritten(name: str, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    assert "give the name of a new file" in refused(invoke("db", "new-key", tmp_path / name))
    assert (tmp_path / "there").read_text() == "kept"


@pytest.mark.parametrize("command", ["run", "serve", "ingest", "check"])
def test_real_decisions_need_a_key(command: str, tmp_path: Path) -> None:
    """Whatever is started, before anything else is tried."""
    path = tmp_path / "settings.toml"
    real = SETTINGS.replace("synthetic = true\nk = 1\n", "")
    path.write_text(real.replace(f'[privacy]\nid_key = "{KEY}"\n', ""))
    done = subprocess.run(
        [sys.executable, "-m", "monitor", command, "--settings", str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("slicewatch: privacy.id_key: is not set")
    assert "slicewatch db new-key FILE" in line
    assert not (tmp_path / "slicewatch.db").exists()


def test_the_settings_in_the_manual_are_settings(tmp_path: Path) -> None:
    manual = (Path(__file__).parents[2] / "deploy" / "docs" / "security.md").read_text()
    section = manual.partition("\n## The id key\n")[2].partition("\n## ")[0]
    single, several = re.findall(r"^```toml\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    for name in ("id_key", "id_key_2027"):
        invoke("db", "new-key", tmp_path / name)
    path, bare = tmp_path / "settings.toml", SETTINGS.replace(f'[privacy]\nid_key = "{KEY}"\n', "")
    named = []
    for text in (single, several):
        path.write_text(text.replace("/etc/slicewatch", str(tmp_path)) + bare)
        named.append([(one.id, one.from_day) for one in load(path, {}).privacy.keys])
    assert named == [[("default", None)], [("default", None), ("2027", date(2027, 1, 1))]]
    shown = [line.split() for line in section.splitlines()]
    assert ["default", "-", "2027-01-31"] in shown  # 30 days after the last day of 2026
    assert ["2027", "2027-01-01", "-"] in shown


# Seeing and giving up


@pytest.fixture
def site(tmp_path: Path) -> Pipeline:
    """A store with two keys, and a decision and its label of the first one's days."""
    pipeline = Pipeline(tmp_path, text=BOTH)
    pipeline.broker.produce(DECISIONS, messages([lesson.decision("a", lesson.START, 0.8)]))
    pipeline.broker.produce(LABELS, messages([lesson.label("a", lesson.START, True)]))
    pipeline.worker()
    pipeline.drain()
    pipeline.engine.dispose()
    return pipeline


def on(site: Pipeline, *arguments: str) -> Result:
    path = str(site.path.parent / "settings.toml")
    url = f"sqlite:///{site.path}"
    return invoke("db", *arguments, "--settings", path, SLICEWATCH__STORE__URL=url)


def test_status_says_when_a_key_may_be_destroyed(site: Pipeline) -> None:
    keys = json.loads(on(site, "status", "--json").output)["id_keys"]
    assert keys == [
        {"id": "default", "effective_from": None, "free_from": "2026-07-02T00:00:00Z"},
        {"id": "june", "effective_from": "2026-06-02T00:00:00Z", "free_from": None},
    ]
    lines = [line.split() for line in on(site, "status").output.splitlines()]
    assert ["default", "-", "2026-07-02"] in lines
    assert ["june", "2026-06-02", "-"] in lines


def test_a_key_is_given_up_with_all_that_is_hashed_with_it(site: Pipeline) -> None:
    assert "it knows: default, june" in refused(on(site, "drop-key", "july"))
    output = on(site, "drop-key", "default").output
    assert 'id key "default" is given up' in output
    removed = "1 from pending, 1 from label_state, 0 from double_label, 0 from waiting_label"
    assert removed in output
    assert "june" in on(site, "status").output
    assert "default" not in json.dumps(json.loads(on(site, "status", "--json").output)["id_keys"])


def test_an_id_is_forgotten_under_whatever_key_it_has(site: Pipeline) -> None:
    assert "1 from pending, 1 from label_state" in on(site, "forget", "a").output
    assert "nothing is stored" in on(site, "forget", "a").output
