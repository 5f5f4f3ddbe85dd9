"""The whole settings file as one frozen value, and what the engine makes of it."""

from __future__ import annotations

from msgspec import field

from monitor.core.contract import Contract
from monitor.core.counts.coding import Coding
from monitor.settings.sections import (
    Alerting,
    Dedupe,
    Detection,
    Evaluate,
    Ingest,
    Pending,
    Privacy,
    Probes,
    Retention,
    Section,
    Server,
    Store,
    Stream,
)
from monitor.settings.use_case import AttributeSettings, UseCase


class Settings(Section, frozen=True, kw_only=True):
    """Everything slicewatch is told at start-up; made by :func:`monitor.settings.load`."""

    stream: Stream = field(default_factory=Stream)
    store: Store = field(default_factory=Store)
    dedupe: Dedupe = field(default_factory=Dedupe)
    pending: Pending = field(default_factory=Pending)
    ingest: Ingest = field(default_factory=Ingest)
    evaluate: Evaluate = field(default_factory=Evaluate)
    detection: Detection = field(default_factory=Detection)
    privacy: Privacy = field(default_factory=Privacy)
    retention: Retention = field(default_factory=Retention)
    server: Server = field(default_factory=Server)
    alerting: Alerting = field(default_factory=Alerting)
    probes: Probes = field(default_factory=Probes)
    attribute: tuple[AttributeSettings, ...] = ()
    use_case: tuple[UseCase, ...] = ()

    @property
    def coding(self) -> Coding:
        """How decisions become cells; attributes sorted by name."""
        attributes = sorted((a.to_core() for a in self.attribute), key=lambda a: a.name)
        return Coding(tuple(attributes), self.stream.score_bands, self.stream.audit_rates)

    @property
    def contracts(self) -> tuple[Contract, ...]:
        """One contract a use case, in the order of the file."""
        return tuple(use_case.to_core() for use_case in self.use_case)
