"""The tests' own PostgreSQL does what its users rely on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psutil
import psycopg
import pytest
from postgres import PostgresServer

pytestmark = pytest.mark.full


def write(url: str, number: int) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (number integer)")
        connection.execute("INSERT INTO kept VALUES (%s)", (number,))


def kept(url: str) -> list[int]:
    with psycopg.connect(url) as connection:
        return [number for (number,) in connection.execute("SELECT number FROM kept ORDER BY 1")]


def test_a_wrong_password_is_refused(postgres: PostgresServer) -> None:
    url = postgres.url("postgres", password="wrong")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(url)


def test_databases_come_and_go_whoever_is_connected(postgres: PostgresServer) -> None:
    url = postgres.create_database("comes and goes")
    with psycopg.connect(url):
        postgres.drop_database("comes and goes")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


def test_the_test_database_is_empty_and_the_programs_reach_it(
    postgres: PostgresServer, postgres_url: str
) -> None:
    command: list[str | Path] = [postgres.bin / "pg_dump", "--dbname", postgres_url]
    dump = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "PostgreSQL database dump complete" in dump
    assert "CREATE TABLE" not in dump


def test_what_was_committed_survives_every_end(own_postgres: PostgresServer) -> None:
    url = own_postgres.create_database("survivor")
    write(url, 1)
    own_postgres.stop()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    own_postgres.start()
    write(url, 2)
    own_postgres.restart("immediate")
    write(url, 3)
    own_postgres.kill()
    own_postgres.start()
    assert kept(url) == [1, 2, 3]


def test_kill_leaves_no_process(own_postgres: PostgresServer) -> None:
    assert own_postgres.pid is not None
    family = psutil.Process(own_postgres.pid).children(recursive=True)
    assert family
    own_postgres.kill()
    assert own_postgres.pid is None
    assert not any(one.is_running() for one in family)
