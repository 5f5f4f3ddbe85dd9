"""Inputs of an audit: a probe set, a router's results on its variants, and their hashes.

A **probe set** is fixed: matched pairs, each of them one request in two or more variants, with the
outcome that reviewers expect. It never changes: its identity is the hash of its content, and other
content is another set. **Results** are the decisions of one router, under one tuple of versions, on
one set.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from math import isfinite
from pathlib import Path

from monitor.core.counts.cells import Route
from monitor.core.probes.flips import Observed

EXPECTED, POLICY, EVIDENCE = "expected_ready", "policy", "evidence"
"""Fields that a set holds fixed within a pair, unless ``varies`` lists them."""


@dataclass(frozen=True, slots=True)
class Item:
    """Variant of a matched pair, as the probe set fixes it.

    Attributes:
        pair: id of the pair.
        variant: name of the variant; unique within the pair.
        axis: what is varied (formality, dialect, persona, ...); empty in a set with one axis.
        attributes: allow-listed attribute values of this variant.
        expected_ready: the outcome reviewers expect; None where it is missing.
        policy: version of the policy that they judged under.
        evidence: id of the evidence that is supplied; None without any.
        reviewers_agree: two reviewers agree that the variants ask for the same, and on the
            outcome; None where nobody has said.
        held_out: the pair is never used to repair the router, and reported apart.
        request: request to the router; None in results, which no longer need it.
        request_digest: SHA-256 of the request's canonical JSON, which results keep; empty without
            a request.
    """

    pair: str
    variant: str
    attributes: Mapping[str, str]
    expected_ready: bool | None
    policy: str
    axis: str = ""
    evidence: str | None = None
    reviewers_agree: bool | None = None
    held_out: bool = False
    request: object = None
    request_digest: str = ""


@dataclass(frozen=True, slots=True)
class ProbeSet:
    """Fixed set of matched pairs, under a name and a version.

    Attributes:
        name: name of the set.
        version: version of the set, for people; the hash of its content is what counts.
        synthetic: invented test conditions; else it is reviewed data of real people.
        varies: fields named above that differ within pairs on purpose.
        items: all variants, sorted by pair and variant.
    """

    name: str
    version: str
    synthetic: bool
    varies: frozenset[str]
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class RunVersions:
    """Versions of the router's four parts that decided."""

    judge: str
    rubric: str
    policy: str
    router: str


@dataclass(frozen=True, slots=True)
class Row:
    """Row of results: a router's decision on one variant.

    Attributes:
        item: the variant.
        observed: route, score, threshold, evidence gate.
        versions: versions of the parts that decided.
        line: its line in the file, from 1.
    """

    item: Item
    observed: Observed
    versions: RunVersions
    line: int

    @property
    def served(self) -> bool:
        """Return True if the reply was sent without a person seeing it."""
        return self.observed.route is Route.AUTO_SERVE


@dataclass(frozen=True, slots=True)
class Results:
    """Decisions of one router on the variants of one probe set.

    Attributes:
        probe_set: the set that was sent, without the requests.
        rows: in the order of the file; pairs may lack variants, have them twice, or disagree.
        path: path of the file, for messages; it does not count when results are compared.
    """

    probe_set: ProbeSet
    rows: tuple[Row, ...]
    path: Path = field(default=Path("results"), compare=False)


@dataclass(frozen=True, slots=True)
class Pair:
    """Comparable pair: complete, and equal in everything that the set holds fixed.

    Attributes:
        id: id of the pair.
        axis: what is varied.
        rows: one per variant, sorted by variant; at least two.
    """

    id: str
    axis: str
    rows: tuple[Row, ...]

    @property
    def held_out(self) -> bool:
        """Return True if the pair belongs to the held-out part."""
        return self.rows[0].item.held_out


@dataclass(frozen=True, slots=True)
class Excluded:
    """Pair that is not compared, with the reason: a sentence that names the field and the fix."""

    pair: str
    reason: str


@dataclass(frozen=True, slots=True)
class Compared:
    """Comparison of two variants of one pair, with the attributes in which they differ.

    Attributes:
        pair: id of the pair.
        by: attributes in which they differ, sorted.
        reference: variant that the other one is compared with.
        variant: the other variant.
    """

    pair: str
    by: tuple[str, ...]
    reference: Row
    variant: Row


def canonical(value: object) -> str:
    """Encode a value as JSON with sorted keys and no spaces, so that equal values match.

    Raises:
        ValueError: it holds NaN, an infinite number or half of a surrogate pair.
    """
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    text.encode()
    return text


def request_digest(request: object) -> str:
    """Return the SHA-256 of a request's canonical JSON, in hexadecimal; empty for None."""
    return "" if request is None else sha256(canonical(request).encode()).hexdigest()


def digest(probe_set: ProbeSet) -> str:
    """Return the SHA-256 of a probe set's content, in hexadecimal, for any order of items.

    Requests enter by their own hashes, so that results, which do not keep the requests, have the
    hash of their set.
    """
    items = sorted(canonical(item_fields(item)) for item in probe_set.items)
    return sha256("\n".join([canonical(set_fields(probe_set)), *items]).encode()).hexdigest()


def results_digest(judged: Results, baseline: Results | None = None) -> str:
    """Return the SHA-256 of the decisions of one run or both, in hexadecimal.

    The order of the rows does not matter. Other numbers behind the same rates have another hash.

    Args:
        judged: run that the decision is about.
        baseline: run that it is compared with; None without one.
    """
    texts = []
    for run in filter(None, (judged, baseline)):
        rows = sorted(canonical(result_fields(row)) for row in run.rows)
        texts.append("\n".join([digest(run.probe_set), *rows]))
    return sha256("\n\n".join(texts).encode()).hexdigest()


def result_fields(row: Row) -> dict[str, object]:
    """Return a row's key and decided fields by name, for hashing and writing.

    An infinite threshold is None.
    """
    observed = row.observed
    return {
        "pair_id": row.item.pair,
        "variant": row.item.variant,
        "judge_score": observed.score,
        "threshold": observed.threshold if isfinite(observed.threshold) else None,
        "evidence_passed": observed.evidence_passed,
        "route": observed.route.name.lower(),
        "versions": asdict(row.versions),
    }


def set_fields(probe_set: ProbeSet) -> dict[str, object]:
    """Return the fields that all rows of a set share, by name, for hashing and writing."""
    return {
        "dataset": probe_set.name,
        "dataset_version": probe_set.version,
        "synthetic": probe_set.synthetic,
        "varies": sorted(probe_set.varies),
    }


def item_fields(item: Item) -> dict[str, object]:
    """Return the fields of one variant by name, with the request's hash instead of the request."""
    return {
        "pair_id": item.pair,
        "variant": item.variant,
        "axis": item.axis,
        "attributes": dict(item.attributes),
        "expected_ready": item.expected_ready,
        "policy": item.policy,
        "evidence": item.evidence,
        "reviewers_agree": item.reviewers_agree,
        "held_out": item.held_out,
        "request_sha256": item.request_digest,
    }
