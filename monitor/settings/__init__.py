"""Typed settings: a TOML file plus ``SLICEWATCH__SECTION__KEY`` environment overrides."""

from monitor.settings.as_text import contract_numbers, contract_record, resolved
from monitor.settings.checks import is_loopback
from monitor.settings.kinds import Duration, Secret, Url, duration_text
from monitor.settings.loading import load
from monitor.settings.sections import Alerting, ProbesSettings, Receiver, Server, Settings
from monitor.settings.warnings import warnings

__all__ = [
    "Alerting", "Duration", "ProbesSettings", "Receiver", "Secret", "Server", "Settings", "Url",
    "as_text", "check_use_cases", "checks", "contract_numbers", "contract_record",
    "duration_text", "is_loopback", "kinds", "load", "paths", "problems", "resolved", "sections",
    "warnings",
]  # fmt: skip
