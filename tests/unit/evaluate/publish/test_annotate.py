"""Stages and versions beside the rates: from counts through the builder, as they are published."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from cubes import CODING, Cell, auto, blocked, contract, review, table, window
from slice_tables import counted, slice_counts

from monitor.core.contract import GroupBy, Metric
from monitor.core.counts.cells import Counts, Stratum, merge
from monitor.core.counts.coding import Attribute, Coding
from monitor.core.counts.rollup import CellIndex
from monitor.core.privacy.pooling import MergeMap
from monitor.core.publish.annotations import Annotation, Share, Stage
from monitor.core.publish.contract_tables import BlockCounts, Builder, Dates, Pooled
from monitor.core.publish.snapshot import ComponentChange, Noted, ShownStage, SliceRow
from monitor.detection.diagnosis.stages import Passage, diverging_stages, stage_counts
from monitor.evaluate.publish.annotate import with_diagnosis, with_version_changes

SELECTION, TPR = Metric.SELECTION, Metric.TPR
OTHER = "__other__"
CHANNELS, REGIONS = ("chat", "email", "post"), ("north", "south")
CHANNEL, REGION = GroupBy(("channel",)), GroupBy(("region",))
KEPT = {"channel": (OTHER, *CHANNELS), "region": (OTHER, *REGIONS)}
Told = dict[str, SliceRow]


def told(
    cells: Sequence[Cell],
    group: GroupBy = CHANNEL,
    coding: Coding = CODING,
    kept: Mapping[str, tuple[str, ...]] = KEPT,
    **settings: Any,
) -> Told:
    """The rows of a group-by, by the values of the slice."""
    return rows(window(cells).blocks, group, coding, kept, **settings)


def rows(
    blocks: BlockCounts,
    group: GroupBy = CHANNEL,
    coding: Coding = CODING,
    kept: Mapping[str, tuple[str, ...]] = KEPT,
    since: Dates | None = None,
    **settings: Any,
) -> Told:
    builder = Builder(contract(group, **settings), coding, since or {})
    pooling = MergeMap({name: kept[name] for name in group.attributes})
    pooled = builder.pooled(group, blocks, pooling)
    plain = builder.group(pooled)
    found = with_diagnosis(pooled, plain, coding, builder.contract.k)
    silent = [
        replace(row, stages={}, versions_differ=None, versions_sent=None) for row in found.rows
    ]
    assert replace(found, rows=tuple(silent)) == plain
    return {values(row.slice): row for row in found.rows}


def values(text: str) -> str:
    return "+".join(pair.partition("=")[2] for pair in text.split(","))


def stage(row: SliceRow, metric: Metric = SELECTION) -> Stage:
    return row.stages[metric].stage


# Planted causes.


@dataclass(frozen=True)
class Router:
    """P(ready), P(passes the gate), P(band | not ready / ready), P(auto_serve | band).

    ``audit`` is an index of the coding's rates: 2 is one in twenty of what is served.
    """

    ready: float = 0.6
    gate: float = 0.9
    bands: tuple[tuple[float, ...], ...] = ((0.7, 0.25, 0.05), (0.15, 0.25, 0.6))
    serve: tuple[float, ...] = (0.05, 0.5, 0.95)
    audit: int = 2

    def cells(self, rng: np.random.Generator, atom: Mapping[str, str], n: int) -> list[Cell]:
        """So many decisions; all of human_review is labelled, and a sample of auto_serve."""
        mix = np.array([1 - self.ready, self.ready])[:, None] * np.array(self.bands)
        served = mix * self.serve
        shares = np.stack([served, mix - served])
        passed = rng.binomial(n, self.gate)
        drawn = rng.multinomial(passed, shares.ravel()).reshape(shares.shape)
        found = [blocked(atom, n - passed)]
        for band in range(len(self.serve)):
            sample = rng.binomial(drawn[0, :, band], CODING.audit_rates[self.audit])
            asked = {"band": band, "rate": self.audit}
            found.append(auto(atom, drawn[0, :, band].sum(), sample.sum(), sample[1], **asked))
            whole = drawn[1, :, band]
            found.append(review(atom, whole.sum(), whole.sum(), whole[1], band=band))
        return found


USUAL = Router()
CAUSES = {  # each moves what it moves by .15
    Stage.EVIDENCE: replace(USUAL, gate=0.75),
    Stage.SCORE: replace(USUAL, bands=((0.7, 0.25, 0.05), (0.3, 0.25, 0.45))),
    Stage.THRESHOLD: replace(USUAL, serve=(0.05, 0.35, 0.8)),
}
ATOMS = [{"channel": c, "region": r} for c in CHANNELS for r in REGIONS]


def drawn(
    seed: int,
    routers: Callable[[Mapping[str, str]], Router],
    size: Callable[[Mapping[str, str]], int] = lambda _: 1000,
) -> list[Cell]:
    """Decisions of every atom; a channel has 2,000 unless told otherwise."""
    rng = np.random.default_rng(seed)
    return [cell for atom in ATOMS for cell in routers(atom).cells(rng, atom, size(atom))]


def causes(fast: Stage) -> pytest.MarkDecorator:
    """Parametrize by all causes; all but ``fast`` are left to the full suite."""
    marked = [
        pytest.param(cause, marks=() if cause is fast else pytest.mark.full) for cause in CAUSES
    ]
    return pytest.mark.parametrize("cause", marked)


@causes(fast=Stage.SCORE)
def test_a_cause_planted_in_one_slice_is_named(cause: Stage) -> None:
    found: dict[Metric, Tally[Stage]] = {SELECTION: Tally(), TPR: Tally()}
    for seed in range(100):
        chat = told(drawn(seed, lambda a: CAUSES[cause] if a["channel"] == "chat" else USUAL))[
            "chat"
        ]
        for metric, stages in found.items():
            stages[stage(chat, metric)] += 1
    assert found[SELECTION][cause] >= 95
    assert found[TPR][Stage.NONE if cause is Stage.EVIDENCE else cause] >= 95


@causes(fast=Stage.EVIDENCE)
def test_a_cause_planted_in_one_attribute_is_named_there_alone(cause: Stage) -> None:
    found, beside = Tally[Stage](), Tally[Stage]()
    for seed in range(40):
        cells = drawn(seed, lambda a: CAUSES[cause] if a["region"] == "north" else USUAL)
        found[stage(told(cells, REGION)["north"])] += 1
        beside[stage(told(cells)["email"])] += 1
    assert found[cause] >= 38
    assert beside[Stage.NONE] >= 36


@pytest.mark.full
def test_slices_of_another_mix_and_the_same_router_have_no_stage() -> None:
    """At most one in twenty: chat comes from the north, and has fewer ready requests."""
    quiet = replace(USUAL, ready=0.45)
    found: dict[Metric, Tally[Stage]] = {SELECTION: Tally(), TPR: Tally()}
    size: dict[tuple[str, ...], int] = {("chat", "north"): 2_000, ("chat", "south"): 300}
    for seed in range(150):
        same = told(drawn(seed, lambda _: USUAL, lambda a: size.get(tuple(a.values()), 1_000)))
        other = told(drawn(seed, lambda a: quiet if a["channel"] == "chat" else USUAL))
        for name in ("chat", "email"):
            found[SELECTION][stage(same[name])] += 1
            found[TPR][stage(same[name], TPR)] += 1
        found[TPR][stage(other["chat"], TPR)] += 1
    for stages in found.values():
        assert stages[Stage.NONE] >= 0.925 * stages.total()  # 95 %, and two standard errors


# What the rows are made of.


@dataclass(frozen=True)
class Traffic:
    """Random cells with rare values, probes, and decisions without evidence."""

    seed: int
    cells: list[Cell] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        for channel in (*CHANNELS, "fax", "telex"):
            for region in REGIONS:
                self.cells.extend(self._atom(rng, {"channel": channel, "region": region}))

    def _atom(self, rng: np.random.Generator, atom: Mapping[str, str]) -> Iterable[Cell]:
        for version in (1, 2):
            for band in range(CODING.bands):
                n, m = (int(x) for x in rng.integers(20, 300, 2))
                yield replace(auto(atom, n, n // 3, n // 4, band=band, rate=1), version=version)
                yield replace(review(atom, m, m, m // 3, band=band), version=version)
            yield replace(blocked(atom, int(rng.integers(20, 400))), version=version)
            yield replace(auto(atom, 5_000, probe=True), version=9)
            yield replace(review(atom, int(rng.integers(9, 99)), evidence_passed=False), version=1)


def brute_force(
    cells: Iterable[Cell], name: Callable[[Mapping[str, str]], str]
) -> dict[str, ShownStage]:
    """Stages of selection by row, from sums over cells: each row against all others."""
    cells = list(cells)
    names = sorted({name(cell.atom) for cell in cells})

    def side(inside: Callable[[str], bool]) -> Passage:
        sums: Tally[Stratum] = Tally()
        for cell in cells:
            if inside(name(cell.atom)):
                sums[cell.stratum] += cell.n
        strata = {stratum: counted(n) for stratum, n in sums.items()}
        return Passage.of_decisions(*stage_counts(slice_counts({"": strata}), CODING.bands))

    found = {}
    for text in names:
        (one,) = diverging_stages(side(lambda n: n == text), side(lambda n: n != text))  # noqa: B023
        found[text] = ShownStage(one.stage, one.share)
    return found


def selection_stages(table: Told) -> dict[str, ShownStage]:
    return {name: row.stages[SELECTION] for name, row in table.items() if row.rates}


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_pooled_like_the_table_s(seed: int) -> None:
    cells = Traffic(seed).cells
    table = told(cells)
    assert selection_stages(table) == brute_force(
        cells, lambda a: a["channel"] if a["channel"] in CHANNELS else OTHER
    )
    renamed = [
        replace(c, atom={**c.atom, "channel": OTHER}) if c.atom["channel"] not in CHANNELS else c
        for c in cells
    ]
    assert told(renamed) == table


def test_only_the_use_case_counts() -> None:
    cells = Traffic(1).cells
    north = [cell for cell in cells if cell.atom["region"] == "north"]
    assert told(cells, where=(("region", "north"),)) == told(north)
    assert told(north) != told(cells)


def test_a_value_that_is_listed_late_is_pooled() -> None:
    cells = Traffic(2).cells
    table = rows(window(cells).blocks, since={("channel", "post"): 50})
    known = {"channel": (OTHER, "chat", "email")}
    assert table == told(cells, kept=known)


def test_a_late_attribute_says_nothing() -> None:
    blocks = window(Traffic(2).cells).blocks
    for row in rows(blocks, since={("channel", None): 50}).values():
        assert (row.stages, row.versions_differ) == ({}, None)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_cells_and_the_parts_of_a_window_are_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = Traffic(seed).cells
    whole = window(cells).blocks
    order = rng.permutation(len(cells))
    assert told([cells[i] for i in order]) == told(cells)
    halves = rng.binomial(whole.decisions.values, 0.4)
    parts = (
        Counts(whole.decisions.keys, halves),
        Counts(whole.decisions.keys, whole.decisions.values - halves),
    )
    assert rows(replace(whole, decisions=merge(parts))) == told(cells)


def test_ids_of_cells_and_atoms_are_only_names() -> None:
    whole = window(Traffic(3).cells).blocks
    assert whole.index.versions is not None
    turned = -whole.index.cells[::-1]
    atoms = {atom: i for i, atom in enumerate(whole.index.atom_texts)}
    index = CellIndex(
        cells=turned,
        atoms=np.array([atoms[a] for a in whole.index.atoms[::-1].tolist()], np.int64),
        strata=whole.index.strata[::-1],
        atom_texts={atoms[a]: text for a, text in whole.index.atom_texts.items()},
        versions=-whole.index.versions[::-1],
    )
    counts = Counts(-whole.decisions.keys[::-1], whole.decisions.values[::-1])
    assert rows(replace(whole, decisions=counts, labelled=counts, index=index)) == rows(whole)


def test_decisions_and_labels_are_each_of_their_own_blocks() -> None:
    """The stage of a TPR knows no decision that came after the newest block of labels."""
    older = drawn(1, lambda a: CAUSES[Stage.SCORE] if a["channel"] == "chat" else USUAL)
    newer = drawn(2, lambda a: CAUSES[Stage.EVIDENCE] if a["channel"] == "chat" else USUAL)
    counts, index = table(newer)
    labelled, _ = table(older)
    chat = rows(replace(window(newer).blocks, decisions=counts, labelled=labelled, index=index))
    assert (stage(chat["chat"]), stage(chat["chat"], TPR)) == (Stage.EVIDENCE, Stage.SCORE)


# What may be told.


def test_a_named_reference_has_no_stage_and_the_others_have_it_as_theirs() -> None:
    drawn_cells = drawn(3, lambda a: CAUSES[Stage.THRESHOLD] if a["channel"] == "email" else USUAL)
    cells = [replace(cell, version=1) for cell in drawn_cells]
    table = told(cells, GroupBy(("channel",), "channel=email"))
    assert (table["email"].stages, table["email"].versions_differ) == ({}, None)
    for name in ("chat", "post"):
        assert stage(table[name]) is Stage.THRESHOLD
        assert table[name].versions_differ is False
    usual = told(cells, GroupBy(("channel",), "channel=post"))
    assert (stage(usual["chat"]), stage(usual["email"])) == (Stage.NONE, Stage.THRESHOLD)


@pytest.mark.parametrize("reference", ["channel=fax", "channel=post"])
def test_without_a_reference_nothing_is_told(reference: str) -> None:
    """One is pooled away, the other one has no decisions."""
    cells = [cell for cell in Traffic(4).cells if cell.atom["channel"] != "post"]
    for row in told(cells, GroupBy(("channel",), reference)).values():
        assert (row.stages, row.versions_differ) == ({}, None)


def test_a_small_slice_silences_the_table() -> None:
    few = auto({"channel": "email", "region": "north"}, 9, 9, 9)
    planted = drawn(5, lambda _: CAUSES[Stage.SCORE])
    cells = [cell for cell in planted if cell.atom["channel"] != "email"]
    for row in told([*cells, few]).values():
        assert (row.stages, row.versions_differ) == ({}, None)


def test_hidden_labels_silence_the_stage_of_the_tpr_alone() -> None:
    cells = drawn(6, lambda _: USUAL)
    north = {"channel": "chat", "region": "north"}
    hidden = [c if c.atom != north else replace(c, labelled=0, ready=0) for c in cells]
    south = {**north, "region": "south"}
    few = [
        replace(c, labelled=min(c.labelled, 1), ready=0) if c.atom == south else c for c in hidden
    ]
    for row in told(few).values():
        assert set(row.stages) == ({SELECTION} if row.rates else set())


def test_where_a_rate_is_coded_its_stage_is_not_told() -> None:
    """From none to k - 1 served ones look alike."""
    stopped = replace(USUAL, serve=(0, 0, 0))
    drawn_cells = drawn(7, lambda a: stopped if a["channel"] == "chat" else USUAL)
    cells = [replace(cell, version=1) for cell in drawn_cells]
    table = told(cells)
    assert table["chat"].rates[SELECTION].at_most is not None
    assert SELECTION not in table["chat"].stages
    assert table["chat"].versions_differ is False
    exact = told(cells, k=1, synthetic=True)
    assert exact["chat"].stages[SELECTION] == ShownStage(Stage.THRESHOLD, Share.MOST)


# Versions.


def versioned(seed: int, shares: Mapping[str, float]) -> list[Cell]:
    """The second of two versions answers this share of each channel's decisions."""
    rng = np.random.default_rng(seed)
    made = []
    for cell in drawn(seed, lambda _: USUAL):
        second = int(rng.binomial(cell.n, shares.get(cell.atom["channel"], 0.1)))
        made.append(replace(cell, n=cell.n - second, labelled=0, ready=0))
        made.append(replace(cell, n=second, labelled=0, ready=0, version=1))
    return made


def differ(table: Told) -> dict[str, bool | None]:
    return {name: row.versions_differ for name, row in table.items()}


def test_a_slice_with_other_versions_differs() -> None:
    found = Tally(
        (name, said)
        for seed in range(100)
        for name, said in differ(
            told(versioned(seed, {"chat": 0.3}), GroupBy(("channel",), "channel=post"))
        ).items()
    )
    assert found["chat", True] >= 95
    assert found["email", False] >= 95
    assert found["post", None] == found[OTHER, None] == 100


def test_pooled_rows_have_their_versions_together() -> None:
    other = {"channel": "fax", "region": "north"}, {"channel": "telex", "region": "north"}
    for second, expected in ((80, False), (400, True)):
        sizes = zip(other, (720, second), strict=True)
        rare = [replace(auto(atom, n), version=i) for i, (atom, n) in enumerate(sizes)]
        assert differ(told([*versioned(8, {}), *rare]))[OTHER] is expected


def test_probes_have_no_version() -> None:
    probes = [replace(auto(atom, 9_000, probe=True), version=7) for atom in ATOMS[:2]]
    assert told([*versioned(9, {}), *probes]) == told(versioned(9, {}))


@pytest.mark.parametrize("group", [GroupBy(("router",)), GroupBy(("channel", "router"))])
def test_slices_that_are_versions_are_not_asked(group: GroupBy) -> None:
    names = ("v1", "v2")
    cells = [
        replace(cell, atom={**cell.atom, "router": names[cell.version]})
        for cell in versioned(10, {"chat": 0.5})
    ]
    attributes = (Attribute("channel", ()), Attribute("router", (), "router"))
    kept = {**KEPT, "router": (OTHER, *names)}
    coding = replace(CODING, attributes=attributes)
    assert set(differ(told(cells, group, coding, kept)).values()) == {None}
    plain = replace(CODING, attributes=(attributes[0], Attribute("router", ())))
    assert True in differ(told(cells, group, plain, kept)).values()


def test_where_versions_are_not_known_nothing_is_said_of_them() -> None:
    """Windows of a few hours do not distinguish them."""
    blocks = window(versioned(11, {"chat": 1.0})).blocks
    assert differ(rows(blocks))["chat"] is True
    unknown = rows(replace(blocks, index=replace(blocks.index, versions=None)))
    assert {(row.versions_differ, row.versions_sent) for row in unknown.values()} == {(None, None)}


def test_what_a_router_does_not_send_neither_differs_nor_agrees() -> None:
    blocks = window(versioned(11, {"chat": 1.0})).blocks
    silent = replace(blocks.index, version_texts={0: "", 1: ""})
    table = rows(replace(blocks, index=silent))
    assert [table[name].versions_sent for name in CHANNELS] == [False] * 3
    assert {row.versions_differ for row in table.values()} == {None}
    naming = rows(replace(blocks, index=replace(silent, version_texts={0: "", 1: "judge=j1"})))
    assert [naming[name].versions_sent for name in CHANNELS] == [True] * 3
    assert naming["chat"].versions_differ is True


AT = 60
TEXTS = {0: "judge=j1,policy=p1", 1: "judge=j1,policy=p2", 2: "judge=j3,policy=p1"}
POLICY = (ComponentChange("policy", "p1", "p2"),)


def pooled_of(cells: Sequence[Cell], builder: Builder, group: GroupBy) -> Pooled:
    blocks = window(cells).blocks
    blocks = replace(blocks, index=replace(blocks.index, version_texts=TEXTS))
    return builder.pooled(group, blocks, MergeMap({name: KEPT[name] for name in group.attributes}))


def changed(
    before: Sequence[Cell],
    after: Sequence[Cell],
    noted_in: Sequence[str] = CHANNELS,
    coding: Coding = CODING,
) -> dict[str, tuple[ComponentChange, ...]]:
    """What is told of each slice in which a change is noted, by its value."""
    builder = Builder(contract(CHANNEL), coding)
    note = Noted(Annotation.VERSION_CHANGE, None, 1, AT)
    plain = builder.group(pooled_of([*before, *after], builder, CHANNEL))
    rows = tuple(
        replace(row, noted=(note,) if values(row.slice) in noted_in else ()) for row in plain.rows
    )

    def sides(at: int) -> tuple[Pooled, Pooled]:
        assert at == AT
        return pooled_of(before, builder, CHANNEL), pooled_of(after, builder, CHANNEL)

    told = with_version_changes(replace(plain, rows=rows), sides, coding, 11)
    return {values(row.slice): row.versions_changed for row in told.rows if row.versions_changed}


def answered_by(version: int, seed: int, *channels: str) -> list[Cell]:
    """Decisions of all channels, some of which another version answers."""
    return [
        replace(cell, labelled=0, ready=0, version=version * (cell.atom["channel"] in channels))
        for cell in drawn(seed, lambda _: USUAL)
    ]


def test_the_slice_in_which_it_is_noted_names_what_changed() -> None:
    before, after = answered_by(0, 1), answered_by(1, 2, "chat")
    assert changed(before, after) == {"chat": POLICY}
    assert changed(before, after, noted_in=["email"]) == {}


def test_each_slice_names_its_own_change() -> None:
    after = [
        cell
        for channel, version in (("chat", 1), ("email", 2), ("post", 0))
        for cell in answered_by(version, 3, channel)
        if cell.atom["channel"] == channel
    ]
    assert changed(answered_by(0, 4), after) == {
        "chat": POLICY,
        "email": (ComponentChange("judge", "j1", "j3"),),
    }


def test_a_hidden_slice_and_a_pooled_one_name_nothing() -> None:
    before, after = answered_by(0, 5), answered_by(1, 6, "fax", *CHANNELS)
    few = [cell for cell in after if cell.atom["channel"] == "chat"][:1]
    small = [cell for cell in before if cell.atom["channel"] != "chat"]
    newer = [cell for cell in after if cell.atom["channel"] != "chat"]
    assert changed(small, [*newer, replace(few[0], n=9)]) == {}, "too few hide the table"
    rare = [auto({"channel": "fax", "region": "north"}, 400)]
    later = [replace(rare[0], version=1)]
    assert OTHER not in changed([*before, *rare], [*after, *later], [OTHER, *CHANNELS])


def test_a_version_of_which_the_store_has_no_text_is_not_named() -> None:
    assert changed(answered_by(0, 7), answered_by(9, 8, "chat")) == {}


def test_slices_that_are_versions_name_nothing() -> None:
    coding = replace(CODING, attributes=(Attribute("channel", (), "router"),))
    assert changed(answered_by(0, 9), answered_by(1, 10, "chat"), coding=coding) == {}
