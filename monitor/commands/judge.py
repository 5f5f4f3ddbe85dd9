"""``slicewatch judge``: findings of bias in sampled model outputs."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from monitor import logs
from monitor.commands.options import load_settings, settings_option
from monitor.commands.starting import StopSignal, leave
from monitor.core.time import SECOND
from monitor.errors import SettingsError, SlicewatchError, SourceError
from monitor.judging.categories import CATEGORIES
from monitor.judging.judge_metrics import JudgeMetrics
from monitor.judging.judge_protocol import Endpoint
from monitor.judging.printed_outputs import PrintedOutputs, one_output
from monitor.judging.prompt import Prompt
from monitor.judging.request_budget import RequestBudget
from monitor.judging.worker import JudgingTerms, Worker
from monitor.settings import Settings
from monitor.settings.kinds import host_of, port_of
from monitor.settings.sections import JudgeSettings

if TYPE_CHECKING:
    from alerts.http import HttpServer
    from monitor.judging.kafka_stream import KafkaStream
    from monitor.judging.openai_judge import OpenAIJudge

log = logging.getLogger("slicewatch.judge")
BUDGET_FILE = "judge-budget.json"
"""Budget file in the working directory: where units and images keep what they write."""
_LOOK_SECONDS = 0.2
_WAIT_SECONDS = 5.0
"""Pause after a question had no answer in all tries, whose own pauses are as long as a minute."""


@click.command("judge")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True), required=False)
@settings_option
@click.option("--show-prompt", is_flag=True, help="Print what the judge is told, and end.")
@click.pass_obj
def command(
    signals: StopSignal | None, path: Path, *, file: Path | None, show_prompt: bool
) -> None:
    """Ask a language model about sampled model outputs, and write its findings to a topic.

    Reads judge.outputs_topic, asks the endpoint of judge.url about each output, and writes a
    judgement to judge.judgements_topic: findings with category, kind, passage and confidence, and a
    score from 0 to 100 by the rule of the settings. An output that the judge gives no usable answer
    about has no score. A finding is a signal for people to look at, never a verdict on a model.

    While endpoint or broker answer nobody, outputs wait, and /readyz and /metrics of judge.listen
    say so.

    Ends on SIGTERM or Ctrl-C with exit code 0; 2: the settings, a broker or the endpoint refuse.

    With FILE (JSON lines as on the topic; - for one text on standard input) no Kafka is used: the
    judgements are printed, and the verdicts of each slice are on standard error. Exit code 0: no
    output is flagged; 1: one is, or a slice is not measured; 2: as above, or FILE has no output.

    Example: slicewatch judge --settings slicewatch.toml
    """
    settings = load_settings(path, with_secrets=not show_prompt, with_use_case=False)
    prompt = prompt_of(settings.judge)
    if show_prompt:
        click.echo(prompt.instructions, nl=False)
        return
    endpoint = _endpoint(settings.judge)
    logs.configure()
    signals = signals or StopSignal()
    signals.listen()
    stop = threading.Event()
    budget = _budget(settings.judge)
    judge = _judge(endpoint, prompt, budget, stop)
    audit_p = settings.judge.audit_p if settings.judge.decisions_topic else None
    plan = JudgingTerms(audit_p=audit_p)
    if file is not None:
        outputs = PrintedOutputs(_messages(file), stop, click.echo)
        _judge_file(Worker(outputs, judge, prompt, plan, stop), outputs, signals)
        return
    stream = signals.unless_asked(lambda: _stream(settings))
    if stream is None:
        log.info("stopped before it had started")
        leave()
    with closing(stream), ExitStack() as port:
        worker = Worker(stream, judge, prompt, plan, stop)
        server = _server(settings.judge, JudgeMetrics(worker, judge.use))
        server.start()
        port.callback(server.stop)
        watch = (signals, worker, stream.check_access)
        threading.Thread(target=_await_stop, args=watch, daemon=True).start()
        log.info(
            "judging",
            extra={"model": judge.name, "prompt": prompt.digest, "requests_today": budget.spent},
        )
        worker.run(lambda: _wait(worker, budget))


def _messages(file: Path) -> list[bytes]:
    """Return the outputs of a file of JSON lines, or the one text of standard input.

    Raises:
        SlicewatchError: there is none, or it cannot be read.
    """
    try:
        if str(file) == "-":
            text = sys.stdin.buffer.read().decode()
            if not text.strip():
                raise SlicewatchError("standard input is empty; write one text to it")
            return [one_output(text)]
        lines = [line for line in file.read_bytes().splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise SlicewatchError("standard input is no UTF-8 text; convert it first") from None
    except OSError as error:
        raise SlicewatchError(f"{file}: cannot be read: {error.strerror}") from None
    if not lines:
        raise SlicewatchError(f"{file}: no outputs; write one a line, as on judge.outputs_topic")
    return lines


def _judge_file(worker: Worker, outputs: PrintedOutputs, signals: StopSignal) -> None:
    """Judge outputs without Kafka, print the summary, and end with the exit code of the verdict."""

    def give_up() -> None:
        raise SlicewatchError(f"{worker.waits_for}; then judge the file again")

    watch = (signals, worker, lambda: None)
    threading.Thread(target=_await_stop, args=watch, daemon=True).start()
    worker.run(give_up)
    for line in outputs.summary():
        click.echo(line, err=True)
    sys.exit(0 if outputs.passes and not signals.asked else 1)


def prompt_of(judge: JudgeSettings) -> Prompt:
    """Return the judge's Prompt with the categories of the settings.

    Raises:
        SettingsError: a category of the site's own has no description, or all are left out.
    """
    own = {category.name: category for category in judge.categories}
    for i, category in enumerate(judge.categories):
        if category.name not in CATEGORIES and category.description is None:
            place = f"judge.categories[{i}].description is missing; say what belongs to"
            raise SettingsError(f"{place} {category.name}, or use one of {', '.join(CATEGORIES)}")
    left_out = frozenset(name for name, c in own.items() if c.description == "")
    if left_out >= CATEGORIES.keys() | own.keys():
        raise SettingsError("judge.categories leave nothing to judge; give one a description")
    return Prompt({name: c.description for name, c in own.items() if c.description}, left_out)


def _endpoint(judge: JudgeSettings) -> Endpoint:
    if judge.url is None or judge.model is None:
        missing = "url" if judge.url is None else "model"
        raise SettingsError(f"judge.{missing} is missing; name the endpoint and the model there")
    key = judge.api_key.reveal() if judge.api_key else ""
    return Endpoint(judge.url, judge.model, key)


def _server(judge: JudgeSettings, metrics: JudgeMetrics) -> HttpServer:
    from alerts.http import HealthChecks, HttpConfig, metrics_server

    config = HttpConfig(
        host=host_of(judge.listen), port=port_of(judge.listen), slices=False, section="judge"
    )
    health = HealthChecks(live=lambda: True, ready=metrics.ready, started=lambda: True)
    return metrics_server(config, metrics.body, health)


def _judge(
    endpoint: Endpoint, prompt: Prompt, budget: RequestBudget, stop: threading.Event
) -> OpenAIJudge:
    try:
        from monitor.judging.openai_judge import OpenAIJudge
    except ImportError:
        fix = 'install it with pip install "slicewatch[judge]"'
        raise SlicewatchError(f"slicewatch judge needs the openai package; {fix}") from None
    return OpenAIJudge(endpoint, prompt.categories, budget, stop.wait)


def _budget(judge: JudgeSettings) -> RequestBudget:
    return RequestBudget(Path(BUDGET_FILE).absolute(), judge.requests_per_day)


def _stream(settings: Settings) -> KafkaStream:
    from monitor.composition.brokers import kafka_connection
    from monitor.judging.kafka_stream import JudgeTopics, KafkaStream

    judge = settings.judge
    topics = JudgeTopics(
        outputs=judge.outputs_topic,
        judgements=judge.judgements_topic,
        decisions=judge.decisions_topic,
        group=f"{settings.stream.group_id}-judge",
        session_timeout=settings.stream.session_timeout / SECOND,
    )
    return KafkaStream(kafka_connection(settings), topics)


def _await_stop(signals: StopSignal, worker: Worker, check_broker: Callable[[], None]) -> None:
    """Stop the worker at a stop signal, and look after the broker; runs on its own thread."""
    try:
        while not signals.wait(_WAIT_SECONDS):
            try:
                check_broker()
                worker.broker_fault = ""
            except SourceError as error:
                worker.broker_fault = str(error)
    finally:
        worker.stop.set()


def _wait(worker: Worker, budget: RequestBudget) -> None:
    """Wait a while, and until there is budget, or until the worker is to end."""
    log.warning("outputs wait in their topic", extra={"why": worker.waits_for})
    worker.stop.wait(_WAIT_SECONDS)
    while budget.exhausted and not worker.stop.wait(_LOOK_SECONDS):
        pass
