"""``slicewatch audit``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import RenderableType

from monitor.audit.audit_report import AuditReport
from monitor.audit.audit_run import audit, use_case_of
from monitor.audit.dataset import DatasetReport, representation
from monitor.audit.dataset_counts import read_counts
from monitor.audit.inputs import ProbeSet, digest
from monitor.audit.render import as_json, junit
from monitor.audit.render.card_document import card_document
from monitor.audit.render.document import document
from monitor.audit.set_files import promote, read_results, read_set, write_set
from monitor.audit.sign_off import read_sign_off
from monitor.clock import SystemClock
from monitor.commands.audit_scorecard import CARD_FORMATS, scored
from monitor.commands.options import load_settings, settings_option
from monitor.commands.starting import uninterrupted
from monitor.core.publish.words import counted
from monitor.core.time import to_datetime
from monitor.errors import AuditError
from monitor.present import html, markdown, terminal
from monitor.settings import Settings

_PATH = click.Path(path_type=Path)
_STDOUT = Path("-")
_KEPT = (".jsonl", ".csv", ".gz", ".toml")
"""Suffixes of sets, results, settings and sign-offs, which no report may overwrite."""
_Command = Callable[..., Any]
_FORMATS: Mapping[str, Callable[[AuditReport], str]] = {
    "json": as_json.render,
    "html": lambda report: html.page(document(report)),
    "markdown": lambda report: markdown.short(document(report)),
    "junit": junit.render,
}


def _file(flag: str, metavar: str, text: str, *names: str) -> Callable[[_Command], _Command]:
    """Return a click decorator for an option that takes a path."""
    return click.option(flag, *names, metavar=metavar, type=_PATH, help=text)


def _report_options(command: _Command) -> _Command:
    """Return a command with ``--junit``, ``--markdown``, ``--html`` and ``--json`` added."""
    for name, what in (
        ("junit", "JUnit XML, for a build server"),
        ("markdown", "Markdown, for a pull request"),
        ("html", "one HTML file"),
        ("json", "JSON, for programs"),
    ):
        text = f"Write the report as {what}."
        command = _file(f"--{name}", "FILE", text)(command)
    return command


@click.command("audit")
@click.argument("pairs", metavar="PAIRS", type=_PATH, required=False)
@settings_option
@click.option("--use-case", metavar="NAME", help="Whose contract; needed if there are several.")
@_file(
    "--candidate",
    "OTHER",
    "Another router's results on the same set; the decision is then about it.",
)
@_file(
    "--dataset",
    "COUNTS",
    "CSV that counts the training set's rows by slice and label, to report its balance.",
    "counts",
)
@_file("--sign-off", "FILE", "Who signs for the requirements.")
@_report_options
@_file("--promote", "NEW", "Write the pairs that flip as a new set.", "promoted")
@click.option("--set-version", metavar="V", help="With --promote: version of the new set.")
@_file("--from-set", "SET", "With --promote: the set that contains the requests.")
@_file("--scorecard", "CARD", "Instead of PAIRS: score the dimensions of a scorecard file (TOML).")
@_file(
    "--previous",
    "JSON",
    "With --scorecard: the last scorecard; what has drifted since then becomes a ticket.",
)
@_file(
    "--baseline",
    "JSON",
    "With --scorecard: the scorecard of what is in use; no dimension may be worse.",
)
@_file("--events", "FILE", "With --scorecard: write the scores as events for the labels' topic.")
def command(
    *,
    pairs: Path | None,
    path: Path,
    use_case: str | None,
    candidate: Path | None,
    counts: Path | None,
    sign_off: Path | None,
    promoted: Path | None,
    set_version: str | None,
    from_set: Path | None,
    scorecard: Path | None,
    previous: Path | None,
    baseline: Path | None,
    **reports: Path | None,
) -> None:
    """Compare a router's decisions on matched pairs before its release, or score dimensions.

    PAIRS has one row for each variant of each pair, as JSON lines or CSV (also .gz): what
    reviewers expect, and what the router decided. The report lists the pairs whose variants took
    different routes, then rates by slice, the contract's checks and the release decision. A flip
    is a case to investigate, not a population disparity. FILE may be - for standard output.

    With --scorecard CARD, each bias evaluation of the file is scored beside its own limit:
    refusals, log probabilities, categories, parity, associations of vectors, false positives.

    Exit code 0: approved. 1: blocked. 3: blocked, and of the contract's limits only guardrails
    fail, not the primary metric. 2: pairs are excluded, or a file cannot be used.

    Example: slicewatch audit baseline.jsonl --candidate other.jsonl --html audit.html

    Example: slicewatch audit --scorecard scorecard.toml --previous last_week.json --json card.json
    """
    outputs = {name: target for name, target in reports.items() if target is not None}
    for_pairs = {
        "PAIRS": pairs,
        "--use-case": use_case,
        "--candidate": candidate,
        "--dataset": counts,
        "--sign-off": sign_off,
        "--junit": outputs.get("junit"),
        "--promote": promoted,
        "--set-version": set_version,
        "--from-set": from_set,
    }
    if scorecard is not None:
        _check_alone(for_pairs, "--scorecard")
        _check_outputs(outputs.values(), inputs=(scorecard, previous, baseline))
        _check_writable(*outputs.values())
        card = scored(scorecard, previous=previous, baseline=baseline)
        documents = {name: CARD_FORMATS[name](card) for name in outputs}
        _write_and_print(documents, outputs, terminal.printed(card_document(card)))
        sys.exit(card.exit_code)
    for_cards = {"--previous": previous, "--baseline": baseline, "--events": outputs.get("events")}
    _check_alone(for_cards, "PAIRS")
    if pairs is None:
        raise AuditError("PAIRS or --scorecard CARD is missing; give a file of results on a set")
    _check_outputs(outputs.values(), inputs=(pairs, path, candidate, counts, sign_off, from_set))
    _check_promotion(promoted, set_version, from_set)
    _check_writable(*outputs.values(), *([promoted] if promoted else []))
    settings, today = load_settings(path), to_datetime(SystemClock().now()).date()
    results = read_results(pairs)
    report = audit(
        results,
        settings,
        today=today,
        use_case=use_case,
        candidate=read_results(candidate) if candidate else None,
        sign_off=read_sign_off(sign_off, today) if sign_off else None,
    )
    if counts is not None:
        report = replace(report, training=_training_report(counts, settings, use_case))
    if promoted is not None and set_version is not None and not report.excluded:
        # Before the report is shown: if this fails, no report states another exit code.
        source = _source_set(results.probe_set, from_set)
        _promote(report, source, promoted, set_version)
    documents = {name: _FORMATS[name](report) for name in outputs}
    _write_and_print(documents, outputs, terminal.printed(document(report)))
    if report.excluded:
        count = len(report.excluded)
        who = f"{counted(count, 'pair')} {'is' if count == 1 else 'are'}"
        raise AuditError(f"{who} excluded, so nothing is decided")
    sys.exit(report.exit_code)


def _check_alone(options: Mapping[str, object], main: str) -> None:
    """Raise AuditError if an option is set that an audit by ``main`` does not take."""
    given_options = [name for name, value in options.items() if value is not None]
    if given_options:
        raise AuditError(f"{given_options[0]} is not for an audit by {main}; leave it out")


def _training_report(counts: Path, settings: Settings, name: str | None) -> DatasetReport:
    """Return the report on a training set, guarded with the contract's k like production."""
    contract = use_case_of(settings, name).to_core()
    return representation(read_counts(counts), k=contract.k, synthetic=contract.synthetic)


def _check_outputs(outputs: Iterable[Path], inputs: Iterable[Path | None]) -> None:
    """Raise AuditError if a report would overwrite an input, a kept file or another report."""
    taken: set[Path] = {source.resolve() for source in inputs if source is not None}
    for output in outputs:
        is_kept = output.suffix.lower() in _KEPT and output.exists()
        if output.resolve() in taken or is_kept:
            fault = (
                "is another file of this audit, or a set" if output != _STDOUT else "given twice"
            )
            raise AuditError(f"{output}: {fault}; choose another name for the report")
        taken.add(output.resolve())


def _check_promotion(promoted: Path | None, version: str | None, from_set: Path | None) -> None:
    if (promoted is None) is not (version is None):
        raise AuditError("--promote NEW and --set-version V go together; give both or none")
    if promoted is None and from_set is not None:
        raise AuditError("--from-set is only for --promote; leave it out")


def _check_writable(*targets: Path) -> None:
    """Raise AuditError for a target that cannot be written; write nothing."""
    for target in targets:
        if target == _STDOUT:
            continue
        folder = target.parent
        if target.is_dir():
            raise AuditError(f"{target}: cannot be written: it is a folder; name a file in it")
        if not folder.is_dir():
            raise AuditError(f"{target}: cannot be written: its folder does not exist; make it")
        if not os.access(target if target.exists() else folder, os.W_OK):
            raise AuditError(f"{target}: cannot be written: permission denied")


def _write_and_print(
    documents: Mapping[str, str], outputs: Mapping[str, Path], printed: RenderableType
) -> None:
    """Write the documents to their files, JSON last; print ``printed`` unless one takes stdout.

    A failure on the way ends the command with 2 and leaves no JSON that says otherwise.
    """
    for name, target in sorted(
        outputs.items(), key=lambda output: (output[1] == _STDOUT, output[0] == "json")
    ):
        _write(target, documents[name])
    if _STDOUT not in outputs.values():
        terminal.console().print(printed)


def _write(target: Path, text: str) -> None:
    if target == _STDOUT:
        click.echo(text.encode(), nl=False)  # the bytes of the file, whatever a terminal speaks
        return
    try:
        with uninterrupted():
            target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise AuditError(f"{target}: cannot be written: {error.strerror}") from None


def _source_set(sent: ProbeSet, from_set: Path | None) -> ProbeSet:
    """Return ``sent``, or the set in the file ``from_set``, refused if its digest differs."""
    if from_set is None:
        return sent
    source = read_set(from_set)
    if digest(source) != digest(sent):
        raise AuditError(f"{from_set}: not the set of these results; give the one that was sent")
    return source


def _promote(report: AuditReport, source: ProbeSet, target: Path, version: str) -> None:
    """Write the pairs that flip in either run as a new set, and report that on stderr."""
    runs = filter(None, (report.baseline, report.candidate))
    flips = {flip.pair for run in runs for part in run.parts for flip in part.flips}
    promoted = promote(source, flips, name=source.name, version=version)
    if promoted is None:
        click.echo("nothing to promote: no pair flipped, held-out pairs aside", err=True)
        return
    write_set(target, promoted)
    pairs = counted(len({item.pair for item in promoted.items}), "pair")
    click.echo(
        f"wrote {target}: {pairs}, {promoted.name} {promoted.version}, {digest(promoted)}", err=True
    )
    if any(item.request is None for item in promoted.items):
        click.echo(
            "it has no requests, so it cannot be sent: give the set that was sent, --from-set SET",
            err=True,
        )
