"""Annotations of a slice's numbers: findings of tests that never page, and facts about its router.

All lists are closed and may be shown, because they change only at the ends of days.
"""

from __future__ import annotations

import enum


class Annotation(enum.StrEnum):
    """Kind of an advisory finding in a slice; advisory findings never page."""

    GAP = "gap"  # on a weekly list: its contract is broken (false discovery rate 0.10)
    DRIFT = "drift"  # on a weekly list: worse than its own reference, mix by mix
    MIX_SHIFT = "mix_shift"  # its rate has moved although no mix's has: other requests come
    ADWIN = "adwin"  # river's detectors found a change: advice, never sent
    PAGE_HINKLEY = "page_hinkley"
    LABELS_LATER = "labels_later"  # over a week its labels came later than its reference's
    LABELS_EARLIER = "labels_earlier"
    VERSION_CHANGE = "version_change"  # other versions answer it


class Stage(enum.StrEnum):
    """Stage of the router at which a slice and its reference diverge; in the router's order."""

    EVIDENCE = "evidence"
    SCORE = "score"
    THRESHOLD = "threshold"
    UNKNOWN = "unknown"  # the router sends no score for the decisions that make the difference
    NONE = "none"  # no significant difference


class Share(enum.StrEnum):
    """Share of a difference that a stage or cause explains, in three classes that may be shown."""

    MOST = "most"  # two thirds or more
    ABOUT_HALF = "about half"
    SOME = "some"  # less than a third


class Fault(enum.StrEnum):
    """Fault in the labels of a stratum or slice: too few or too many requests, or no labels."""

    TOO_FEW = "too_few"  # labels are requested less often than the decisions say
    TOO_MANY = "too_many"
    MISSING = "missing"  # requested labels do not come, though those of other slices do


class IncidentKind(enum.StrEnum):
    """Kind of an incident by the test that found it: sequential test or weekly list."""

    BREACH = "breach"  # a contract stream has crossed
    LISTED = "listed"  # on the weekly list


class Behind(enum.StrEnum):
    """Side that is worse off in an incident: slice, reference, or the slice against a level."""

    SLICE = "slice"  # the slice, compared with its reference
    REFERENCE = "reference"  # the reference: the slice is better off
    LEVEL = "level"  # no comparison: the slice does not keep a level of the contract


class Outcome(enum.StrEnum):
    """Outcome of an incident, as stated by the person who closed it."""

    FIXED = "fixed"  # there was a gap, and it is repaired
    NOT_REAL = "not_real"  # there was none
    ACCEPTED = "accepted"  # there is one, and it is tolerated until some day
    BAD_DATA = "bad_data"  # the data were wrong

    @property
    def words(self) -> str:
        """Return the outcome as people read it."""
        return self.value.replace("_", " ")
