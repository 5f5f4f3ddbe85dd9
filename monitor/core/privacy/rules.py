"""Privacy rules of all names that leave the service.

The declaration of a metric states its rule. A test checks every other exported name (fields of
the Snapshot, published tables, commands, log lines) against the same rules.
"""

from __future__ import annotations

import enum


class PrivacyRule(enum.Enum):
    """Rule that keeps a name from revealing a single decision, a single label or a small slice."""

    RELEASED_RATE = (
        "A rate or a difference of published tables, computed from their bands; where its hits or"
        " misses are fewer than k there is a bound in its place."
    )
    BOUND = (
        "Computed from the bands of published tables, and rounded outward: exact bounds give the"
        " counts away."
    )
    CODED = "A bound that stands for 0 to k - 1 decisions alike, in place of the number."
    BAND = "Computed from the middles or the edges of bands that hold k numbers or more."
    ROUNDED_SHARE = (
        "A share to two decimals: rounded like a rate where neither part is below k, else of counts"
        " that are taken down to their bands first."
    )
    STATE = (
        "A function of published tables: it moves when one is made, and there is one hidden state"
        " whatever the reason."
    )
    CLASS = (
        "One of a few classes, each of which stands for a wide range; it moves at the ends of hours"
        " or days."
    )
    COUNTED = (
        "How often a sequential test has found something, by what is known at the end of a day:"
        " tests need many labels for one finding, and none tells which."
    )
    PAGE = (
        "The one thing that does not wait for a table: it comes with the cohort that crosses; slice"
        " and numbers only where a table shows them."
    )
    PERIOD = "An instant on an edge of five minutes or of a table's span, never that of an event."
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
        " the guards like a single table (bands, rates and bounds from them, one hidden state), and"
        " no pair is named."
    )
    PROBE = (
        "Exact, of probe requests alone: synthetic test conditions of nobody, signed by whoever"
        " owns the set, and in no production rate."
    )
    ANNOUNCED = "Not exported yet; whoever adds it keeps to what its row says."
    NEVER = "Must not leave the service in any form."
