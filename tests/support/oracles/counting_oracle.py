"""What the counts of a history must be: naive, one event at a time, dictionaries and Fractions.

Written from the design alone; it shares the grid of audit rates with the service,
and no other code. It does not know shards, batches, offsets or clocks: exactly-once means that
none of them can be seen in the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from hashlib import blake2b
from typing import Any

import signed_probes

from monitor.core.counts.audit_grid import AUDIT_RATES

Event = Mapping[str, Any]
KINDS = ("initial", "correction", "adjudication", "retraction")
DELAY_HOURS = (1, 3, 6, 12, 24, 72, 168)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_MONDAY = date(1969, 12, 29)


@dataclass(frozen=True)
class Rules:
    """The settings that decide what is counted where; ``later_keys`` by their first day.

    ``is_probe`` decides which of those that call themselves probes are.
    """

    attributes: Mapping[str, Sequence[str]]
    id_key: bytes
    later_keys: Mapping[date, bytes] = field(default_factory=dict)
    bands: Sequence[float] = (0.70, 0.90)
    rates: Sequence[float] = AUDIT_RATES
    is_probe: Callable[[Event], bool] = signed_probes.is_probe


@dataclass
class Expected:
    """Counts, and the totals that do not depend on the order of arrival."""

    counts: dict[tuple[Any, ...], dict[str, int]] = field(default_factory=dict)
    decisions: int = 0
    thinned: set[str] = field(default_factory=set)
    probes: list[tuple[Any, ...]] = field(default_factory=list)
    unsigned: int = 0
    undeclared: int = 0


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)


def panes(at: datetime) -> dict[str, int]:
    """Index of the pane of every grain, by calendar arithmetic."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    monday = date.fromisocalendar(*at.isocalendar()[:2], 1)
    return {
        "5min": (at - epoch) // timedelta(minutes=5),
        "1h": (at - epoch) // timedelta(hours=1),
        "1d": (at.date() - epoch.date()).days,
        "1w": (monday - FIRST_MONDAY).days // 7,
    }


def id_key(rules: Rules, at: datetime) -> bytes:
    """The key of the day that a decision was made on."""
    begun = [day for day in rules.later_keys if day <= at.date()]
    return rules.later_keys[max(begun)] if begun else rules.id_key


def kept(rules: Rules, decision_id: str, audit_p: float, at: datetime = EPOCH) -> bool:
    """Whether a request survives the thinning to the grid: a keyed hash, so always the same."""
    hashed = blake2b(decision_id.encode(), digest_size=8, key=id_key(rules, at)).digest()
    spread = (int.from_bytes(hashed, "big") >> 1) * 0x9E3779B97F4A7C15 % 2**64
    grid = Fraction(rules.rates[rate(rules, audit_p)])
    return Fraction(spread, 2**64) < grid / Fraction(audit_p)


def rate(rules: Rules, audit_p: float) -> int:
    """The largest rate of the grid that is not above the probability (four digits count)."""
    below = [i for i, r in enumerate(rules.rates) if r <= audit_p * 1.0001]
    return below[0] if below else len(rules.rates) - 1


def cell(rules: Rules, decision: Event) -> tuple[Any, ...]:
    """(atom, version, route, band, rate, evidence, probe)."""
    given = decision["attributes"]
    values = {
        name: ("__missing__" if name not in given else
               given[name] if given[name] in allowed else "__other__")
        for name, allowed in rules.attributes.items()
    }  # fmt: skip
    atom = ",".join(f"{name}={values[name]}" for name in sorted(values))
    versions = decision["versions"]
    version = ",".join(f"{n}={versions[n]}" for n in ("judge", "rubric", "policy", "router"))
    score = decision["judge_score"]
    edges = [Fraction(edge) for edge in rules.bands]
    band = len(edges) + 1 if score is None else sum(e <= Fraction(score) for e in edges)
    return (
        atom,
        f"{version},threshold={float(decision['threshold'])!r}",
        decision["route"],
        band,
        rate(rules, decision["audit_p"]),
        decision["evidence_passed"],
        rules.is_probe(decision),
    )


def standing(labels: Iterable[Event]) -> Event | None:
    """The label that counts: the greatest by (kind, version, labelled_at, id)."""
    return max(
        labels,
        key=lambda x: (KINDS.index(x["kind"]), x["version"], instant(x["labelled_at"]),
                       x["label_id"]),
        default=None,
    )  # fmt: skip


def label_counters(labels: Sequence[Event], decided_at: datetime) -> dict[str, int]:
    """What all labels of one decision add to its cell."""
    out: dict[str, int] = {}
    complaint = standing(x for x in labels if x["reason"] == "complaint")
    if complaint is not None and complaint["kind"] != "retraction":
        out["complaints"] = 1
    label = standing(x for x in labels if x["reason"] != "complaint")
    if label is None:
        return out
    if label["kind"] != "initial" or label["version"] > 1:
        out["revised"] = 1
    if label["kind"] == "retraction":
        return out
    out |= pair_counters(labels)
    if label["ready"] is None:
        return out | {"undecidable": 1}
    blind = bool(label.get("blind"))
    delay = max(instant(label["labelled_at"]) - decided_at, timedelta())
    bucket = sum(delay >= timedelta(hours=hours) for hours in DELAY_HOURS)
    out |= {"labelled": 1, f"delay_{bucket}": 1}
    if label["ready"]:
        out["ready"] = 1
    if blind:
        out["blind"] = 1
    if blind and label["ready"]:
        out["blind_ready"] = 1
    return out


def pair_counters(labels: Sequence[Event]) -> dict[str, int]:
    """Whether the first two reviewers agree, each by the first of their own initial labels."""
    own = [
        x
        for x in labels
        if x["kind"] == "initial" and x["reason"] != "complaint" and x["ready"] is not None
    ]
    firsts = [min((x for x in own if x["reviewer"] == who), key=_spoken)
              for who in {x["reviewer"] for x in own}]  # fmt: skip
    if len(firsts) < 2:
        return {}
    one, other = (x["ready"] for x in sorted(firsts, key=_spoken)[:2])
    return {"pairs_apart" if one != other else "pairs_ready" if one else "pairs_not_ready": 1}


def _spoken(label: Event) -> tuple[datetime, str]:
    return instant(label["labelled_at"]), label["label_id"]


def count(rules: Rules, decisions: Iterable[Event], labels: Iterable[Event]) -> Expected:
    """Counts of a history in which every id stands for one decision, however often it came."""
    expected = Expected()
    by_decision: dict[str, list[Event]] = {}
    for label in labels:
        by_decision.setdefault(label["decision_id"], []).append(label)
    for decision in {d["decision_id"]: d for d in decisions}.values():
        key, at = decision["decision_id"], instant(decision["decided_at"])
        asked = decision["label_requested"]
        keeps = not asked or kept(rules, key, decision["audit_p"], at)
        if not keeps:
            expected.thinned.add(key)
        own = {"n": 1, "q": int(asked and keeps)}
        answers = by_decision.get(key, [])
        if keeps and asked:
            own |= label_counters(answers, at)
        _add(expected, cell(rules, decision), panes(at), own)
        expected.decisions += 1
        if decision.get("traffic") == "probe":
            _add_probe(rules, expected, decision)
    return expected


def _add_probe(rules: Rules, expected: Expected, decision: Event) -> None:
    declared = (
        decision.get("probe_set") == signed_probes.DIGEST
        and decision.get("pair_id") is not None
        and decision.get("variant") in signed_probes.VARIANTS
    )
    if not rules.is_probe(decision):
        expected.unsigned += 1
    elif not declared:
        expected.undeclared += 1
    else:
        at = (instant(decision["decided_at"]) - EPOCH) // timedelta(microseconds=1)
        names = ("pair_id", "variant", "route", "judge_score", "threshold", "evidence_passed")
        said = (decision[name] for name in names)
        expected.probes.append((at, *said, decision.get("expected_ready")))


def _add(
    expected: Expected, where: tuple[Any, ...], at: Mapping[str, int], own: Mapping[str, int]
) -> None:
    for key in [(grain, at[grain], *where) for grain in ("1h", "1d", "1w")]:
        row = expected.counts.setdefault(key, {})
        for name, value in own.items():
            if value:
                row[name] = row.get(name, 0) + value
