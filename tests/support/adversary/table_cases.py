"""Worlds built against the guard of published tables: each broke an earlier form of it."""

from __future__ import annotations

import numpy as np
from adversary.table_worlds import (
    LABELS,
    NONE,
    NOT_READY,
    READY,
    TableWorld,
    all_pairs,
    decisions_only,
    without_changes,
)

from monitor.core.counts.cells import Route
from monitor.core.tables.settings import Part
from monitor.core.tables.spans import Edition, SpanKind

HOUR, DAY, WEEK, FOUR_WEEKS = SpanKind
FIRST = (Edition.FIRST,)


def labelled(name: str, rows: object) -> TableWorld:
    """One week of the rows of one attribute, each (none, ready, not ready) by route."""
    counts = np.array(rows, np.int64)[None]
    world = without_changes(counts)
    size = (counts.shape[1],)
    return TableWorld(name, size, world, (WEEK,), ((0,),), labels=True, editions=FIRST)


def labels_that_cross(name: str, rows: object) -> TableWorld:
    """One week of two attributes of two values, each (none, ready, not ready) by route."""
    world = without_changes(np.array(rows, np.int64)[None])
    return TableWorld(name, (2, 2), world, (WEEK,), all_pairs(2), labels=True, editions=FIRST)


def crossed(name: str, spans: object, *kinds: SpanKind) -> TableWorld:
    """Decisions (served, reviewed) by span and two attributes."""
    counts = np.array(spans, np.int64)
    flat = decisions_only(counts.reshape(counts.shape[0], -1, 2))
    return TableWorld(name, counts.shape[1:3], flat, kinds, all_pairs(2))


def run_of_days(name: str, days: object) -> TableWorld:
    """Decisions (served, reviewed) of everything, day by day, and their week."""
    counts = np.array(days, np.int64)[:, None]
    return TableWorld(name, (1,), decisions_only(counts), (DAY, WEEK), ())


def audits_that_cross(name: str, rate: float, rows: object) -> TableWorld:
    """One week of attributes of three and two values; served decisions are audited at a rate.

    Each atom is (none, ready, not ready, never requested) by route.
    """
    parts = (Part(Route.AUTO_SERVE, rate), Part(Route.HUMAN_REVIEW, 1.0))
    world = without_changes(np.array(rows, np.int64)[None])
    return TableWorld(
        name, (3, 2), world, (WEEK,), all_pairs(2), labels=True, parts=parts, editions=FIRST
    )


FOUND_AT_RANDOM = (
    audits_that_cross(
        "margins of a small difference, one of whose labels is in a higher band",
        0.05,
        [
            [[0, 0, 0, 1], [0, 1, 0, 0]],
            [[0, 2, 0, 17], [0, 0, 0, 0]],
            [[0, 0, 0, 18], [0, 2, 0, 0]],
            [[0, 8, 2, 136], [0, 3, 1, 0]],
            [[0, 4, 1, 122], [0, 1, 1, 0]],
            [[0, 34, 4, 754], [0, 63, 102, 0]],
        ],
    ),
    audits_that_cross(
        "margins of a small difference, and few reviews in all",
        0.05,
        [
            [[0, 0, 0, 3], [0, 1, 1, 0]],
            [[0, 1, 0, 18], [0, 0, 1, 0]],
            [[0, 2, 1, 34], [0, 0, 2, 0]],
            [[0, 5, 0, 89], [0, 10, 14, 0]],
            [[0, 0, 1, 18], [0, 1, 6, 0]],
            [[0, 3, 1, 67], [0, 12, 28, 0]],
        ],
    ),
)
"""Of random worlds in which two crossing slices left 5 values of a label count."""

COUNTEREXAMPLES = (
    labelled("one missing label", [[[0, 10, 10], [1, 11, 12]], [[0, 200, 60], [0, 80, 300]]]),
    labelled("labels of two rows", [[[20, 37, 0], [5, 2, 49]], [[0, 4, 6], [0, 0, 12]]]),
    labelled("labels of two other rows", [[[0, 28, 18], [0, 52, 41]], [[1, 4, 5], [0, 37, 10]]]),
    crossed(
        "two attributes that cross, three by three",
        [[[[0, 16], [26, 17], [12, 5]], [[0, 5], [23, 5], [64, 17]], [[11, 10], [1, 18], [5, 0]]]],
        DAY,
    ),
    crossed(
        "two attributes that cross, four weeks and their sum",
        [
            [[[38, 10], [38, 50]], [[0, 20], [44, 48]]],
            [[[18, 24], [10, 12]], [[4, 19], [0, 0]]],
            [[[10, 5], [1, 12]], [[12, 0], [23, 19]]],
            [[[0, 14], [34, 8]], [[10, 0], [11, 6]]],
        ],
        WEEK,
        FOUR_WEEKS,
    ),
    labelled("labels against bands", [[[5, 4, 8], [5, 4, 56]], [[0, 0, 31], [0, 19, 6]]]),
    labelled("labels against other bands", [[[6, 9, 32], [1, 10, 11]], [[0, 1, 5], [0, 10, 0]]]),
    labelled("a count of missing labels", [[[22, 42, 39], [54, 0, 3]], [[21, 0, 9], [10, 10, 11]]]),
    labelled("no reviewed label", [[[12, 16, 11], [21, 4, 9]], [[20, 42, 53], [21, 0, 0]]]),
    labelled("the size of a row of labels", [[[0, 69, 8], [0, 23, 4]], [[10, 7, 22], [0, 5, 11]]]),
    labels_that_cross(
        "labels that cross, few of them missing",
        [
            [[24, 18, 4], [0, 10, 21]],
            [[18, 22, 25], [0, 16, 11]],
            [[0, 28, 0], [6, 1, 3]],
            [[0, 34, 0], [0, 37, 10]],
        ],
    ),
    labels_that_cross(
        "labels that cross, in bands whose edges are no multiples of k",
        [
            [[0, 0, 17], [21, 5, 8]],
            [[13, 1, 27], [20, 15, 17]],
            [[12, 9, 48], [56, 0, 33]],
            [[31, 11, 21], [0, 22, 10]],
        ],
    ),
    labels_that_cross(
        "labels that cross, and a count of those that are missing",
        [
            [[5, 17, 4], [2, 17, 0]],
            [[3, 39, 44], [0, 9, 5]],
            [[0, 21, 0], [10, 12, 2]],
            [[8, 24, 22], [5, 10, 0]],
        ],
    ),
    labels_that_cross(
        "labels that cross, where intervals left 8 values and equations 4",
        [
            [[15, 16, 21], [14, 38, 10]],
            [[5, 15, 10], [0, 17, 12]],
            [[10, 57, 17], [0, 12, 12]],
            [[5, 27, 0], [0, 28, 11]],
        ],
    ),
    labels_that_cross(
        "labels that cross, and rows that are hidden for few labels",
        [
            [[10, 9, 1], [4, 5, 22]],
            [[18, 9, 9], [11, 6, 28]],
            [[25, 10, 21], [10, 21, 4]],
            [[9, 7, 2], [12, 27, 0]],
        ],
    ),
    labels_that_cross(
        "labels that cross, and decisions of rows that are all labelled",
        [
            [[23, 12, 8], [78, 13, 49]],
            [[24, 3, 51], [0, 9, 0]],
            [[0, 20, 10], [0, 8, 32]],
            [[9, 11, 15], [9, 0, 22]],
        ],
    ),
    labels_that_cross(
        "labels that cross, of which hardly any is missing",
        [
            [[2, 9, 7], [28, 38, 18]],
            [[0, 17, 22], [28, 17, 27]],
            [[0, 17, 10], [0, 9, 12]],
            [[1, 35, 67], [0, 11, 10]],
        ],
    ),
)
"""Of climbs against rounded rates, which left one value, and against earlier bands: 1 to 4."""


def _diagonal() -> TableWorld:
    cells = np.full((1, 3, 3, 2), (40, 20), np.int64)
    cells[0, range(3), range(3)] = 5
    return crossed("a hidden diagonal", cells, DAY)


def _three_ways() -> TableWorld:
    counts = np.full((1, 8, 2), (13, 6), np.int64)
    counts[0, [0, 3, 5, 6]] = (5, 2)
    return TableWorld("three that cross", (2, 2, 2), decisions_only(counts), (DAY,), all_pairs(3))


def _climbed_three_ways() -> TableWorld:
    routes = [[2, 12], [26, 21], [0, 30], [23, 22], [1, 10], [8, 26], [10, 5], [0, 26]]
    counts = decisions_only(np.array([routes]))
    return TableWorld("a climb in three that cross", (2, 2, 2), counts, (DAY,), all_pairs(3))


def _quiet_nights() -> TableWorld:
    counts = np.zeros((24, 2, 2), np.int64)
    counts[8:20] = [[30, 15], [12, 14]]
    counts[[1, 3, 23], [0, 1, 1], [0, 0, 1]] = 1
    return TableWorld("quiet nights", (2,), decisions_only(counts), (HOUR, DAY), ((0,),))


def _added() -> TableWorld:
    counts = np.zeros((7, 4, 2), np.int64)
    counts[:, :] = [[20, 11], [9, 10], [14, 10], [31, 12]]
    return TableWorld(
        "an attribute that is added on Thursday",
        (2, 2),
        decisions_only(counts),
        (DAY, WEEK),
        all_pairs(2),
        added=(1, 3),
    )


def _two_editions() -> TableWorld:
    counts = np.zeros((7, 2, 2, len(LABELS), len(LABELS), 2), np.int64)
    counts[:, :, 0, READY, READY, 0], counts[:, :, 0, NOT_READY, NOT_READY, 0] = 8, 3
    counts[:, :, 1, READY, READY, 0], counts[:, :, 1, NOT_READY, NOT_READY, 0] = 4, 9
    counts[2, 0, 0, NONE, READY, 0] = 1
    counts[:, 1, 0, READY, NOT_READY, 0] = 2
    return TableWorld("two editions", (2,), counts, (DAY, WEEK), ((0,),), labels=True)


def _edges() -> TableWorld:
    days = [(21, 10), (32, 10), (43, 10), (54, 10), (21, 43), (65, 10), (21, 10)]
    return run_of_days("days at the upper ends of their bands", days)


def _hours_against_a_week() -> TableWorld:
    """Nearly all is at the upper end of a band; the week is not, and 10 decisions come in an hour.

    A week that is made without looking at the hours leaves 4 values of that hour.
    """
    days = [614, 1165, 890, 725, 890, 824, 857]
    served = np.full((7, 24), 10)
    served[1:, 0] = 0
    for hours, total in zip(served, days, strict=True):
        steps, rest = divmod(total - int(hours.sum()), 11)
        hours[1:] += 11 * (steps // 23 + (np.arange(23) < steps % 23))
        hours[-1] += rest
    counts = np.stack([served.ravel(), np.full(168, 15)], axis=1)[:, None]
    return TableWorld("hours against a week", (1,), decisions_only(counts), (HOUR, DAY, WEEK), ())


BUILT = (
    _diagonal(),
    _three_ways(),
    _climbed_three_ways(),
    _quiet_nights(),
    _added(),
    _two_editions(),
    _edges(),
    _hours_against_a_week(),
    run_of_days("a week just above the bound of its days", [(10, 12)] * 7),
    run_of_days("one day with a small count among large ones", [(30, 23)] * 6 + [(3, 40)]),
)
