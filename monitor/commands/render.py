"""``slicewatch render``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from alerts import rules
from alerts.exposition import metrics_page
from consumers import asyncapi
from consumers.events import schemas
from consumers.producing.avro_schema import SCHEMAS
from monitor.audit.render import as_json
from monitor.commands.options import load_settings
from monitor.commands.starting import uninterrupted
from monitor.judging.output_events import schemas as judging_schemas
from monitor.settings import Settings


def rendered(settings: Settings | None = None) -> dict[str, str]:
    """Return the text of every generated file, by its path below the output folder."""
    used_settings = settings or Settings()
    json_schemas = schemas() | judging_schemas() | {"audit": as_json.schema()}
    documents = {f"{name}.schema.json": schema for name, schema in json_schemas.items()}
    stream = used_settings.stream
    documents["asyncapi.json"] = asyncapi.document(stream.decisions_topic, stream.labels_topic)
    files = {
        f"schemas/{name}": json.dumps(schema, indent=2, sort_keys=True) + "\n"
        for name, schema in documents.items()
    }
    for name, avro in SCHEMAS.items():
        files[f"schemas/{name}.avsc"] = json.dumps(avro, indent=2) + "\n"
    files["docs/metrics.md"] = metrics_page.page()
    return files | rules.rendered(used_settings)


@click.command("render")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("deploy"),
    show_default=True,
    help="Folder to write into.",
)
@click.option(
    "-s",
    "--settings",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Settings whose [alerting], [links] and use cases are used; without it, the defaults.",
)
def command(out: Path, settings: Path | None) -> None:
    """Write the JSON Schemas, Prometheus rules and configuration, Alertmanager files and runbooks.

    It also writes the Avro schemas and the AsyncAPI document of the events, the Grafana dashboards
    with their provisioning files, and the reference page of all metrics.

    It needs no secret and reads none: files of keys and tokens may be missing where it runs.

    Example: slicewatch render --settings slicewatch.toml --out deploy
    """
    used_settings = load_settings(settings, with_secrets=False) if settings else Settings()
    for name, text in rendered(used_settings).items():
        target = out / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with uninterrupted():
            target.write_text(text, encoding="utf-8")
        click.echo(f"wrote {target}")
    for name, receiver in used_settings.alerting.receivers.items():
        if not receiver.notifies:
            click.echo(f"note: alerting.{name} has no receiver: Alertmanager notifies nobody")
    for path in rules.needed_files(used_settings):
        click.echo(f"note: prometheus.yml names {path}: put it there, readable by Prometheus alone")
