"""The events on the wire, version 1, as msgspec types.

null and absent mean the same. Fields that are not declared here are dropped unread, so no free text
and no user id can slip in; :mod:`consumers.unknown_fields` counts them by name. The JSON Schemas
in deploy/schemas are rendered from these types.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

MAX_EVENTS_PER_MESSAGE = 10_000
MAX_NESTED_BYTES = 4_096
"""Most bytes of attributes, and of versions, as JSON: no allow-listed set is longer."""
_UNSEEN = r"\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
VERSION_PATTERN = rf"^[^\s_{_UNSEEN}]([^{_UNSEEN}]{{0,126}}[^\s{_UNSEEN}])?$"
"""Printable text as vendors name models; our own names, such as __other__, begin with _."""
ROUNDING = 1e-6
"""Most by which rounding moves a score or probability out of [0, 1]; it is clamped when read."""

EARLIEST_MILLIS, LATEST_MILLIS = 100_000_000_000, 253_402_300_799_999
"""1973 to 9999: seconds or microseconds since 1970 are outside, so they cannot be mistaken."""

Millis = Annotated[
    int, Meta(ge=EARLIEST_MILLIS, le=LATEST_MILLIS, description="Milliseconds since 1970 UTC.")
]
Moment = Annotated[datetime, Meta(tz=True, description="RFC 3339 with a zone.")] | Millis
WholeNumber = Annotated[
    int,
    Meta(ge=-(2**63), le=2**63 - 1, description="The same id as its digits; larger ones as text."),
]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Identifier = Name | WholeNumber
HashedId = Annotated[str, Meta(min_length=1, max_length=128)]
HashedIdentifier = HashedId | WholeNumber
VersionName = Annotated[str, Meta(pattern=VERSION_PATTERN)]
UnitInterval = Annotated[
    float, Meta(ge=-ROUNDING, le=1 + ROUNDING, description="From 0 to 1, but for rounding.")
]
Probability = Annotated[
    float, Meta(gt=0, le=1 + ROUNDING, description="Above 0 and up to 1, but for rounding.")
]
AttributeValue = Annotated[str, Meta(max_length=200)] | int | float | bool | None
DimensionName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$")]
SetName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:+/-]{0,63}$")]
Score = Annotated[float, Meta(ge=-1000, le=1000)]
RouteName = Literal["auto_serve", "human_review", "blocked_by_evidence"]
Traffic = Literal["production", "probe"]


class Versions(Struct, frozen=True):
    """Versions of the parts that made the decision, as far as there are such parts."""

    judge: VersionName | None = None
    rubric: VersionName | None = None
    policy: VersionName | None = None
    router: VersionName | None = None


class DecisionFields(Struct, kw_only=True):
    """Flat fields of a decision; subclasses add the two nested ones in their own types."""

    decision_id: Identifier
    decided_at: Moment
    route: RouteName
    judge_score: UnitInterval | None = None
    threshold: UnitInterval | None = None
    evidence_passed: bool
    audit_p: Probability
    label_requested: bool
    traffic: Traffic | None = None
    unit: HashedIdentifier | None = None
    pair_id: Identifier | None = None
    variant: Name | None = None
    probe_set: HashedId | None = None
    expected_ready: bool | None = None
    signature: HashedId | None = None


class Decision(DecisionFields, kw_only=True):
    """A routing decision.

    Key its Kafka message by decision_id, or by anything else that all copies of it share, so that
    they come in one partition; and send a copy as it was. A copy with the same decision_id and
    decided_at in the same partition, within an hour, is left out of the counts; any other
    copy counts as one more decision.

    Attributes:
        decision_id: unique within the hour of decided_at; stored as a keyed hash only.
        decided_at: when the router decided; the same in every copy.
        route: where the request went.
        judge_score: score of the judge; absent when there was none, as with a router of rules.
        threshold: at or above it the score is auto_serve; absent where no score decides.
        evidence_passed: whether the evidence gate let the request through.
        attributes: values of allow-listed attributes: text, or a number, which means its digits.
        versions: versions of judge, rubric, policy and router, as far as there are any.
        audit_p: probability with which a label is requested for this decision.
        label_requested: whether it was.
        traffic: production (as when absent), or probe for matched-pair test traffic.
        unit: hashed conversation or customer; decisions of one depend on each other.
        pair_id: probes: the matched pair.
        variant: probes: the variant within the pair.
        probe_set: probes: content hash of the set.
        expected_ready: probes: the outcome the set expects.
        signature: probes: proof that the set's owner sent it.
    """

    attributes: dict[str, AttributeValue]
    versions: Versions | None = None


_NULL = msgspec.Raw(b"null")


class FastDecision(DecisionFields, kw_only=True, gc=False):
    """Decision as the hot path reads it: nested parts stay raw bytes.

    Nested parts are checked by :class:`Decision`'s types when they first occur.
    """

    attributes: msgspec.Raw
    versions: msgspec.Raw = _NULL


class Label(Struct, kw_only=True, gc=False):
    """A reviewer's judgement of a decision.

    Attributes:
        label_id: unique.
        decision_id: the decision that was reviewed.
        decided_at: its time, copied from the decision.
        version: 1 for the first label of a kind, higher for later ones.
        ready: true or false; absent when the reviewer could not tell.
        kind: initial, correction, adjudication or retraction. The later of these counts; of two
            labels of one kind the higher ``version``, else the later one.
        reason: audit (random sample), review (sent to review), complaint (never a sample).
        reviewer: hashed; the first two who label a decision are compared.
        blind: whether the reviewer did not see the route.
        labelled_at: when the reviewer decided.
    """

    label_id: Identifier
    decision_id: Identifier
    decided_at: Moment
    version: Annotated[int, Meta(ge=1, le=1_000_000)]
    ready: bool | None = None
    kind: Literal["initial", "correction", "adjudication", "retraction"]
    reason: Literal["audit", "review", "complaint"]
    reviewer: HashedIdentifier
    labelled_at: Moment
    blind: bool | None = None


class BiasResult(Struct, kw_only=True, frozen=True, tag_field="type", tag="bias_result"):
    """The score of one dimension of a bias evaluation, alone in its message on the labels' topic.

    Attributes:
        dimension: as the settings declare it.
        measured: the day; a later result of the same day takes the place of an earlier one.
        score: of the probe set as it is.
        items: of the set.
        probe_set: name of the set.
        probe_version: its version.
        model: version of what answered.
        rubric: version of what judged the answers; absent where nothing did.
    """

    dimension: DimensionName
    measured: date
    score: Score
    items: Annotated[int, Meta(ge=1, le=10**9)]
    probe_set: SetName
    probe_version: VersionName
    model: VersionName
    rubric: VersionName | None = None


def schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON Schemas of the events for deploy/schemas, by the event's name."""
    return {
        name: {"$schema": "https://json-schema.org/draft/2020-12/schema"}
        | msgspec.json.schema(type_)
        for name, type_ in (("decision", Decision), ("label", Label), ("bias_result", BiasResult))
    }


def missing_fields(kind: str, schema: str) -> list[str]:
    """Return, sorted, the required fields of a ``kind`` of event that an Avro schema lacks.

    Args:
        kind: decision or label.
        schema: text of the schema; a schema that is no record lacks nothing that can be named.
    """
    try:
        record = msgspec.json.decode(schema, type=_Record)
    except (ValueError, RecursionError):
        return []
    event: type[Struct] = Decision if kind == "decision" else Label
    needed = [field.name for field in msgspec.structs.fields(event) if field.required]
    return sorted(set(needed) - {field.name for field in record.fields})


class _Field(Struct):
    name: str


class _Record(Struct):
    fields: list[_Field]
