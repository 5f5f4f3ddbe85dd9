"""Canonical texts and their content ids: atoms, versions, slices.

Ids are content, never allocated: every worker computes the same id for the same text, so
dictionary rows can be inserted twice without harm.

Example:
    >>> atom_text({"channel": "chat", "language_variety": "formal"})
    'channel=chat,language_variety=formal'
    >>> parse_atom("channel=chat,language_variety=formal")
    {'channel': 'chat', 'language_variety': 'formal'}
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

OTHER = "__other__"
"""Stands for every value outside the allow-list, and for pooled rare values."""
MISSING = "__missing__"
"""Stands for an attribute the decision did not carry."""


def content_id(text: str) -> int:
    """63-bit BLAKE2b of a canonical text, as a non-negative integer."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def atom_text(values: Mapping[str, str]) -> str:
    """The canonical text of an atom: ``name=value`` pairs, names sorted."""
    return ",".join(f"{name}={values[name]}" for name in sorted(values))


def parse_atom(text: str) -> dict[str, str]:
    """The attribute values of an atom; the empty text is the atom without attributes."""
    return dict(pair.split("=", 1) for pair in text.split(",")) if text else {}
