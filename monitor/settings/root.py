"""The root of the settings: attributes, use cases with their contracts, and all sections."""

from __future__ import annotations

import enum
from datetime import UTC, date, datetime, time
from fractions import Fraction
from typing import Literal

from msgspec import field

from monitor.core.contract import COMPLEMENT, Contract, GroupBy, Limits, PrimaryMetric
from monitor.core.counts.cells import atom_text, parse_atom
from monitor.core.counts.coding import Attribute, Coding
from monitor.core.time import DAY, WINDOWS, to_micros
from monitor.settings.kinds import AttributeName, Count, Duration, Limit, Name, Term, Text
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


class Harm(enum.StrEnum):
    """Harm to people when a contract is broken."""

    ALLOCATIVE = "allocative"  # something is withheld or comes late
    REPRESENTATIONAL = "representational"  # someone is demeaned, stereotyped or erased


class AttributeSettings(SettingsSection, frozen=True, kw_only=True):
    """An allow-listed attribute, where its value comes from and who approved its use."""

    name: AttributeName
    values: tuple[Name, ...]
    definition: str = ""
    source: Literal["declared", "inferred", "device", "version"] = "declared"
    version_of: Literal["judge", "rubric", "policy", "router"] | None = None
    known_error: str = ""
    purpose: str = ""
    approved_by: str = ""
    approved_at: date | None = None
    special_category: bool = False
    owner: str = ""
    legal_basis: str = ""
    retention: Term | None = None

    def to_core(self) -> Attribute:
        """The attribute as decisions are coded with it."""
        return Attribute(self.name, self.values, self.version_of)


class GroupBySettings(SettingsSection, frozen=True, kw_only=True):
    """Attributes whose slices are compared, and the reference they are compared with."""

    attributes: tuple[AttributeName, ...]
    reference: Text = COMPLEMENT

    def to_core(self) -> GroupBy:
        """The group-by with its names sorted, in the attributes and in the reference."""
        reference = self.reference
        if reference != COMPLEMENT:
            reference = atom_text(parse_atom(reference))
        return GroupBy(tuple(sorted(self.attributes)), reference)


class ContractSettings(SettingsSection, frozen=True, kw_only=True):
    """The limits of a use case; inclusive, exact, in rate units (0.10 is ten points).

    The default numbers 0.10 / 0.10 / 50 / 30 are product decisions that someone has to own, not
    definitions of fairness: a gap below them can still be wrong, one above them can be right.
    """

    version: Name
    effective: date
    reason: Text
    primary: PrimaryMetric = PrimaryMetric.EQUAL_OPPORTUNITY
    max_tpr_gap: Limit = Fraction("0.10")
    max_fpr_gap: Limit = Fraction("0.10")
    max_blocked_gap: Limit | None = None
    min_tpr: Limit | None = None
    max_fpr: Limit | None = None
    min_positives: Count = 50
    min_negatives: Count = 30
    window: str = "7d"
    accepted_trade_off: str = ""
    rationale: str = ""

    @property
    def limits(self) -> Limits:
        """The numbers as the engine compares them."""
        return Limits(
            max_tpr_gap=self.max_tpr_gap,
            max_fpr_gap=self.max_fpr_gap,
            max_blocked_gap=self.max_blocked_gap,
            min_tpr=self.min_tpr,
            max_fpr=self.max_fpr,
            min_positives=self.min_positives,
            min_negatives=self.min_negatives,
        )


class UseCase(SettingsSection, frozen=True, kw_only=True):
    """One use of the router: who answers for it, which decisions it means, its contract.

    After loading, ``k`` is never None: ``privacy.k`` has been filled in.
    """

    name: Name
    owner: Text
    contract: ContractSettings
    context: str = ""
    harm: Harm = Harm.ALLOCATIVE
    developer: str = ""
    stakeholders: tuple[Text, ...] = ()
    review_cadence: Term = Duration(90 * DAY)
    page_at_night: bool = True
    synthetic: bool = False
    k: Count | None = None
    where: dict[str, str] = field(default_factory=dict)
    windows: tuple[str, ...] = tuple(WINDOWS)
    group_bys: tuple[GroupBySettings, ...]

    def to_core(self) -> Contract:
        """The contract as the engine needs it. The use case must be loaded (``k`` is set)."""
        assert self.k is not None, "load() fills k in"  # noqa: S101 - an invariant of load
        effective = datetime.combine(self.contract.effective, time(), UTC)
        return Contract(
            name=self.name,
            version=self.contract.version,
            owner=self.owner,
            primary=self.contract.primary,
            limits=self.contract.limits,
            window=self.contract.window,
            group_bys=tuple(group_by.to_core() for group_by in self.group_bys),
            synthetic=self.synthetic,
            k=self.k,
            where=tuple(sorted(self.where.items())),
            effective=to_micros(effective),
            review_due=to_micros(effective) + self.review_cadence,
        )


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
