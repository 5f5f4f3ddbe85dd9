"""Typed settings: one TOML file plus ``SLICEWATCH__SECTION__KEY`` environment overrides."""

from monitor.settings.kinds import Duration, Secret, Url, duration_text
from monitor.settings.loading import load
from monitor.settings.model import Settings
from monitor.settings.render import contract_numbers, contract_record, resolved
from monitor.settings.sections import (
    Alerting,
    Dedupe,
    DetectionSettings,
    Evaluate,
    IdKeySettings,
    IngestSettings,
    Operations,
    Pending,
    Privacy,
    ProbeSetSettings,
    ProbesSettings,
    Receiver,
    Retention,
    Security,
    Server,
    StoreSettings,
    StreamSettings,
    Token,
)
from monitor.settings.use_case import (
    AttributeSettings,
    ContractSettings,
    GroupBySettings,
    Harm,
    UseCase,
)
from monitor.settings.warnings import warnings

__all__ = [
    "Alerting",
    "AttributeSettings",
    "ContractSettings",
    "Dedupe",
    "DetectionSettings",
    "Duration",
    "Evaluate",
    "GroupBySettings",
    "Harm",
    "IdKeySettings",
    "IngestSettings",
    "Operations",
    "Pending",
    "Privacy",
    "ProbeSetSettings",
    "ProbesSettings",
    "Receiver",
    "Retention",
    "Secret",
    "Security",
    "Server",
    "Settings",
    "StoreSettings",
    "StreamSettings",
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
