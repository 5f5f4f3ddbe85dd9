"""Warnings about settings that are valid but weak."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from monitor.detection.flip_test import fewest_flips
from monitor.settings.checks import MIN_SECRET, is_loopback, tokens_by_key
from monitor.settings.sections import (
    AttributeSettings,
    Operations,
    ProbeSetSettings,
    Server,
    Settings,
    SettingsSection,
    StreamSettings,
)


def warnings(settings: Settings) -> list[str]:
    """Return a line for each valid but weak setting; the line names its key."""
    lines = [*_stream(settings.stream), *_server(settings.server)]
    if not settings.privacy.keys:
        lines.append(
            "privacy.id_key: is not set, so ids are hashed with a key that lies in the same store"
        )
    for i, probe_set in enumerate(settings.probes.sets):
        lines.extend(_probe_set(probe_set, f"probes.sets[{i}]"))
    used = _used_attributes(settings)
    for i, attribute in enumerate(settings.attribute):
        lines.extend(_attribute(attribute, f"attribute[{i}]", used, settings))
    for i, use_case in enumerate(settings.use_case):
        if use_case.synthetic:
            conditions = f"these are test conditions, shown exactly with k = {use_case.k}"
            lines.append(f"use_case[{i}].synthetic: {conditions}")
    if missing := list(_missing_descriptions(settings)):
        lines.append(f"not set, though readers of reports look for it: {', '.join(missing)}")
    return lines


def _stream(stream: StreamSettings) -> Iterator[str]:
    if stream.clock == "history":
        yield "stream.clock: is history, so what is consumed never pages"
    if stream.security.protocol == "SASL_PLAINTEXT":
        yield "stream.security.protocol: sends the password over an unencrypted connection"
    registry = stream.schema_registry
    if (registry.username or registry.token) and str(registry.url).startswith("http:"):
        yield "stream.schema_registry.url: sends the login over an unencrypted connection"
    if any(round(edge, 2) != edge for edge in stream.score_bands):
        yield "stream.score_bands: is shown with two decimals, an edge has more"


def _probe_set(probe_set: ProbeSetSettings, key: str) -> Iterator[str]:
    fewest = fewest_flips(len(probe_set.variants) - 1)
    if probe_set.pairs < fewest:
        yield (
            f"{key}.pairs: is {probe_set.pairs}, and a page needs {fewest} pairs that flip one"
            " way, so this set can only make tickets"
        )


def _server(server: Server) -> Iterator[str]:
    if server.insecure and not is_loopback(server.host):
        yield "server.insecure: anyone who reaches the port can read the metrics"
    for key, token in tokens_by_key(server):
        if len(token.reveal()) < MIN_SECRET:
            yield f"{key}: is short; use {MIN_SECRET} characters or more"
    yield from _operations(server.operations)


def _operations(operations: Operations) -> Iterator[str]:
    if operations.port is None or is_loopback(operations.host):
        return
    yield (
        "server.operations.listen: anyone who reaches the port can read the service's own"
        " metrics; none of them is about a slice"
    )


def _used_attributes(settings: Settings) -> set[str]:
    used = {name for use_case in settings.use_case for name in use_case.where}
    for use_case in settings.use_case:
        used.update(name for group_by in use_case.group_bys for name in group_by.attributes)
    return used


def _attribute(
    attribute: AttributeSettings, key: str, used: set[str], settings: Settings
) -> Iterator[str]:
    if attribute.name not in used:
        yield f"{key}: is in no group-by and no where; it only multiplies the cells"
    if attribute.version_of is not None or all(u.synthetic for u in settings.use_case):
        return
    if attribute.source == "inferred" and not attribute.special_category:
        yield (
            f"{key}.source: is inferred; if it stands in for a special category of personal data,"
            " set special_category = true"
        )


_OF_ATTRIBUTE = ("definition", "purpose", "owner")
_OF_USE_CASE = ("context",)


def _missing_descriptions(settings: Settings) -> Iterator[str]:
    """Yield the keys of descriptions that are not set; test conditions need none."""
    use_cases = [(i, case) for i, case in enumerate(settings.use_case) if not case.synthetic]
    for i, attribute in enumerate(settings.attribute if use_cases else ()):
        if attribute.version_of is None:
            yield from _unset(attribute, f"attribute[{i}]", _OF_ATTRIBUTE)
    for i, use_case in use_cases:
        yield from _unset(use_case, f"use_case[{i}]", _OF_USE_CASE)


def _unset(section: SettingsSection, key: str, names: Sequence[str]) -> Iterator[str]:
    return (f"{key}.{name}" for name in names if not getattr(section, name))
