"""Typed settings: one TOML file plus ``SLICEWATCH__SECTION__KEY`` environment overrides."""

from monitor.settings.advice import warnings
from monitor.settings.kinds import Duration, Secret, Url, duration_text
from monitor.settings.loading import load
from monitor.settings.model import Settings
from monitor.settings.render import contract_numbers, contract_record, resolved
from monitor.settings.sections import (
    Alerting,
    Dedupe,
    Detection,
    Evaluate,
    IdKeySettings,
    Ingest,
    Operations,
    Pending,
    Privacy,
    Probes,
    ProbeSetSettings,
    Receiver,
    Retention,
    Security,
    Server,
    Store,
    Stream,
    Token,
)
from monitor.settings.use_case import (
    AttributeSettings,
    ContractSettings,
    GroupBySettings,
    Harm,
    UseCase,
)

__all__ = [
    "Alerting",
    "AttributeSettings",
    "ContractSettings",
    "Dedupe",
    "Detection",
    "Duration",
    "Evaluate",
    "GroupBySettings",
    "Harm",
    "IdKeySettings",
    "Ingest",
    "Operations",
    "Pending",
    "Privacy",
    "ProbeSetSettings",
    "Probes",
    "Receiver",
    "Retention",
    "Secret",
    "Security",
    "Server",
    "Settings",
    "Store",
    "Stream",
    "Token",
    "Url",
    "UseCase",
    "contract_numbers",
    "contract_record",
    "duration_text",
    "load",
    "resolved",
    "warnings",
]
