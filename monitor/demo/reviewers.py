"""Synthetic reviewers: they answer hours later, sometimes cannot tell, sometimes correct."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from monitor.core.counts.cells import Int64s, Route
from monitor.core.counts.labels import NOT_READY, READY, UNDECIDABLE
from monitor.core.time import HOUR, MINUTE
from monitor.demo.router import Bools, Decisions, Floats

UNDECIDED = 0.01
CORRECTED = 0.015
REVIEW_HOURS, REVIEW_SIGMA, REVIEW_MOST = 2.0, 0.7, 12.0
AUDIT_HOURS, AUDIT_SIGMA, AUDIT_MOST = 8.0, 0.25, 30.0
"""Delays are log-normal: median and longest in hours. Audits wait longer than the review queue;
with corrections everything is said within two days, before the demo's horizon of three. Their
tail is short, so that slices do not fall back to maturing when the label frontier moves early."""
CORRECTION_HOURS = (0.5, 8.0)
REVIEWERS = 12


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels as columns of equal length, in order of labelled_at.

    Attributes:
        number: of the decision.
        at: decided_at of the decision.
        labelled_at: microseconds.
        ready: 0 not ready, 1 ready, 2 the reviewer could not tell.
        correction: a second label that overrules the first.
        audit: a random audit; else the decision was sent to review.
        reviewer: which of them.
    """

    number: Int64s
    at: Int64s
    labelled_at: Int64s
    ready: Int64s
    correction: Bools
    audit: Bools
    reviewer: Int64s

    def __len__(self) -> int:
        return len(self.number)

    def take(self, rows: Int64s | Bools) -> Labels:
        """The chosen rows, in the order given."""
        return Labels(*(getattr(self, f.name)[rows] for f in fields(self)))

    def joined(self, other: Labels) -> Labels:
        """These, then the others."""
        names = [f.name for f in fields(self)]
        return Labels(*(np.concatenate([getattr(self, n), getattr(other, n)]) for n in names))


class Reviewers:
    """Label what is asked for; equal seeds give equal labels."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._open: Labels | None = None

    @property
    def waiting(self) -> int:
        """Labels that will still be given."""
        return 0 if self._open is None else len(self._open)

    def assign(self, decisions: Decisions) -> None:
        """Hand over decisions; those that nobody asked about are ignored."""
        asked = decisions.take(decisions.requested)
        fresh = self._first(asked)
        wrong = (self._rng.random(len(fresh)) < CORRECTED) & (fresh.ready != UNDECIDABLE)
        first = replace(fresh, ready=np.where(wrong, 1 - fresh.ready, fresh.ready))
        both = first.joined(self._corrected(fresh.take(wrong)))
        self._open = both if self._open is None else self._open.joined(both)

    def due(self, until: int) -> Labels:
        """The labels given before ``until``; each is handed out once."""
        if self._open is None:
            raise ValueError("nothing was assigned yet")
        now = self._open.labelled_at < until
        given, self._open = self._open.take(now), self._open.take(~now)
        return given.take(np.argsort(given.labelled_at, kind="stable"))

    def _first(self, asked: Decisions) -> Labels:
        n = len(asked)
        audit = np.not_equal(asked.route, Route.HUMAN_REVIEW)
        ready = np.where(asked.ready, READY, NOT_READY)
        ready = np.where(self._rng.random(n) < UNDECIDED, UNDECIDABLE, ready).astype(np.int64)
        labelled_at = asked.at + self._delays(audit)
        never, reviewer = np.zeros(n, np.bool_), self._rng.integers(0, REVIEWERS, n)
        return Labels(asked.number, asked.at, labelled_at, ready, never, audit, reviewer)

    def _delays(self, audit: Bools) -> Int64s:
        normal: Floats = self._rng.standard_normal(len(audit))
        review = np.minimum(REVIEW_HOURS * np.exp(REVIEW_SIGMA * normal), REVIEW_MOST)
        audits = np.minimum(AUDIT_HOURS * np.exp(AUDIT_SIGMA * normal), AUDIT_MOST)
        return MINUTE + (np.where(audit, audits, review) * HOUR).astype(np.int64)

    def _corrected(self, labels: Labels) -> Labels:
        """The second labels of first labels that were wrong: these say the truth."""
        n = len(labels)
        later = (self._rng.uniform(*CORRECTION_HOURS, n) * HOUR).astype(np.int64)
        correction = np.ones(n, np.bool_)
        return replace(labels, labelled_at=labels.labelled_at + later, correction=correction)
