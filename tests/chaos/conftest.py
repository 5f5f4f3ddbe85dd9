"""A site of six decision and six label partitions on Apache Kafka, over either database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from chaos import CLIENTS, ChaosProcess, chaos_site
from kafka_broker import KafkaBroker
from sites import Site


@pytest.fixture
def database() -> str:
    """``sqlite`` or ``postgresql``; a test replaces it by its parameter."""
    return "sqlite"


@pytest.fixture
def seed() -> int:
    return 1


@pytest.fixture
def store_url(database: str, request: pytest.FixtureRequest) -> str:
    """Empty for a SQLite file in the site's folder."""
    return request.getfixturevalue("postgres_url") if database == "postgresql" else ""


@pytest.fixture
def client() -> str:
    """The Kafka client of all workers; a test replaces it by its parameter."""
    return CLIENTS[0]


@pytest.fixture
def variety(store_url: str, seed: int, client: str) -> Mapping[str, Any]:
    """What may differ from site to site."""
    return {"store_url": store_url, "seed": seed, "client": client}


@pytest.fixture
def site(
    apache: KafkaBroker, topic_name: str, tmp_path: Path, variety: Mapping[str, Any]
) -> Iterator[Site]:
    with chaos_site(apache, topic_name, tmp_path, **variety) as site:
        yield site


@pytest.fixture
def server(site: Site) -> Iterator[ChaosProcess]:
    """One ``slicewatch serve``, so that what is ingested is also counted."""
    with ChaosProcess(site, "serve", "server") as process:
        yield process
