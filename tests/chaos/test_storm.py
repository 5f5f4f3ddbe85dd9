"""Chaos: whatever happens to workers and servers, decisions and labels are counted exactly.

A short storm of one random seed; ``make chaos`` runs many. What is certain to happen, one thing
at a time, is in test_zombies.py and test_scale_out.py.
"""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
from chaos import client_of, weather
from sites import Site

SECONDS = 20.0


@pytest.fixture
def seed() -> int:
    return random.SystemRandom().randrange(1 << 30)


@pytest.fixture
def client(seed: int) -> str:
    return client_of(seed)


@pytest.mark.full
@pytest.mark.parametrize("database", ["postgresql"])
@pytest.mark.parametrize("hours", [-1, 1, 87_660], ids=["an hour back", "an hour on", "ten years"])
def test_a_storm_in_which_the_clock_is_set(site: Site, hours: int) -> None:
    weather(site, SECONDS / 2, timedelta(hours=hours))


@pytest.mark.full
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_storm_leaves_exact_counts(site: Site) -> None:
    try:
        weather(site, SECONDS)
    except AssertionError as error:
        raise AssertionError(f"make chaos SEED={site.seed}\n{error}") from error
