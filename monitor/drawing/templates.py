"""Templates of documents in one HTML file: every text escaped, nothing undefined."""

from __future__ import annotations

from functools import cache
from importlib import resources

import jinja2


@cache
def document_template(package: str, name: str) -> jinja2.Template:
    """Load a Jinja template from a package's folder, once per process, with HTML escaping on."""
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    text = (resources.files(package) / name).read_text(encoding="utf-8")
    return environment.from_string(text)
