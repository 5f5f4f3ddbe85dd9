"""``slicewatch render``: the files of an installation, without its secrets."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from monitor.cli import cli
from monitor.settings import load

EXAMPLE = Path(__file__).parents[3] / "deploy" / "examples" / "ten_pairs.toml"
OURS = """
[server]
listen = "0.0.0.0:9095"
tls_cert_file = "/etc/slicewatch/server.pem"
tls_key_file = "/etc/slicewatch/server.key"
{token}

[server.operations]
listen = "127.0.0.1:9096"

[alerting]
external_url = "https://fairness.example"
"""


def settings(folder: Path, token: str) -> Path:
    """Settings of production, on a machine that has none of their secrets."""
    file = folder / "slicewatch.toml"
    text = EXAMPLE.read_text().replace("synthetic = true\nk = 1\n", "")
    file.write_text(text + OURS.format(token=token))
    return file


@pytest.mark.parametrize("token", ['token_file = "/nowhere/token"', ""])
def test_no_secret_is_needed(tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLICEWATCH__PRIVACY__ID_KEY", raising=False)
    out = tmp_path / "out"
    arguments = ["render", "--settings", str(settings(tmp_path, token)), "--out", str(out)]

    done = CliRunner().invoke(cli, arguments)

    assert done.exit_code == 0, done.output
    written = yaml.safe_load((out / "prometheus" / "prometheus.yml").read_text())
    fairness, operations = written["scrape_configs"]
    named = "/nowhere/token" if token else "/etc/prometheus/slicewatch.token"
    assert fairness["authorization"] == {"credentials_file": named}
    assert "authorization" not in operations
    assert ("/etc/prometheus/slicewatch.token" in done.output) is (not token)
    everything = "".join(path.read_text() for path in out.rglob("*") if path.is_file())
    assert "was-not-read" not in everything


def test_keys_without_files_differ_from_each_other(tmp_path: Path) -> None:
    """Or a check for keys that are used twice would refuse them."""
    file = settings(tmp_path, "")
    keys = "".join(
        f'[[privacy.id_keys]]\nid = "k{i}"\nkey_file = "/nowhere/k{i}"\n'
        + ("from_day = 2026-01-02\n" if i > 1 else "")
        for i in (1, 2)
    )
    file.write_text(file.read_text() + keys)

    found = load(file, {}, with_secrets=False).privacy.keys

    assert len({one.key.reveal() for one in found if one.key}) == 2


@pytest.mark.parametrize("option", [[], ["-s", "slicewatch.toml"]])
def test_it_takes_the_settings_like_every_command(
    tmp_path: Path, option: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLICEWATCH_SETTINGS", raising=False)
    settings(tmp_path, "")
    assert CliRunner().invoke(cli, ["render", *option, "--out", "out"]).exit_code == 0
    assert "https://fairness.example" in (tmp_path / "out/prometheus/rules.yml").read_text()


def test_a_settings_file_that_is_not_there_is_refused_only_if_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLICEWATCH_SETTINGS", raising=False)
    assert CliRunner().invoke(cli, ["render", "--out", "out"]).exit_code == 0
    assert CliRunner().invoke(cli, ["render", "-s", "none.toml", "--out", "out"]).exit_code == 1
