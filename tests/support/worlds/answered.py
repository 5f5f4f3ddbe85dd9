"""Cohorts of which every requested label has come."""

from __future__ import annotations

from monitor.core.counts.cells import Int64s
from monitor.detection.pages.cohort import SliceCohort


def answered(decisions: Int64s, labelled: Int64s, ready: Int64s, routed: Int64s) -> SliceCohort:
    """A cohort that lacks no label."""
    by_route = labelled.sum(axis=(2, 3))
    return SliceCohort(decisions, labelled, ready, routed, by_route, by_route)
