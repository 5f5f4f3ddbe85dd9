"""``slicewatch init``: the file that it writes is short, and the service accepts it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from monitor.commands.init import command
from monitor.errors import SettingsError, SlicewatchError
from monitor.settings import Settings, load, warnings

ANSWERS = "tickets\nA. Person\nchannel=chat,email language=en,de,\u4e2d\u6587\nfpr\n{}\n"


def init(folder: Path, *arguments: str, answers: str = "") -> Result:
    settings = folder / "slicewatch.toml"
    return CliRunner().invoke(
        command, ["--settings", str(settings), *arguments], input=answers, standalone_mode=False
    )


def written(folder: Path) -> Settings:
    path = folder / "slicewatch.toml"
    assert len(path.read_text().splitlines()) <= 15
    return load(path, {})


def sample(folder: Path, *attributes: object) -> str:
    path = folder / "events.jsonl"
    path.write_text("".join(f"{json.dumps({'attributes': each})}\n" for each in attributes))
    return str(path)


@pytest.mark.parametrize(
    ("brokers", "client", "servers"),
    [("", "embedded", ("localhost:9092",)), ("a:1, b:2", "kafka-python", ("a:1", "b:2"))],
)
def test_five_answers_are_enough(
    tmp_path: Path, brokers: str, client: str, servers: tuple[str, ...]
) -> None:
    assert init(tmp_path, answers=ANSWERS.format(brokers)).exit_code == 0
    settings = written(tmp_path)
    (use_case,) = settings.use_case
    assert (use_case.name, use_case.owner) == ("tickets", "A. Person")
    assert use_case.contract.primary == "fpr"
    assert [attribute.listed for attribute in settings.attribute] == [
        ("chat", "email"),
        ("en", "de", "\u4e2d\u6587"),
    ]
    assert (settings.stream.client, settings.stream.bootstrap_servers) == (client, servers)
    (line,) = warnings(settings)
    assert line.startswith("not set, though readers of reports look for it: ")


@pytest.mark.parametrize("wrong", ["channel", "channel=", "channel=chat, email"])
def test_an_attribute_without_values_is_asked_again(tmp_path: Path, wrong: str) -> None:
    result = init(tmp_path, answers=f"tickets\nA. Person\n{wrong}\nchannel=chat,email\n\n\n")
    assert f"{wrong} has no values for some name" in result.output
    assert [attribute.listed for attribute in written(tmp_path).attribute] == [("chat", "email")]


def test_a_sample_gives_attributes_that_can_be_compared(tmp_path: Path) -> None:
    few = [{"channel": value, "tier": "a"} for value in ("chat", "email", "email")]
    names = [{"customer": f"c-{n}", "channel": "chat"} for n in range(60)]
    odd = [{"channel": 7, "tier": " b "}, "no attributes", None]
    result = init(tmp_path, "--from", sample(tmp_path, *few, *names, *odd))
    assert "left out, because of too many values: customer" in result.output
    listed = {attribute.name: attribute.listed for attribute in written(tmp_path).attribute}
    assert listed == {"channel": ("chat", "email"), "tier": ("a",)}


def test_many_attributes_are_still_a_short_file(tmp_path: Path) -> None:
    """Those with most values are left out where there would be too many cells."""
    attributes = [{f"a{n}": str(i % (n + 1)) for n in range(9)} for i in range(9)]
    result = init(tmp_path, "--from", sample(tmp_path, *attributes))
    assert [attribute.name for attribute in written(tmp_path).attribute] == [
        *("a0", "a1", "a2", "a3", "a4")
    ]
    assert "too many values: a8, a7, a6, a5" in result.output


def test_a_file_without_decisions_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text('{"label_id": "l"}\nno JSON\n')
    result = init(tmp_path, "--from", str(tmp_path / "events.jsonl"))
    assert isinstance(result.exception, SlicewatchError)
    assert "has no decisions with attributes of few values" in str(result.exception)
    assert not (tmp_path / "slicewatch.toml").exists()


def test_nothing_is_overwritten_and_a_bad_answer_leaves_no_file(tmp_path: Path) -> None:
    result = init(tmp_path, answers=ANSWERS.format("").replace("channel", "Channel"))
    assert isinstance(result.exception, SettingsError)
    key = (tmp_path / "slicewatch.key").read_text()
    assert init(tmp_path, answers=ANSWERS.format("")).exit_code == 0
    assert (tmp_path / "slicewatch.key").read_text() == key
    text = (tmp_path / "slicewatch.toml").read_text()
    again = init(tmp_path, answers=ANSWERS.format(""))
    assert "already exists; name a new file with --settings" in str(again.exception)
    assert (tmp_path / "slicewatch.toml").read_text() == text
