"""Worlds built to leak where merge maps or settings change: by subtraction of exact block sums."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import lesson
import numpy as np
import pytest
from adversary.service import settings_text
from adversary.week_sums import Known
from adversary.worlds import AUTO, DAY, HOUR, START, World
from guarded import Given, world_of
from pipeline import DECISIONS, Pipeline, settings_with
from releasing import (
    MARGIN,
    STEP,
    Kept,
    Releasing,
    Row,
    attributes_of,
    kept_of,
    released,
    row_of,
)

from monitor import composition
from monitor.core.time import to_datetime
from monitor.evaluate.blocks.family_state import FamilyState

pytestmark = pytest.mark.full

K = 11
FAXES = ("fax1", "fax2", "fax3", "fax4", "fax5")
FORMS = ("form1", "form2", "form3", "form4", "form5")
CHANNELS = ("chat", "email", *FAXES, *FORMS, "rest")
Sums = dict[tuple[int, int, frozenset[str]], int]


def channel_world(
    days: Sequence[Mapping[str, int]], more: Mapping[str, tuple[str, ...]] | None = None
) -> World:
    """So many decisions of each channel a day: chat all day long, the others in one hour.

    Of other attributes all have the first value.
    """
    rng, at, atom = np.random.default_rng(3), [], []
    for day, counts in enumerate(days):
        for channel, n in counts.items():
            first, length = (0, 24) if channel == "chat" else (12, 1)
            spread = rng.integers(first * HOUR, (first + length) * HOUR, n)
            at.append(START + day * DAY + spread)
            atom.append(np.full(n, CHANNELS.index(channel)))
    when, what = np.concatenate(at), np.concatenate(atom)
    order = np.argsort(when, kind="stable")
    when, what = when[order], what[order]
    nobody, none = np.empty(0, np.int64), np.zeros(len(when), np.int64)
    cells = (when, what, np.full(len(when), AUTO), none, none)
    others = {} if more is None else more
    atoms = tuple((name, *(values[0] for values in others.values())) for name in CHANNELS)
    return world_of(
        {"a": CHANNELS, **others}, atoms, len(days), cells, Given(nobody, nobody, nobody, nobody)
    )


def sums(
    kept: Kept,
    panes: Sequence[Row],
    where: Mapping[str, str],
    name: str = "a",
    values: Sequence[str] = CHANNELS,
) -> Sums:
    """Everything that the blocks of the group-by and the total publish: span, channels, count."""
    found: Sums = {}
    for family in kept.maps:
        names = attributes_of(family)
        for start, end in kept.blocks(family, labels=False):
            rows: dict[tuple[str, ...], set[str]] = {}
            for channel in values:
                if where.items() <= {name: channel}.items():
                    row = row_of(kept.maps[family], {name: channel, "b": "p"}) if names else ()
                    rows.setdefault(row, set()).add(channel)
            for channels in rows.values():
                found[start, end, frozenset(channels)] = sum(
                    pane.decisions
                    for pane in panes
                    if start <= pane.start < end and pane.atom[name] in channels
                )
    return found


def small_differences(all_sums: Sequence[Sums]) -> list[str]:
    """Slices of 1 to k - 1 found by subtracting one sum of the same span from another."""
    spans: dict[tuple[int, int], dict[frozenset[str], int]] = {}
    for start, end, channels in chain.from_iterable(all_sums):
        known = next(one[start, end, channels] for one in all_sums if (start, end, channels) in one)
        spans.setdefault((start, end), {})[channels] = known
    return [
        f"{sorted(large - small)} from {start} to {end}: {n - m}"
        for (start, end), known in spans.items()
        for large, n in known.items()
        for small, m in known.items()
        if small < large and 0 < n - m < K
    ]


def blocks_joined(found: Sums) -> Sums:
    """The sums of successive blocks too, from every block's beginning."""
    joined = dict(found)
    for channels in {channels for _, _, channels in found}:
        runs = sorted((s, e, n) for (s, e, c), n in found.items() if c == channels)
        for i, (start, until, total) in enumerate(runs):
            joined |= _run(start, until, total, runs[i + 1 :], channels)
    return joined


def _run(
    start: int,
    until: int,
    total: int,
    later: Sequence[tuple[int, int, int]],
    channels: frozenset[str],
) -> Sums:
    found: Sums = {}
    for next_start, end, n in later:
        if next_start != until:
            break
        until, total = end, total + n
        found[start, until, channels] = total
    return found


def look(site: Releasing, where: Mapping[str, str] | None = None) -> Sums:
    return blocks_joined(sums(site.kept(), released(site.engine, STEP), where or {}))


# B: maps that are made anew every week. First the faxes are pooled, then email; one is in the rest
# with both, and the forms that fill the rest up come later only.

QUICK = {"chat": 300, "email": 12, **dict.fromkeys(FAXES, 8), "rest": 1}
TURNED = {"chat": 300, "email": 0, **dict.fromkeys(FAXES, 60), **dict.fromkeys(FORMS, 8), "rest": 1}
WEEKS = [*[QUICK] * 6, {**QUICK, "email": 0}, *[TURNED] * 9]


def weekly(folder: Path) -> list[Sums]:
    """What is published at the end of each day; ``rest`` is never named, the others in turn."""
    world, found = channel_world(WEEKS), []
    with Releasing(world, folder, tested=False) as site:
        for day in range(1, len(WEEKS) + 1):
            site.until(START + day * DAY + MARGIN)
            if "replies/a" in site.kept().maps:
                found.append(look(site))
    return found


def names(found: Sequence[Sums]) -> set[frozenset[str]]:
    return {channels for one in found for _, _, channels in one}


def test_a_new_map_says_nothing_of_what_neither_names(tmp_path: Path) -> None:
    found = weekly(tmp_path)
    assert {frozenset({"email"}), frozenset({"fax1"})} <= names(found), "both were named, in turn"
    assert frozenset({"email", *FORMS, "rest"}) in names(found)
    assert frozenset({*FAXES, *FORMS, "rest"}) in names(found)
    assert small_differences(found) == []


def test_without_the_former_maps_it_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FamilyState, "remember", lambda _: None)
    assert [leak for leak in small_differences(weekly(tmp_path)) if "'rest'" in leak]


# The same of labels: their maps are others, and so are their blocks. A third of all is labelled.


def labelled(made: World) -> World:
    """Every third decision of a channel has a label, and each of ``rest``."""
    rest = CHANNELS.index("rest")
    each = [
        np.flatnonzero(made.atom == at)[:: 1 if at == rest else 3] for at in range(len(CHANNELS))
    ]
    says = np.sort(np.concatenate(each))
    asked, first = np.zeros(len(made.at), np.int64), np.ones(len(says), np.int64)
    asked[says] = 1
    said_at, ready = made.at[says] + 2 * HOUR, np.arange(len(says)) % 2
    return replace(made, asked=asked, says=says, said_at=said_at, labelled=first, ready=ready)


def labels_told(folder: Path) -> Known:
    """Who has the exact sums of all blocks of labels, each day."""
    made = labelled(channel_world(WEEKS))
    known = Known([tuple(zip(made.names, atom, strict=True)) for atom in made.atoms])
    with Releasing(
        made,
        folder,
        settings_text(made, exact=False).replace('"7d"', '"30d"', 1),
        tested=False,
    ) as site:
        for day in range(1, len(WEEKS) + 2):
            site.until(START + day * DAY + 2 * MARGIN)
            known.look(site, {})
    return known


REST = (CHANNELS.index("rest"),)


def test_new_maps_of_labels_say_nothing_of_what_neither_names(tmp_path: Path) -> None:
    known = labels_told(tmp_path)
    named = {value for rows in known.rows for _, values in rows.names for value in values}
    assert {"email", "fax1"} <= named
    assert known.leaks_of(REST) == []


def test_without_the_former_maps_of_labels_they_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FamilyState, "remember", lambda _: None)
    assert labels_told(tmp_path).leaks_of(REST)


# C: a contract whose second version is about fewer.


def narrowed(folder: Path, more: Callable[[str], str]) -> list[Sums]:
    """What is published before and after a ``where`` is added: all but a few are inside."""
    world = channel_world([{"chat": 400, "rest": 1}] * 6, {"b": ("p", "q")})
    before = settings_text(world, exact=False)
    for group in ("['a']", "['a', 'b']"):
        before = before.replace(f"{{ attributes = {group} }}, ", "").replace(
            f", {{ attributes = {group} }}", ""
        )
    with Releasing(world, folder, before, tested=False) as site:
        site.until(START + 4 * DAY + MARGIN)
        found = [look(site)]
        site.change(more(before).replace('version = "1"', 'version = "2"'))
        site.restart()
        for hour in range(4 * 24 + 1, 6 * 24):
            site.until(START + hour * HOUR + MARGIN)
            found.append(look(site, {"a": "chat"}))
    return found


def only_chat(text: str) -> str:
    return text.replace('owner = "tests"', 'owner = "tests"\nwhere = { a = "chat" }')


def test_who_is_outside_of_a_new_where_is_not_found(tmp_path: Path) -> None:
    found = narrowed(tmp_path, only_chat)
    assert small_differences(found) == []
    assert any(channels == {"chat"} for _, _, channels in found[-1]), "it does publish"


def test_without_the_former_settings_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FamilyState, "_remember", lambda *_: None)
    assert [leak for leak in small_differences(narrowed(tmp_path, only_chat)) if "rest" in leak]


# D: an attribute that is a version of the router, whose aliases change: the canary becomes stable.

RELEASES = ("stable", "canary", "__other__", "__missing__")
PROMOTED = 4
"""Day on which the second policy becomes stable, at noon, and the third one the canary."""
LOOK_HOURS = 6


def released_text(stable: str, canary: str) -> str:
    return f"""
[stream]
clock = "history"
horizon = "7d"
[privacy]
id_key = "a key for tests that is long enough"
[[attribute]]
name = "release"
source = "version"
version_of = "policy"
values = ["stable", "canary"]
aliases = {{ {stable} = "stable", {canary} = "canary" }}
[[use_case]]
name = "replies"
owner = "tests"
k = {K}
group_bys = [{{ attributes = ["release"], reference = "release=stable" }}]
[use_case.contract]
version = "1"
effective = 2026-01-01
reason = "test"
"""


def decided(rng: np.random.Generator, hour: int) -> Iterator[tuple[int, bytes]]:
    """Decisions of an hour with the hour in which each arrives: one in ten is three hours late."""
    day, at = divmod(hour, 24)
    later = day * 24 + at >= PROMOTED * 24 + 12
    policies = {"p2": 12, "p3": 1, "": 0.2} if later else {"p1": 12, "p2": 1, "p3": 0.1, "": 0.2}
    for policy, often in policies.items():
        for second in np.sort(rng.integers(0, 3600, rng.poisson(often))).tolist():
            moment = to_datetime(START + hour * HOUR + second * 1_000_000)
            event = lesson.decision(f"{policy} {hour} {second}", moment, 0.8)
            event["versions"] = {"policy": policy} if policy else None
            yield hour + 3 * bool(rng.random() < 0.1), json.dumps(event).encode()


def test_a_change_of_aliases_moves_nothing_from_slice_to_slice(tmp_path: Path) -> None:
    """Published sums before and after it differ by nobody that is fewer than k."""
    rng = np.random.default_rng(5)
    arriving: dict[int, list[bytes]] = {}
    for hour in range(7 * 24):
        for arrives, event in decided(rng, hour):
            arriving.setdefault(arrives, []).append(event)
    found: list[Sums] = []
    with Pipeline(tmp_path, text=released_text("p1", "p2"), stream__lateness="1h") as pipeline:
        pipeline.worker()
        evaluator = pipeline.evaluator()
        for hour in range(7 * 24):
            if hour == PROMOTED * 24 + 12:
                pipeline.kill(pipeline.workers[0])
                evaluator.release_lease()
                text = released_text("p2", "p3")
                pipeline.settings = settings_with(
                    tmp_path, text, stream__clock="history", stream__lateness="1h"
                )
                composition.open_store(pipeline.settings, pipeline.clock).dispose()
                pipeline.worker()
                evaluator = pipeline.evaluator()
            pipeline.broker.produce(DECISIONS, arriving.get(hour, []), 0)
            if hour % LOOK_HOURS:
                continue
            pipeline.drain()
            assert evaluator.cycle()
            kept = kept_of(pipeline.engine)
            if "replies/release" in kept.maps:
                panes = released(pipeline.engine, STEP)
                found.append(blocks_joined(sums(kept, panes, {}, "release", RELEASES)))
    assert small_differences(found) == []
    ends = {end for one in found for _, end, rows in one if rows == {"canary"}}
    noon = START + PROMOTED * DAY + DAY // 2
    assert min(ends) < noon < max(ends), "the canary is published before and after"
