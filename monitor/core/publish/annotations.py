"""What stands beside the numbers of a slice: found by tests that never page, or told of its router.

Closed lists: every one of them may be shown, since each knows whole release blocks alone.
"""

from __future__ import annotations

import enum


class Annotation(enum.StrEnum):
    """What was found in a slice at some time."""

    GAP = "gap"  # on a weekly list: its contract is broken (false discovery rate 0.10)
    DRIFT = "drift"  # on a weekly list: worse than its own reference, mix by mix
    MIX_SHIFT = "mix_shift"  # its rate has moved although no mix's has: other requests come
    ADWIN = "adwin"  # river's detectors found a change: advice, never sent
    PAGE_HINKLEY = "page_hinkley"
    LABELS_LATER = "labels_later"  # over a week its labels came later than its reference's
    LABELS_EARLIER = "labels_earlier"
    VERSION_CHANGE = "version_change"  # other versions answer it


class Stage(enum.StrEnum):
    """A stage of the router, in order; NONE is no sure difference."""

    EVIDENCE = "evidence"
    SCORE = "score"
    THRESHOLD = "threshold"
    NONE = "none"


class Share(enum.StrEnum):
    """How much of what parts two slices a stage makes; the only form that may be shown."""

    MOST = "most"  # two thirds or more
    ABOUT_HALF = "about half"
    SOME = "some"  # less than a third


class Fault(enum.StrEnum):
    """What is wrong with the label requests of a stratum."""

    TOO_FEW = "too_few"
    TOO_MANY = "too_many"


class IncidentKind(enum.StrEnum):
    """How loud an incident is."""

    PAGE = "page"  # a contract stream has crossed: somebody is woken
    TICKET = "ticket"  # on the weekly list: somebody looks at it in office hours


class Outcome(enum.StrEnum):
    """What people found an incident to be when they closed it."""

    CONFIRMED = "confirmed"  # there was a gap, and it is repaired
    FALSE_ALARM = "false_alarm"  # there was none
    ACCEPTED = "accepted"  # there is one, and it is lived with until some day
    DATA_FAULT = "data_fault"  # the data were wrong
