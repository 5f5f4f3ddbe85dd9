"""Settings, results and sign-offs for tests of a whole audit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
from matched import VARIETY, VERSIONS, row, seen, ten_pairs

from monitor.audit.audit_report import Requirement
from monitor.audit.inputs import Pair, ProbeSet, Results, Row, RunVersions, digest, results_digest
from monitor.audit.sign_off import RequirementSignature, SignOff
from monitor.core.contract import Contract
from monitor.settings import Settings
from monitor.settings.kinds import ListedValue
from monitor.settings.sections import (
    AttributeSettings,
    ContractSettings,
    GroupBySettings,
    StreamSettings,
    UseCase,
)

TODAY = date(2026, 11, 2)
VALUES = {VARIETY: ("formal", "conversational"), "channel": ("chat", "email")}
LESSON_GROUPS = (
    GroupBySettings(attributes=(VARIETY,), reference=f"{VARIETY}=formal"),
    GroupBySettings(attributes=(VARIETY, "channel")),
)


def settings(
    *,
    values: Mapping[str, tuple[str, ...]] = VALUES,
    groups: tuple[GroupBySettings, ...] = LESSON_GROUPS,
    synthetic: bool = True,
    k: int = 1,
    limits: Mapping[str, Any] | None = None,
    **more: Any,
) -> Settings:
    """Settings of one use case under the lesson's contract."""
    contract = ContractSettings(
        version="1", effective=date(2026, 1, 1), reason="test", **(limits or {})
    )
    case = UseCase(
        name="replies",
        owner="tests",
        contract=contract,
        group_bys=groups,
        synthetic=synthetic,
        k=k,
        **more,
    )
    return Settings(
        stream=StreamSettings(score_bands=(0.70, 0.90)),
        attribute=tuple(
            AttributeSettings(name=n, values=tuple(map(ListedValue, v))) for n, v in values.items()
        ),
        use_case=(case,),
    )


def real_settings(**more: Any) -> Settings:
    """The same for production traffic."""
    return settings(**{"synthetic": False, "k": 11, **more})


def contract_of(one: Settings) -> Contract:
    return one.use_case[0].to_core()


def results(
    pairs: Iterable[Pair], *, synthetic: bool = True, versions: RunVersions = VERSIONS
) -> Results:
    """What a router made of these pairs, one line each."""
    rows = [
        replace(row, line=line, versions=versions)
        for line, row in enumerate((row for pair in pairs for row in pair.rows), 1)
    ]
    items = sorted((row.item for row in rows), key=lambda item: (item.pair, item.variant))
    probe_set = ProbeSet("ten-pairs", "1", synthetic, frozenset(), tuple(items))
    return Results(probe_set, tuple(rows))


def changed(pairs: Sequence[Pair], change: Callable[[Row], Row]) -> list[Pair]:
    """The pairs with every row changed."""
    return [replace(pair, rows=tuple(map(change, pair.rows))) for pair in pairs]


def held_out(pairs: Sequence[Pair], *names: str) -> list[Pair]:
    """The pairs, those of these names held out."""

    def mark(row: Row) -> Row:
        return replace(row, item=replace(row.item, held_out=row.item.pair in names))

    return changed(pairs, mark)


def sign_off(
    *missing: Requirement,
    at: date = TODAY,
    versions: RunVersions = VERSIONS,
    threshold: float = 0.70,
    contract: str = "replies 1",
    dataset: str = "",
    signed: str = "",
) -> SignOff:
    """Everything signed but for what is ``missing``, unless told otherwise for the ten pairs."""
    return SignOff(
        versions=versions,
        threshold=threshold,
        contract=contract,
        dataset=dataset or digest(results(ten_pairs()).probe_set),
        results=signed or results_digest(results(ten_pairs())),
        signatures={
            one: RequirementSignature("A. Person", at, f"about {one}")
            for one in Requirement
            if one not in missing
        },
    )


def reviewed_pairs(
    n: int, seed: int = 1, *, worse: float = 0.0, blocked: float = 0.0
) -> list[Pair]:
    """Pairs as of real people: half ready, half by chat, scores noisy around what is true.

    Args:
        n: pairs.
        seed: of chance.
        worse: by how much scores of conversational wording are lower.
        blocked: share of variants that the evidence gate stops.
    """
    rng = np.random.default_rng(seed)
    pairs = []
    for i in range(n):
        ready, channel = bool(rng.random() < 0.5), str(rng.choice(["chat", "email"]))
        rows = []
        for variety in VALUES[VARIETY]:
            score = (0.8 if ready else 0.6) + rng.normal(0, 0.08)
            score -= worse if variety == "conversational" else 0
            passed = bool(rng.random() >= blocked)
            attributes = {VARIETY: variety, "channel": channel}
            observed = seen(float(np.clip(score, 0, 1)), passed=passed)
            rows.append(row(f"person-{i}", variety, attributes, observed, ready=ready))
        rows.sort(key=lambda one: one.item.variant)
        pairs.append(Pair(f"person-{i}", "", tuple(rows)))
    return pairs
