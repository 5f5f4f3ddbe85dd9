"""What an attribute of a special category of personal data needs before anything is counted."""

from __future__ import annotations

from collections.abc import Iterator

from monitor.core.time import DAY
from monitor.settings.kinds import Duration, duration_text
from monitor.settings.model import Settings
from monitor.settings.problems import join, problem, shown
from monitor.settings.use_case import AttributeSettings

HOURS_KEPT_AFTER_HORIZON = 8 * DAY
"""How long the store keeps hourly counts beyond the horizon, whatever the settings say."""
_NEEDED = {
    "purpose": "what it may be used for",
    "owner": "who answers for its use",
    "legal_basis": "what allows its use",
    "retention": "how long its counts may be kept",
}


def check_special(settings: Settings) -> None:
    """Raise SettingsError for the first attribute that lacks something; synthetic ones as well."""
    for i, attribute in enumerate(settings.attribute):
        key = join("attribute", i)
        if attribute.special_category:
            _check_documented(attribute, key)
        if attribute.retention is not None:
            _check_retention(attribute.name, attribute.retention, f"{key}.retention", settings)
    _check_readers(settings)


def _check_documented(attribute: AttributeSettings, key: str) -> None:
    for name, meaning in _NEEDED.items():
        if not str(getattr(attribute, name) or "").strip():
            why = f"{shown(attribute.name)} is of a special category"
            raise problem(f"{key}.{name}", f"is missing, but {why}; say {meaning}")


def _check_retention(name: str, longest: Duration, key: str, settings: Settings) -> None:
    for kept_by, kept, fix in _kept(settings):
        if longest < kept:
            few, many = duration_text(longest), duration_text(kept)
            text = f"counts of {shown(name)} may be kept {few} only, {kept_by} keeps them {many}"
            raise problem(key, f"{text}; lower {fix} or raise it")


def _kept(settings: Settings) -> Iterator[tuple[str, Duration, str]]:
    """By which setting, and for how long, what an attribute was counted in is kept."""
    yield "retention.aggregates", settings.retention.aggregates, "retention.aggregates"
    yield "retention.snapshots", settings.retention.snapshots, "retention.snapshots"
    hours = Duration(settings.stream.horizon + HOURS_KEPT_AFTER_HORIZON)
    yield "stream.horizon plus 8d", hours, "stream.horizon"


def _check_readers(settings: Settings) -> None:
    """Counts of test conditions are of nobody; all others are for those who are known."""
    special = [one.name for one in settings.attribute if one.special_category]
    synthetic = all(use_case.synthetic for use_case in settings.use_case)
    if special and not synthetic and not settings.server.knows_readers:
        why = f"{shown(special[0])} is of a special category, so readers must be known everywhere"
        fix = "set token_file, tokens or client_ca_file"
        raise problem("server.token_file", f"is missing; {why}; {fix}")
