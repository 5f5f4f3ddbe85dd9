"""``slicewatch probe`` against the example router: output, exit codes, and what is never said."""

from __future__ import annotations

import json
import re
import shlex
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from probing import EXAMPLES, KEY, SAID, ScriptedRouter, example, example_router, http

from monitor.audit.inputs import digest
from monitor.audit.set_files import read_results, read_set
from monitor.cli import cli
from monitor.commands.probe import command as probe
from monitor.commands.probe.access import Stopper
from monitor.commands.starting import STOP_SIGNALS
from monitor.errors import SlicewatchError
from monitor.probing.protocol import router_key
from monitor.settings import load

SET = EXAMPLES / "set.jsonl"
MANUAL = (Path(__file__).parents[4] / "deploy" / "docs" / "before-a-release.md").read_text()
FAST = ("--rate", "1000", "--seed", "5")
SECRET = "s3cret"


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """The command's handlers are not left to other tests."""
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example's settings, with the key of the tests."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "probe.key").write_text(KEY)
    path = tmp_path / "slicewatch.toml"
    path.write_text((EXAMPLES / "probes.toml").read_text())
    return path


@pytest.fixture
def router() -> Iterator[Any]:
    with example_router(router_key(KEY.encode())) as server:
        yield server


def run(settings: Path, *arguments: object) -> Result:
    words = ["run", *map(str, arguments), "--settings", str(settings)]
    return CliRunner().invoke(probe, words)


def failed(result: Result) -> str:
    """The one line that main prints."""
    assert isinstance(result.exception, SlicewatchError), result.output
    text = str(result.exception)
    assert "\n" not in text
    assert SECRET not in text
    return text


def test_a_set_is_sent_and_its_results_are_results_of_it(
    settings: Path, router: Any, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    done = run(settings, SET, "--target", router.url, *FAST, "--no-publish", "--results", out)
    assert done.exit_code == 0, done.output
    assert done.output == "round 1: 60 of 60 pairs answered; 0 with different routes\n"
    assert router.router.probes == 120
    results = read_results(out)
    assert len(results.rows) == 120
    assert digest(results.probe_set) == digest(read_set(SET))
    assert "Dear team" not in out.read_text()


def test_a_threshold_that_is_changed_for_one_variant_is_seen(settings: Path, router: Any) -> None:
    router.router.set_thresholds({"conversational": 0.8})
    done = run(settings, SET, "--target", router.url, *FAST, "--no-publish", "--times", "2")
    assert done.exit_code == 0
    assert done.output.splitlines() == [
        f"round {number}: 60 of 60 pairs answered; 20 with different routes" for number in (1, 2)
    ]


def test_a_dry_run_sends_nothing_and_says_what_it_would(settings: Path, router: Any) -> None:
    done = run(settings, SET, "--target", router.url, "--dry-run", "--rate", "2")
    assert done.exit_code == 0
    for part in ("60 pairs, 120 variants", "at least 60 s", "published as example-probes"):
        assert part in done.output
    assert router.router.probes == 0


def rewritten(tmp_path: Path, **changed: object) -> Path:
    rows = [json.loads(line) | changed for line in SET.read_text().splitlines()]
    path = tmp_path / "changed.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_a_set_that_is_not_declared_is_not_sent(
    settings: Path, router: Any, tmp_path: Path
) -> None:
    other = rewritten(tmp_path, dataset_version="2")
    told = failed(run(settings, other, "--target", router.url))
    assert "[[probes.sets]]" in told
    assert digest(read_set(other)) in told
    assert router.router.probes == 0


def test_a_set_of_real_requests_is_neither_sent_nor_written(
    settings: Path, router: Any, tmp_path: Path
) -> None:
    real, out = rewritten(tmp_path, synthetic=False), tmp_path / "out.jsonl"
    told = failed(run(settings, real, "--target", router.url, "--no-publish", "--results", out))
    assert "is not synthetic" in told
    assert router.router.probes == 0
    assert not out.exists()


def test_without_a_key_nothing_is_sent(settings: Path, router: Any) -> None:
    text = settings.read_text()
    settings.write_text(re.sub(r"\[\[probes\.sets\]\].*?\n\n", "", text, flags=re.DOTALL))
    settings.write_text(settings.read_text().replace('key_file = "probe.key"', ""))
    assert "probes.key is missing" in failed(
        run(settings, SET, "--target", router.url, "--no-publish")
    )
    assert router.router.probes == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--target", f"https://me:{SECRET}@router.example/"), "--target holds a user name"),
        (("--target", "http://router.example/"), "--insecure-http"),
        (("--target", "http://localhost:1/", "--timeout", "soon"), "--timeout must be a duration"),
        (("--target", "http://localhost:1/", "--timeout", "20m"), "--timeout must be at most"),
        (("--target", "http://localhost:1/", "--every", "0s"), "--every must be a duration"),
        (
            ("--target", "http://localhost:1/", "--times", "2", "--results", "out.jsonl"),
            "--results is for a single round",
        ),
        (("--target", "http://localhost:1/", "--results", "out.csv"), "ends in .jsonl"),
        (("--target", "http://localhost:1/", "--results", "no/out.jsonl"), "ends in .jsonl"),
        (("--target", "http://localhost:1/", "--results", "probe.key"), "already exists"),
        (("--target", "http://localhost:1/", "--token-file", "no.token"), "--token-file no.token"),
        (("--target", "http://localhost:1/", "--token-file", "bad.token"), "one token on one line"),
        (("--target", "http://localhost:1/", "--token-file", "raw.token"), "contains no token"),
        (("--target", "https://localhost:1/", "--ca-file", "no.pem"), "--ca-file cannot be used"),
        (
            ("--target", "http://localhost:1/", "--swap", "channel=a:b", "--every", "6h"),
            "--every has no meaning with --swap",
        ),
        (("--target", "http://localhost:1/", "--swap", "channel"), "--swap must be an attribute"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    settings: Path, arguments: Sequence[str], told: str
) -> None:
    Path("bad.token").write_text(f"{SECRET} {SECRET}")
    Path("raw.token").write_bytes(b"\xff\xfe" + SECRET.encode())
    assert told in failed(run(settings, SET, *arguments, "--no-publish"))
    assert not Path("out.jsonl").exists()


def test_a_token_is_sent_and_never_said(settings: Path) -> None:
    Path("token").write_text(f"{SECRET}\n")
    with ScriptedRouter(http({}, "403 No")) as scripted:
        done = run(
            settings, SET, "--target", scripted.url, *FAST, "--no-publish", "--token-file", "token"
        )
    assert done.exit_code == 2
    assert {one.headers["Authorization"] for one in scripted.asked} == {f"Bearer {SECRET}"}
    assert SECRET not in done.output


def test_a_router_that_is_down_is_given_up(settings: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with ScriptedRouter(http({"error": SECRET}, "500 Oh")) as scripted:
        done = run(settings, SET, "--target", scripted.url, *FAST, "--no-publish", "--results", out)
    assert done.exit_code == 2
    lines = done.output.splitlines()
    assert (
        len([line for line in lines if re.fullmatch(r"q\d\d/\w+: the router answered 500", line)])
        == 10
    )
    assert "5 incomplete (10 status); given up" in done.output
    assert SECRET not in done.output
    assert not out.exists()


def test_a_variant_without_an_answer_is_exit_code_1(settings: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with ScriptedRouter(http(SAID), http({"route": SECRET}), http(SAID)) as scripted:
        done = run(settings, SET, "--target", scripted.url, *FAST, "--no-publish", "--results", out)
    assert done.exit_code == 1
    assert "59 of 60 pairs answered" in done.output
    assert "1 incomplete (1 malformed)" in done.output
    assert len(out.read_text().splitlines()) == 119


def test_a_cadence_that_does_not_fit_is_warned_of(settings: Path, router: Any) -> None:
    arguments = (SET, "--target", router.url, "--dry-run", "--every")
    assert (
        "is longer than 6h, which probes.sets example-probes declares"
        in run(settings, *arguments, "7h").output
    )
    assert "rounds are less than 1h apart" in run(settings, *arguments, "1m").output
    assert "warning" not in run(settings, *arguments, "6h").output


@dataclass
class Traces:
    """A file of traces of the example's requests."""

    path: Path
    ids: list[str]


@pytest.fixture
def traces(tmp_path: Path) -> Traces:
    rows = [row for row in example("make_set").rows() if row["variant"] == "formal"]
    made = [
        {"id": f"trace-{number}", "attributes": row["attributes"], "request": row["request"]}
        for number, row in enumerate(rows)
    ]
    path = tmp_path / "traces.jsonl"
    path.write_text("".join(f"{json.dumps(one)}\n" for one in made))
    return Traces(path, [str(one["id"]) for one in made])


SWAP = ("--swap", "language_variety=formal:conversational")


def swap(settings: Path, traces: Traces, router: Any, *more: str) -> Result:
    return run(settings, traces.path, "--target", router.url, *FAST, *SWAP, *more)


def test_a_swap_compares_and_lists(
    settings: Path, traces: Traces, router: Any, tmp_path: Path
) -> None:
    router.router.set_thresholds({"conversational": 0.8})
    before = {path.name for path in tmp_path.iterdir()}
    done = swap(settings, traces, router)
    assert done.exit_code == 0, done.output
    assert router.router.probes == 120
    assert "60 of 60 traces compared, language_variety exchanged" in done.output
    rows = [re.split(r"\s{2,}", line.strip()) for line in done.output.splitlines()]
    assert ["original fared better", "20", "33.3%", "22.7% to 45.9%"] in rows
    assert ["swapped fared better", "0", "0.0%", "0.0% to 6.0%"] in rows
    listed = {row[0]: row[1] for row in rows if row[0] in traces.ids}
    assert sorted(listed.values()) == ["disagreement"] * 20 + ["spot check"] * 2
    assert {path.name for path in tmp_path.iterdir()} == before


def test_a_swap_says_nothing_of_requests_and_values(
    settings: Path, traces: Traces, router: Any
) -> None:
    router.router.set_thresholds({"conversational": 0.8})
    done = swap(settings, traces, router)
    for text in ("Dear team", "parcel", "R-1", "formal", "conversational", "chat"):
        assert text not in done.output


def test_a_router_that_repeats_requests_in_its_headers_is_not_quoted(
    settings: Path, traces: Traces, caplog: pytest.LogCaptureFixture
) -> None:
    reply = http(SAID, "200 OK", f"no header, but {SECRET}")
    with ScriptedRouter(reply) as scripted:
        done = swap(settings, traces, scripted)
    assert done.exit_code == 0, done.output
    assert SECRET not in done.output + caplog.text


def test_a_swap_of_too_few_is_a_count(settings: Path, traces: Traces, router: Any) -> None:
    traces.path.write_text("".join(traces.path.read_text().splitlines(keepends=True)[:10]))
    settings.write_text(settings.read_text() + "\n[privacy]\nk = 11\n")
    done = swap(settings, traces, router)
    assert done.exit_code == 0
    assert done.output == (
        "10 of 10 traces compared, language_variety exchanged\n"
        "fewer than 11 comparisons: nothing more is shown\n"
    )


def test_a_swap_that_a_request_does_not_name_is_told(
    settings: Path, traces: Traces, router: Any
) -> None:
    done = run(settings, traces.path, "--target", router.url, *FAST, "--swap", "channel=chat:email")
    assert "in 60 of them the request does not contain channel" in done.output


def test_a_mistyped_value_is_not_sent(settings: Path, traces: Traces, router: Any) -> None:
    done = run(
        settings,
        traces.path,
        "--target",
        router.url,
        *FAST,
        "--swap",
        "language_variety=formal:fml",
    )
    assert "--swap: language_variety has a value that is not listed; use formal" in failed(done)
    assert router.router.probes == 0


def test_a_dry_swap_sends_nothing(settings: Path, traces: Traces, router: Any) -> None:
    done = swap(settings, traces, router, "--dry-run")
    assert done.output == "60 traces have the value to swap; nothing was sent\n"
    assert router.router.probes == 0


def test_the_routers_key_is_written_for_its_owner_alone(settings: Path) -> None:
    done = CliRunner().invoke(probe, ["router-key", "router.key", "--settings", str(settings)])
    assert done.exit_code == 0
    written = Path("router.key")
    assert written.read_text() == f"{router_key(KEY.encode())}\n"
    assert written.stat().st_mode & 0o777 == 0o600
    assert written.read_text().strip() not in done.output
    again = CliRunner().invoke(probe, ["router-key", "router.key", "--settings", str(settings)])
    assert "already exists" in failed(again)


def test_the_first_signal_asks_and_the_second_ctrl_c_ends() -> None:
    stop = Stopper()
    assert not stop.wait(0.0)
    stop.ask(signal.SIGTERM, None)
    assert stop.asked
    assert stop.wait(3600)
    stop.ask(signal.SIGTERM, None)
    with pytest.raises(SystemExit) as ended:
        stop.ask(signal.SIGINT, None)
    assert ended.value.code == 128 + signal.SIGINT


def test_the_example_set_is_what_its_script_writes() -> None:
    rows = [json.loads(line) for line in SET.read_text().splitlines()]
    assert rows == [*example("make_set").rows()]
    assert len({row["pair_id"] for row in rows}) == 60
    assert all(row["synthetic"] for row in rows)


def test_the_example_router_agrees_with_the_reviewers_on_the_example_set() -> None:
    score = example("router").score
    for row in example("make_set").rows():
        assert (score(row["request"]) >= 0.7) is row["expected_ready"], row["pair_id"]
        assert abs(score(row["request"]) - 0.8) > 0.01 or not row["expected_ready"]


def test_the_example_settings_declare_the_example_set(settings: Path) -> None:
    (one,) = load(settings, {}).probes.sets
    assert one.digest == digest(read_set(SET))


def test_every_command_in_the_manual_is_there_with_its_options() -> None:
    text = MANUAL.replace("\\\n", " ")
    blocks = re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [shlex.split(line) for block in blocks for line in block.splitlines()]
    shown = [words for words in lines if words[:2] == ["slicewatch", "probe"]]
    assert {words[2] for words in shown} == set(probe.commands)
    for words in shown:
        found = probe.commands[words[2]]
        options = {text for one in found.get_params(click.Context(found)) for text in one.opts}
        assert {word for word in words if word.startswith("--")} <= options


def test_the_command_is_listed_and_has_examples() -> None:
    assert "probe" in cli.list_commands(click.Context(cli))
    for name, one in probe.commands.items():
        assert f"Example: slicewatch probe {name}" in (one.help or "")
