"""``slicewatch judge``: findings of bias in sampled model outputs."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from alerts.http import HealthChecks, HttpConfig, metrics_server
from alerts.http.server import HttpServer
from consumers.sources.kafka_preflight import Need
from monitor import composition, logs
from monitor.commands.options import load_settings, settings_option
from monitor.commands.starting import StopSignal, leave
from monitor.core.time import SECOND
from monitor.errors import SettingsError, SlicewatchError
from monitor.judging.categories import CATEGORIES
from monitor.judging.judge_metrics import JudgeMetrics
from monitor.judging.judge_protocol import Endpoint
from monitor.judging.judgements import Rules
from monitor.judging.kafka_stream import JudgeTopics, KafkaStream
from monitor.judging.prompt import Prompt
from monitor.judging.request_budget import RequestBudget, RequestLimits
from monitor.judging.worker import JudgingTerms, Worker
from monitor.settings import Settings
from monitor.settings.sections import JudgeSettings

if TYPE_CHECKING:
    from monitor.judging.openai_judge import OpenAIJudge

log = logging.getLogger("slicewatch.judge")
BUDGET_FILE = "judge-budget.json"
"""Name of the budget file next to the settings file, unless the settings name another."""
_LOOK_SECONDS = 0.2
_REPORT_SECONDS = 60.0
_WAIT_SECONDS = 5.0
"""Pause after a question had no answer in all tries, whose own pauses are as long as a minute."""


@click.command("judge")
@settings_option
@click.option("--show-prompt", is_flag=True, help="Print what the judge is told, and end.")
@click.pass_obj
def command(signals: StopSignal | None, path: Path, *, show_prompt: bool) -> None:
    """Ask a language model about sampled model outputs, and write its findings to a topic.

    Reads judge.outputs_topic, asks the endpoint of judge.url about each output, and writes a
    judgement to judge.judgements_topic: findings with category, kind, passage and confidence, and a
    score from 0 to 100 by the rule of the settings. An output that the judge gives no usable answer
    about has no score. A finding is a signal for people to look at, never a verdict on a model.

    While the endpoint answers nobody, outputs wait: /readyz and /metrics of judge.port say so.

    Ends on SIGTERM or Ctrl-C with exit code 0; 2: the settings, a broker or the endpoint refuse.

    Example: slicewatch judge --settings slicewatch.toml
    """
    settings = load_settings(path, with_secrets=not show_prompt)
    prompt = prompt_of(settings.judge)
    if show_prompt:
        click.echo(prompt.instructions, nl=False)
        return
    endpoint = _endpoint(settings.judge)
    logs.configure()
    signals = signals or StopSignal()
    signals.listen()
    stop = threading.Event()
    budget = _budget(settings.judge, path, stop)
    judge = _judge(endpoint, prompt, budget, stop)
    stream = signals.unless_asked(lambda: _stream(settings))
    if stream is None:
        log.info("stopped before it had started")
        leave()
    with closing(stream), ExitStack() as port:
        plan = JudgingTerms(
            rules=rules_of(settings.judge),
            concurrency=settings.judge.concurrency,
            audit_p=settings.judge.audit_p if settings.judge.decisions_topic else None,
        )
        worker = Worker(stream, judge, prompt, plan, stop)
        server = _server(settings.judge, JudgeMetrics(worker, judge.use))
        server.start()
        port.callback(server.stop)
        threading.Thread(target=_await_stop, args=(signals, worker, budget), daemon=True).start()
        log.info("judging", extra={"model": judge.name, "prompt": prompt.digest})
        worker.run(lambda: _wait(worker, budget))
        _report(worker, budget)


def prompt_of(judge: JudgeSettings) -> Prompt:
    """Return the judge's Prompt with described categories; refuse an unknown category.

    Raises:
        SettingsError: a category does not exist.
    """
    for i, category in enumerate(judge.categories):
        if category.name not in CATEGORIES:
            names = f"known are {', '.join(CATEGORIES)}"
            raise SettingsError(f"judge.categories[{i}].name is no category; {names}")
    return Prompt({c.name: c.description for c in judge.categories if c.description is not None})


def rules_of(judge: JudgeSettings) -> Rules:
    """Return the Rules that turn the judge's findings into flags."""
    return Rules(
        threshold=judge.threshold,
        block=judge.block,
        penalty=judge.penalty,
        penalties={c.name: c.penalty for c in judge.categories if c.penalty is not None},
        min_confidence=judge.min_confidence,
        longest=judge.longest_piece,
    )


def _endpoint(judge: JudgeSettings) -> Endpoint:
    if judge.url is None or judge.model is None:
        missing = "url" if judge.url is None else "model"
        raise SettingsError(f"judge.{missing} is missing; name the endpoint and the model there")
    key = judge.api_key.reveal() if judge.api_key else ""
    return Endpoint(
        judge.url, judge.model, key, judge.timeout / SECOND, judge.tries, judge.longest_answer
    )


def _server(judge: JudgeSettings, metrics: JudgeMetrics) -> HttpServer:
    config = HttpConfig(host=judge.host, port=judge.port, slices=False, section="judge")
    health = HealthChecks(live=lambda: True, ready=metrics.ready, started=lambda: True)
    return metrics_server(config, metrics.body, health)


def _judge(
    endpoint: Endpoint, prompt: Prompt, budget: RequestBudget, stop: threading.Event
) -> OpenAIJudge:
    try:
        from monitor.judging.openai_judge import OpenAIJudge  # noqa: PLC0415 - optional
    except ImportError:
        fix = 'install it with pip install "slicewatch[judge]"'
        raise SlicewatchError(f"slicewatch judge needs the openai package; {fix}") from None
    return OpenAIJudge(endpoint, prompt.categories, budget, stop.wait)


def _budget(judge: JudgeSettings, settings_file: Path, stop: threading.Event) -> RequestBudget:
    limits = RequestLimits(judge.requests_per_minute, judge.requests_per_day, judge.tokens_per_day)
    default_file = settings_file.absolute().parent / BUDGET_FILE
    budget = RequestBudget(Path(judge.budget_file or default_file), limits, sleep=stop.wait)
    requests, tokens = budget.spent  # a file that cannot be read is told before anything is asked
    log.info("spent today", extra={"requests": requests, "tokens": tokens})
    return budget


def _stream(settings: Settings) -> KafkaStream:
    judge = settings.judge
    topics = JudgeTopics(
        outputs=judge.outputs_topic,
        judgements=judge.judgements_topic,
        decisions=judge.decisions_topic,
        group=judge.group_id,
        session_timeout=settings.stream.session_timeout / SECOND,
    )
    connection = composition.kafka_connection(settings)
    connection.check_access(Need((judge.outputs_topic,), judge.group_id))
    return KafkaStream(connection, topics)


def _await_stop(signals: StopSignal, worker: Worker, budget: RequestBudget) -> None:
    """Report once a minute until a stop signal, then stop the worker; runs on its own thread."""
    next_report = time.monotonic() + _REPORT_SECONDS
    while not signals.asked:
        time.sleep(_LOOK_SECONDS)
        if time.monotonic() >= next_report:
            next_report += _REPORT_SECONDS
            _report(worker, budget)
    worker.stop.set()


def _report(worker: Worker, budget: RequestBudget) -> None:
    requests, tokens = budget.spent
    counts = worker.counts
    log.info(
        "judged",
        extra={
            "judged": counts["judged"],
            "flagged": counts["flagged"],
            "findings": counts["findings"],
            "failed": counts["failed"],
            "unreadable": counts["unreadable"],
            "tombstones": counts["tombstones"],
            "requests": requests,
            "tokens": tokens,
        },
    )


def _wait(worker: Worker, budget: RequestBudget) -> None:
    """Wait a while, and until there is budget, or until the worker is to end."""
    log.warning("outputs wait in their topic", extra={"why": worker.waits_for})
    worker.stop.wait(_WAIT_SECONDS)
    while budget.exhausted and not worker.stop.wait(_LOOK_SECONDS):
        pass
