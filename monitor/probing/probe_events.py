"""Decision events of probes: made of answers, signed, and written to the decisions topic.

A set is checked before anything is sent. Each variant must make an event that the service accepts,
and the settings must declare the set.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from consumers.events import Decision, Versions
from consumers.probe_signing import sign
from consumers.sources.kafka_admin import KafkaConnection
from consumers.sources.kafka_writer import KafkaWriter
from monitor.audit.inputs import Item, ProbeSet
from monitor.core.time import to_datetime
from monitor.errors import SlicewatchError
from monitor.probing.protocol import Answer
from monitor.records import Record
from monitor.settings.sections import ProbeSetSettings

PATIENCE = 30.0
"""Seconds a broker may take to write one pair; it may be restarting."""
RUN_BYTES = 8
_SAMPLE = {
    "route": "auto_serve",
    "judge_score": None,
    "threshold": 0.5,
    "evidence_passed": True,
    "versions": dict.fromkeys(("judge", "rubric", "policy", "router"), "v"),
}
_NO_TIME = datetime(2000, 1, 1, tzinfo=UTC)
_encode = msgspec.json.Encoder().encode


class ProbeEvents:
    """Maker of signed decision events for one run; each id is unique over all runs.

    Args:
        probe_set: content hash of the set.
        key: the probe key.
    """

    def __init__(self, probe_set: str, key: bytes) -> None:
        self._probe_set = probe_set
        self._key = key
        self._run = secrets.token_hex(RUN_BYTES)
        self._made = 0

    def event(self, item: Item, answer: Answer, at: int) -> bytes:
        """Return the signed decision event of one answered variant, as JSON bytes with a fresh id.

        Args:
            item: the variant.
            answer: decision of the router.
            at: time of the answer, microseconds.
        """
        self._made += 1
        decision = _decision_template(item, self._probe_set)
        decision.decision_id = f"probe-{self._run}-{self._made}"
        decision.decided_at = to_datetime(at)
        decision.route = answer.route
        decision.judge_score = answer.judge_score
        decision.threshold = answer.threshold
        decision.evidence_passed = answer.evidence_passed
        decision.versions = Versions(**msgspec.structs.asdict(answer.versions))
        decision.signature = sign(decision, self._key)
        return _encode(decision)


def _decision_template(item: Item, probe_set: str) -> Decision:
    """Return a variant's decision event with placeholders for id, time, answer and versions.

    Raises:
        msgspec.ValidationError: the service would not accept it.
    """
    fields = {
        "decision_id": "probe",
        "decided_at": _NO_TIME,
        "attributes": dict(item.attributes),
        "audit_p": 1.0,
        "label_requested": False,
        "traffic": "probe",
        "pair_id": item.pair,
        "variant": item.variant,
        "probe_set": probe_set,
        "expected_ready": item.expected_ready,
    }
    return msgspec.convert(_SAMPLE | fields, Decision)


def check_items(items: Iterable[Item], attributes: Collection[str] | None = None) -> None:
    """Refuse a variant without a request, a valid decision event or declared attributes.

    Args:
        items: items of a synthetic set.
        attributes: names that the settings declare; None where nothing is published.
    """
    for item in items:
        name = f"{item.pair}/{item.variant}"
        if item.request is None:
            raise SlicewatchError(f"{name}: request is missing; a probe set holds what is sent")
        try:
            _decision_template(item, "0")
        except msgspec.ValidationError as error:
            raise SlicewatchError(f"{name} makes no decision event: {error}") from None
        unknown = set() if attributes is None else set(item.attributes) - set(attributes)
        if unknown:
            raise SlicewatchError(
                f"{name}: attribute {min(unknown)} is not in the settings, and its decisions would "
                "be dead letters; add an [[attribute]], or leave it out of the set"
            )


def declared(
    probe_set: ProbeSet, digest: str, sets: Iterable[ProbeSetSettings]
) -> ProbeSetSettings:
    """Return the settings entry with the set's digest, after checking its pairs and variants.

    Raises:
        SlicewatchError: there is none, or it does not fit; the message says what to write.
    """
    pairs = _variants_by_pair(probe_set)
    variants = frozenset[str]().union(*pairs.values())
    declaration = next((settings for settings in sets if settings.digest == digest), None)
    if declaration is None:
        listed = ", ".join(f'"{name}"' for name in sorted(variants))
        raise SlicewatchError(
            "the set is not declared, its decisions would be nobody's: add [[probes.sets]] with "
            f'name = "...", digest = "{digest}", pairs = {len(pairs)} and variants = [{listed}], '
            "the reference first, or say --no-publish"
        )
    _check_shape(pairs, variants, declaration)
    return declaration


def _variants_by_pair(probe_set: ProbeSet) -> Mapping[str, frozenset[str]]:
    """Map each pair to the names of its variants."""
    pairs: defaultdict[str, set[str]] = defaultdict(set)
    for item in probe_set.items:
        pairs[item.pair].add(item.variant)
    return {pair: frozenset(names) for pair, names in pairs.items()}


def _check_shape(
    pairs: Mapping[str, frozenset[str]], variants: frozenset[str], declaration: ProbeSetSettings
) -> None:
    """Raise an error if a pair lacks a variant, or the settings declare another set."""
    for pair in sorted(pairs):
        if missing := variants - pairs[pair]:
            raise SlicewatchError(
                f"pair {pair} lacks the variant {min(missing)}: a set that is published has the "
                "same variants in every pair; make a set of its own for each axis"
            )
    if declaration.pairs != len(pairs) or set(declaration.variants) != variants:
        raise SlicewatchError(
            f"probes.sets {declaration.name} declares {declaration.pairs} pairs of "
            f"{', '.join(sorted(declaration.variants))}, and the set has {len(pairs)} pairs of "
            f"{', '.join(sorted(variants))}: correct the settings"
        )


class KafkaPublisher:
    """Producer of probe decisions; one pair's decisions share a partition.

    Args:
        connection: the brokers.
        topic: the decisions topic; it must exist.

    Raises:
        SourceError: no broker can be reached, access is refused, or there is no such topic.
    """

    def __init__(self, connection: KafkaConnection, topic: str) -> None:
        self._topic = topic
        self._writer = KafkaWriter(connection, [topic], PATIENCE)
        self._writer.connect()

    def publish(self, pair: str, events: Sequence[bytes]) -> None:
        """Write one pair's encoded decisions in order, and wait until all are written.

        Raises:
            SlicewatchError: they are not written, or that is unknown; the message says why.
        """
        key = pair.encode()
        self._writer.write([Record(self._topic, key, event) for event in events])

    def close(self) -> None:
        """Close the producer; every decision published before is already written."""
        self._writer.close()
