"""Traffic as a router sends it in three hours: what ``make bench FOR=run`` measures with.

60 atoms and 5 version tuples of uneven size, a unit for each decision, probes, records that come
out of order within the lateness, and one in a hundred sent twice. Labels come minutes to an hour
after their decisions, for 0.43 of them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import common  # noqa: F401 - makes the other folders of the tests importable

# isort: split
import msgspec
import numpy as np
import numpy.typing as npt

from consumers.events import Decision, Versions
from consumers.probe_signing import sign

PARTITIONS = 4
HOURS = 3.0
LATENESS_SECONDS = 540.0  # stream.lateness is ten minutes
DELAY_SECONDS = 30.0
DUPLICATES = 0.01
PROBES = 0.005
THRESHOLD = 0.43
AUDITED = 0.05
LABEL_FROM_SECONDS, LABEL_MEAN_SECONDS, LABEL_MOST_SECONDS = 60.0, 900.0, 3_600.0
PER_UNIT = 3
PROBE_KEY = b"key of the benchmark's probe set"
PROBE_SET = "b" * 64
VARIANTS = ("formal", "plain")
ATTRIBUTES = {
    "language": ("en", "de", "es", "fr", "pt"),
    "channel": ("chat", "email", "phone"),
    "region": ("north", "south", "east", "west"),
}
VERSIONS = tuple(
    Versions(judge=f"j{judge}", rubric="r1", policy=f"p{policy}", router=f"t{router}")
    for judge, policy, router in ((1, 1, 1), (2, 1, 1), (2, 2, 1), (2, 2, 2), (3, 2, 2))
)
SHARES_OF_VERSIONS = (0.5, 0.3, 0.12, 0.05, 0.03)
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Topic:
    """Messages in the order of their timestamps (milliseconds), and the partition of each."""

    values: list[bytes]
    stamps: list[int]
    partitions: list[int]

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Truth:
    """What whoever reads everything must find.

    Attributes:
        decisions: without copies.
        copies: of decisions, sent a second time.
        labels: without copies; every one has its decision.
    """

    decisions: int
    copies: int
    labels: int


@dataclass(frozen=True)
class RunTraffic:
    """Both topics and the truth about them."""

    decisions: Topic
    labels: Topic
    truth: Truth


@dataclass(frozen=True)
class _Drawn:
    """Columns of decisions in the order in which they were made."""

    number: Ints
    at: Floats
    sent: Floats
    score: Floats
    served: npt.NDArray[np.bool_]
    requested: npt.NDArray[np.bool_]
    probe: npt.NDArray[np.bool_]
    ready: npt.NDArray[np.bool_]
    unit: Ints
    version: Ints
    values: dict[str, Ints]


def run_traffic(n: int, now: float | None = None, seed: int = 11, first: int = 0) -> RunTraffic:
    """``n`` decisions of the last hours up to ``now`` (seconds since 1970), and their labels.

    Their ids and units are numbered from ``first`` on, so that several may follow one another.
    """
    rng = np.random.default_rng(seed)
    drawn = _draw(rng, n, time.time() if now is None else now, first)
    again = rng.random(n) < DUPLICATES
    decisions = _decisions(rng, drawn, again)
    labels, labelled = _labels(rng, drawn, float(drawn.sent.max()))
    return RunTraffic(decisions, labels, Truth(n, int(again.sum()), labelled))


def settings_text(bootstrap: str, topics: Sequence[str], store: str) -> str:
    """Settings with brokers, topics and the store; all else is declared, or has its default."""
    attributes = "".join(
        f'\n[[attribute]]\nname = "{name}"\nvalues = {list(values)}\ndefinition = "Benchmark."\n'
        'purpose = "Benchmark."\n'
        for name, values in ATTRIBUTES.items()
    ).replace("'", '"')
    singles = ", ".join(f'{{ attributes = ["{name}"] }}' for name in ATTRIBUTES)
    pairs = ", ".join(
        f'{{ attributes = ["{a}", "{b}"] }}'
        for a, b in (("language", "channel"), ("language", "region"), ("channel", "region"))
    )
    return f"""\
[stream]
bootstrap_servers = ["{bootstrap}"]
decisions_topic = "{topics[0]}"
labels_topic = "{topics[1]}"

[store]
url = "{store}"

[probes]
key = "{PROBE_KEY.decode()}"

[[probes.sets]]
name = "bench"
digest = "{PROBE_SET}"
pairs = 100
variants = {list(VARIANTS)}
{attributes}
[[use_case]]
name = "bench"
owner = "benchmark"
group_bys = [{singles}, {pairs}]

[use_case.contract]
version = "1"
effective = 2026-01-01
reason = "benchmark"
max_tpr_gap = 0.10
max_fpr_gap = 0.10
max_selection_gap = 0.10
min_positives = 50
min_negatives = 30
window = "7d"
""".replace(str(list(VARIANTS)), str(list(VARIANTS)).replace("'", '"'))


def _draw(rng: np.random.Generator, n: int, now: float, first: int) -> _Drawn:
    at = np.sort(now - LATENESS_SECONDS - rng.random(n) * HOURS * 3600)
    late = np.minimum(rng.exponential(DELAY_SECONDS, n), LATENESS_SECONDS - 1)
    score = rng.random(n).round(3)
    probe = rng.random(n) < PROBES
    served = score >= THRESHOLD
    sizes = {name: len(values) for name, values in ATTRIBUTES.items()}
    return _Drawn(
        at=at,
        sent=at + late,
        score=score,
        served=served,
        requested=~probe & (~served | (rng.random(n) < AUDITED)),
        probe=probe,
        ready=rng.random(n) < 0.2 + 0.7 * score,
        number=np.arange(first, first + n),
        unit=np.arange(first, first + n) // PER_UNIT + rng.integers(50, size=n),
        version=rng.choice(len(VERSIONS), n, p=SHARES_OF_VERSIONS),
        values={name: rng.zipf(1.5, n) % size for name, size in sizes.items()},
    )


def _decisions(rng: np.random.Generator, drawn: _Drawn, again: npt.NDArray[np.bool_]) -> Topic:
    encoder = msgspec.json.Encoder()
    made = [encoder.encode(_decision(drawn, i)) for i in range(len(drawn.at))]
    return _topic(rng, made, drawn.sent, again, np.arange(len(made)) % PARTITIONS)


def _decision(drawn: _Drawn, i: int) -> dict[str, object]:
    served = bool(drawn.served[i])
    event: dict[str, object] = {
        "decision_id": f"9f1c{drawn.number[i]:012d}",
        "decided_at": _text(drawn.at[i]),
        "route": "auto_serve" if served else "human_review",
        "judge_score": float(drawn.score[i]),
        "threshold": THRESHOLD,
        "evidence_passed": True,
        "attributes": {n: ATTRIBUTES[n][drawn.values[n][i]] for n in ATTRIBUTES},
        "versions": VERSIONS[drawn.version[i]],
        "audit_p": AUDITED if served else 1.0,
        "label_requested": bool(drawn.requested[i]),
        "unit": f"u{drawn.unit[i]:010d}",
    }
    return _signed(event, i) if drawn.probe[i] else event


def _signed(event: dict[str, object], i: int) -> dict[str, object]:
    event |= {
        "traffic": "probe",
        "pair_id": f"p{i // 2}",
        "variant": VARIANTS[i % 2],
        "probe_set": PROBE_SET,
        "expected_ready": True,
    }
    return event | {"signature": sign(msgspec.convert(event, Decision), PROBE_KEY)}


def _labels(rng: np.random.Generator, drawn: _Drawn, now: float) -> tuple[Topic, int]:
    after = LABEL_FROM_SECONDS + rng.exponential(LABEL_MEAN_SECONDS, len(drawn.at))
    said = drawn.at + np.minimum(after, LABEL_MOST_SECONDS)
    chosen = np.flatnonzero(drawn.requested & (said < now))
    encoder = msgspec.json.Encoder()
    made = [encoder.encode(_label(drawn, i, said[i])) for i in chosen.tolist()]
    again = rng.random(len(made)) < DUPLICATES
    return _topic(rng, made, said[chosen], again, chosen % PARTITIONS), len(made)


def _label(drawn: _Drawn, i: int, said: float) -> dict[str, object]:
    return {
        "label_id": f"77aa{drawn.number[i]:012d}",
        "decision_id": f"9f1c{drawn.number[i]:012d}",
        "decided_at": _text(drawn.at[i]),
        "version": 1,
        "ready": bool(drawn.ready[i]),
        "kind": "initial",
        "reason": "audit" if drawn.served[i] else "review",
        "reviewer": f"h{i % 40}",
        "labelled_at": _text(said),
    }


def _topic(
    rng: np.random.Generator,
    made: list[bytes],
    sent: Floats,
    again: npt.NDArray[np.bool_],
    partition: Ints,
) -> Topic:
    """Messages as they are sent; copies follow within a minute in the same partition."""
    copies = np.flatnonzero(again)
    rows = np.concatenate([np.arange(len(made)), copies])
    stamps = np.concatenate([sent, sent[copies] + 60 * rng.random(len(copies))])
    order = np.argsort(stamps, kind="stable")
    rows, stamps = rows[order], stamps[order]
    values = [made[row] for row in rows.tolist()]
    return Topic(values, (1000 * stamps).astype(int).tolist(), partition[rows].tolist())


def _text(seconds: float) -> str:
    return datetime.fromtimestamp(float(seconds), UTC).isoformat()
