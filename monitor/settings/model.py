"""The whole settings file as one frozen value, and what the engine makes of it."""

from __future__ import annotations

from msgspec import field

from monitor.core.contract import Contract
from monitor.core.counts.coding import Coding
from monitor.settings.sections import (
    Alerting,
    Dedupe,
    DetectionSettings,
    Evaluate,
    IngestSettings,
    Pending,
    Privacy,
    ProbesSettings,
    Retention,
    Server,
    SettingsSection,
    StoreSettings,
    StreamSettings,
)
from monitor.settings.use_case import AttributeSettings, UseCase


class Settings(SettingsSection, frozen=True, kw_only=True):
    """All settings that slicewatch starts with; made by :func:`monitor.settings.load`."""

    stream: StreamSettings = field(default_factory=StreamSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    dedupe: Dedupe = field(default_factory=Dedupe)
    pending: Pending = field(default_factory=Pending)
    ingest: IngestSettings = field(default_factory=IngestSettings)
    evaluate: Evaluate = field(default_factory=Evaluate)
    detection: DetectionSettings = field(default_factory=DetectionSettings)
    privacy: Privacy = field(default_factory=Privacy)
    retention: Retention = field(default_factory=Retention)
    server: Server = field(default_factory=Server)
    alerting: Alerting = field(default_factory=Alerting)
    probes: ProbesSettings = field(default_factory=ProbesSettings)
    attribute: tuple[AttributeSettings, ...] = ()
    use_case: tuple[UseCase, ...] = ()

    @property
    def coding(self) -> Coding:
        """Coding of decisions into cells; attributes sorted by name."""
        attributes = sorted((a.to_core() for a in self.attribute), key=lambda a: a.name)
        return Coding(tuple(attributes), self.stream.score_bands, self.stream.audit_rates)

    @property
    def contracts(self) -> tuple[Contract, ...]:
        """One contract a use case, in the order of the file."""
        return tuple(use_case.to_core() for use_case in self.use_case)
