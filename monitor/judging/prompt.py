"""Prompt of a judge: a versioned template, filled with the categories in use."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources

import jinja2

from monitor.judging.categories import CATEGORIES, KINDS
from monitor.judging.chunks import Chunk

VERSION = "1"
"""Version of the template; changes with every word of it."""
_TEMPLATE = "prompt.txt.j2"


@dataclass(frozen=True)
class Prompt:
    """Instructions and questions for a judge, built from the template and category descriptions.

    Attributes:
        descriptions: by category, where the settings have other words than the program, or
            categories of their own.
        left_out: categories that the judge is not told of.
    """

    descriptions: Mapping[str, str]
    left_out: frozenset[str] = frozenset()

    @cached_property
    def categories(self) -> dict[str, str]:
        """Return categories as name to description; those in the settings take precedence."""
        descriptions = {name: category.text for name, category in CATEGORIES.items()}
        descriptions |= self.descriptions
        return {n: text for n, text in descriptions.items() if n not in self.left_out}

    @cached_property
    def instructions(self) -> str:
        """Return the judge's system message, rendered from the template once."""
        # Plain text for a model, never for a browser: nothing is to be escaped.
        environment = jinja2.Environment(  # noqa: S701
            undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        text = (resources.files(__package__) / _TEMPLATE).read_text(encoding="utf-8")
        return environment.from_string(text).render(categories=self.categories, kinds=KINDS)

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of the instructions, in hexadecimal."""
        return hashlib.sha256(self.instructions.encode()).hexdigest()

    def question(self, chunk: Chunk, model_input: str | None, context: str | None) -> str:
        """Return the user message: a JSON object with input, context and the chunk as output.

        Args:
            chunk: piece of the output.
            model_input: input of the model; absent where unknown.
            context: text that the model was to answer from; absent where there was none.
        """
        parts = {"input": model_input, "context": context, "output": chunk.text}
        return json.dumps({k: v for k, v in parts.items() if v is not None}, ensure_ascii=False)
