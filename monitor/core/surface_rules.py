"""The words of the surface table: rules, surfaces, rows."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass


class Rule(enum.Enum):
    """What keeps a name from telling of a single decision, a single label or a small slice."""

    RELEASED_RATE = (
        "A rate or a difference of whole release blocks, to two decimals; where its hits or misses"
        " are fewer than k there is a bound in its place."
    )
    BOUND = (
        "Computed from the rounded rate and the lower edge of the support's band, and rounded"
        " outward: exact bounds give the counts away."
    )
    CODED = "A bound that stands for 0 to k - 1 decisions alike, in place of the number."
    BAND = "The lower edge of a band; bands begin at k, and each is a quarter wider than the last."
    ROUNDED_SHARE = "A share to two decimals, of counts that are taken down to their bands first."
    STATE = (
        "A function of released blocks: it moves when a block closes, and there is one hidden state"
        " whatever the reason."
    )
    CLASS = (
        "One of a few classes, each of which stands for a wide range; like a state it moves from"
        " the end of one release block to the end of another."
    )
    COUNTED = (
        "How often a sequential test has found something, by what is known at the end of a release"
        " block: tests need many labels for one finding, and none tells which."
    )
    PAGE = (
        "The one thing that does not wait for a block: it comes with the cohort that crosses, and"
        " without slice and number."
    )
    PERIOD = "An instant on an edge of five minutes or of a release block, never that of an event."
    DECLARED = "As declared in the settings or by a command; it knows no data."
    LISTED = "A name from a closed list: the settings' allow-lists, or the program's own words."
    STEPS = (
        "A total of the whole stream in whole hundreds, renewed only after a hundred further"
        " events: neither a small window nor a single event can be read from it."
    )
    WHOLE_STREAM = "Of the whole stream or a partition, and of no slice, route or label."
    PROCESS = "How the process fares: states, ages, durations. It knows no decision."
    KEYED = "A keyed hash: without the key nothing can be tried against it."
    OPERATOR = (
        "For those who have the database's own login, and could read all counts: whole tables and"
        " partitions, no slice."
    )
    SYNTHETIC = "Made by the demo's own generator: test conditions, of nobody."
    AUDITED = (
        "Of a file that somebody audits: exact where its set is declared synthetic. Else it passes"
        " the guards like a single release block (rates to two decimals, bounds from them, bands"
        " from k, one hidden state), and no pair is named."
    )
    PROBE = (
        "Exact, of probe requests alone: synthetic test conditions of nobody, signed by whoever"
        " owns the set, and in no production rate."
    )
    ANNOUNCED = "Not exported yet; whoever adds it keeps to what its row says."
    NEVER = "Must not leave the service in any form."


class Surface(enum.StrEnum):
    """Where a name is read."""

    METRIC = "metric"  # /metrics, both ports
    SNAPSHOT = "snapshot"  # the Snapshot: pages, /snapshot/ID, replay --json, demo --json
    PUBLISHED = "published"  # the tables of the reporter's login
    DEMO = "demo"  # slicewatch demo --json
    STATUS = "status"  # slicewatch db status --json
    DEAD_LETTER = "dead letter"  # slicewatch db dead-letters
    INCIDENT = "incident"  # slicewatch incident --json
    PROBES = "probes"  # slicewatch probe status --json
    AUDIT = "audit"  # slicewatch audit, in every format
    LOG = "log"  # standard error of the service
    LATER = "later"  # what later steps of the plan export


@dataclass(frozen=True, slots=True)
class Row:
    """One exported name.

    Attributes:
        surface: where it is read.
        name: as it is read there; of a log line, its event with the places of its arguments.
        rule: what it obeys.
        why: how it comes to obey the rule, or why it may be exact.
    """

    surface: Surface
    name: str
    rule: Rule
    why: str


def rows_for(surface: Surface, rule: Rule, why: str, *names: str) -> Iterator[Row]:
    """A row for each of the names that stand in some texts."""
    return (Row(surface, name, rule, why) for text in names for name in text.split())
