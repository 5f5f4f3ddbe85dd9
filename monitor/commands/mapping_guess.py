"""Guess of ``[mapping.decisions]`` from a sample of a log; what the sample cannot tell is asked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, get_args
from zoneinfo import ZoneInfo

import click
import msgspec

from consumers.event_words import EXPECTED
from consumers.events import ROUNDING, Decision, RouteName
from consumers.field_values import RFC_3339, TimeForm, TimeUnit, number_of, text_of
from monitor.errors import SlicewatchError
from monitor.settings.as_text import toml
from monitor.settings.check_use_cases import MAX_VALUES

Texts = Mapping[str, Counter[str]]
"""Number of rows by text, by place in a message."""
MOST_TEXTS = 1_000
"""Texts of a place that are told apart: enough to see that it identifies rows."""
PERCENT = 100
_MEANINGS = {
    "audit_p": "the probability of asking for its label, 0.001 if there are no labels",
    "label_requested": "true or false, false if there are no labels",
}
_UTC = ZoneInfo("UTC")
_FORMS = [TimeForm(unit, zone=_UTC) for unit in get_args(TimeUnit)]
# Between slashes days and months look alike: such times are asked for.
_FORMS += [TimeForm(format=f"%d.%m.%Y %H:%M{end}", zone=_UTC) for end in (":%S", "")]
_YEARS = range(10**12, 4 * 10**12)
"""Milliseconds of the years 2001 to 2096: no number is one of them in two units."""


def places(content: Any, pointer: str = "") -> Iterator[tuple[str, str]]:
    """Yield JSON pointer and text of each scalar in a message.

    Example:
        >>> list(places({"at": 7, "model": {"name": "j1"}}))
        [('/at', '7'), ('/model/name', 'j1')]
    """
    if isinstance(content, dict | list):
        for name, part in content.items() if isinstance(content, dict) else enumerate(content):
            step = str(name).replace("~", "~0").replace("/", "~1")
            yield from places(part, f"{pointer}/{step}")
    elif (text := text_of(content)) is not None:
        yield pointer, text


class MappingGuess:
    """Mapping of a sample's messages to decisions: places that are plain, and answers.

    Args:
        texts: texts of the sample.

    Attributes:
        section: content of ``[mapping.decisions]``.

    Raises SlicewatchError when something is not plain and nobody answers.
    """

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self.section: dict[str, Any] = {"fields": {}, "values": {}, "constants": {}}
        self._find()
        placed = {*self.section["fields"], "attributes"}
        infos = msgspec.structs.fields(Decision)
        missing = [info.name for info in infos if info.required and info.name not in placed]
        try:
            self._ask(missing)
        except click.Abort:
            raise SlicewatchError(
                f"the sample does not say {', '.join(missing) or 'all'}: answer in a terminal, or"
                " write [mapping] by hand (deploy/docs/producers.md)"
            ) from None

    def attributes(self) -> dict[str, Counter[str]]:
        """Map other places with few texts to attributes; return their texts by attribute."""
        fields, attributes = self.section["fields"], {}
        for at in [at for at in self._texts if at not in fields.values()]:
            name = re.sub(r"[^a-z0-9]+", "_", at.lower()).strip("_")
            most = min(MAX_VALUES, self._texts[at].total() // 2)
            if name[:1].isalpha() and 1 < len(self._texts[at]) <= most:
                fields[f"attributes.{name}"] = at
                attributes[name] = self._texts[at]
        return attributes

    def lines(self) -> Iterator[str]:
        """Yield the lines of the mapping's section, at most seven."""
        yield "[mapping.decisions]  # guessed: check it, and remove what nobody is compared by"
        yield from (f"{name} = {toml(part)}" for name, part in self.section.items() if part)

    def _find(self) -> None:
        """Map the fields that only one place can be, and scores in percent."""
        texts, fields = self._texts, self.section["fields"]
        fields |= {at[1:]: at for at in texts if at[1:] in Decision.__struct_fields__}
        times = [at for at in texts if _forms(texts[at])]
        unique = [at for at in texts if len(texts[at]) == texts[at].total() and at not in times]
        ids = [at for at in unique if at.lower().endswith("id")] or unique
        scores = [at for at in texts if "score" in at.lower() and all(map(_is_score, texts[at]))]
        for name, likely in (("decision_id", ids), ("decided_at", times), ("judge_score", scores)):
            if len(likely) == 1:
                fields.setdefault(name, likely[0])
        if any((number_of(text) or 0) > 1 + ROUNDING for text in self._seen("judge_score")):
            self.section["divide"] = {"judge_score": PERCENT}

    def _seen(self, name: str) -> Counter[str]:
        return self._texts.get(self.section["fields"].get(name, ""), Counter())

    def _ask(self, missing: list[str]) -> None:
        for name in missing:
            meaning = _MEANINGS.get(name, EXPECTED[name])
            answer = click.prompt(f"{name}, {meaning}: its column, or a value for all")
            at = f"/{answer.removeprefix('/')}"
            for_all = at not in self._texts
            self.section["constants" if for_all else "fields"][name] = answer if for_all else at
        routes = get_args(RouteName)
        for text in sorted(self._seen("route").keys() - routes):
            meaning = click.prompt(f"What does {text!r} mean", type=click.Choice(routes))
            self.section["values"][f"route={text}"] = meaning
        times, question = self._seen("decided_at"), "Form of the times, such as %m/%d/%Y %H:%M:%S"
        (form, *_) = _forms(times) or [TimeForm(format=click.prompt(question), zone=_UTC)]
        if form != _FORMS[0]:  # the default
            self.section["times"] = form.format or form.unit
        if not all(_is_time(replace(form, zone=None).read(text)) for text in times):
            self.section["time_zone"] = click.prompt("Time zone, such as UTC")


def _is_score(text: str) -> bool:
    return (number := number_of(text)) is not None and 0 <= number <= PERCENT


def _forms(texts: Counter[str]) -> list[TimeForm]:
    """Return the forms in which all texts are times of this century."""
    return [form for form in _FORMS if all(_is_time(form.read(text)) for text in texts)]


def _is_time(value: object) -> bool:
    return value in _YEARS if isinstance(value, int) else bool(RFC_3339.match(str(value)))
