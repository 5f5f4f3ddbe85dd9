"""The evidence of atoms that a search for causes goes by."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.detection.diagnosis.atom_rates import AtomTrials
from monitor.detection.diagnosis.cause_search import ALIKE, AtomHarm

LIMIT = 0.1
SIZES = np.array([0, 10, 1_000, 100_000, 10_000_000])


def test_the_rate_of_an_atom_says_no_more_than_atoms_are_alike() -> None:
    """However many its trials: its variance is what is sampled and what is no news together."""
    harmed, spared = 0.3 * SIZES, 0.7 * SIZES
    found = AtomHarm.from_trials(AtomTrials(harmed, spared, harmed, spared), LIMIT)
    assert found.trials[0] == found.harmed[0] == 0
    counted = found.trials[1:]
    assert found.harmed[1:] == pytest.approx(0.3 * counted)
    assert 0.3 * 0.7 / counted == pytest.approx(0.3 * 0.7 / SIZES[1:] + (ALIKE * LIMIT) ** 2)
