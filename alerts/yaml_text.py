"""YAML by a library, laid out for people: no quote in a text can break it."""

from __future__ import annotations

from typing import Any

import yaml

_HEADER = "# Made by: slicewatch render. Do not edit: change the settings, and render again.\n"


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks, and no anchors for what comes twice."""

    def ignore_aliases(self, data: Any) -> bool:
        """Never refer back: people search for what they read."""
        del data
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(document: Any) -> str:
    """A document in the order of its keys, with a line that says where it comes from."""
    body = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)
    return _HEADER + str(body)
