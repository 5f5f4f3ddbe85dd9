"""``slicewatch render``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from consumers.events import schemas


def rendered() -> dict[str, str]:
    """Every generated file: path below the output folder -> text."""
    return {
        f"schemas/{name}.schema.json": json.dumps(schema, indent=2, sort_keys=True) + "\n"
        for name, schema in schemas().items()
    }


@click.command("render")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("deploy"),
    show_default=True,
    help="Folder to write into.",
)
def command(out: Path) -> None:
    """Write the JSON Schemas of the events, for producers to validate against.

    Example: slicewatch render --out deploy
    """
    for name, text in rendered().items():
        target = out / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        click.echo(f"wrote {target}")
