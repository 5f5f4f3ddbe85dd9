"""PostgreSQL behind PgBouncer, where each transaction may get another session."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import lesson
import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from free_ports import free_port
from monitoring import binary
from postgres import PostgresServer, server_user, start_as

from monitor.cli import cli
from monitor.demo.broker import wait_until
from monitor.store.database import create_engine

EXAMPLE = Path(__file__).parents[2] / "deploy" / "examples" / "judge_router" / "slicewatch.toml"
CONNECTIONS, TURNS = 4, 40
"""As many connections as sessions of the pooler, each a prepared statement's worth of turns."""


@pytest.fixture
def pooled_url(postgres: PostgresServer, postgres_url: str) -> Iterator[str]:
    """The URL of an empty database behind a PgBouncer that pools transactions."""
    url, port, user = sa.make_url(postgres_url), free_port(), server_user()
    with TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "users.txt").write_text(f'"{url.username}" "{url.password}"\n')
        (home / "pgbouncer.ini").write_text(
            f"[databases]\n* = host=127.0.0.1 port={url.port}\n[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = scram-sha-256\n"
            f"auth_file = {home}/users.txt\npool_mode = transaction\nunix_socket_dir =\n"
            f"default_pool_size = {CONNECTIONS}\n"
        )
        for path in (home, *home.iterdir()):
            os.chown(path, user.pw_uid, user.pw_gid)
        with (home / "output.log").open("ab") as output:
            process = start_as(
                user,
                [binary("pgbouncer", "/usr/sbin/pgbouncer"), f"{home}/pgbouncer.ini"],
                output.fileno(),
            )
        pooled = url.set(port=port).render_as_string(hide_password=False)
        assert wait_until(process, lambda: _answers(pooled), 30), (home / "output.log").read_text()
        yield pooled
        _end(process)


def _answers(url: str) -> bool:
    engine = create_engine(url)
    try:
        with engine.connect():
            return True
    except sa.exc.OperationalError:
        return False
    finally:
        engine.dispose()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def test_statements_and_settings_do_not_depend_on_the_session(pooled_url: str) -> None:
    engine = create_engine(pooled_url)
    numbered = sa.text("SELECT CAST(:turn AS integer) + 1, current_setting('lock_timeout')")
    with ExitStack() as stack:
        connections = [stack.enter_context(engine.connect()) for _ in range(CONNECTIONS)]
        for turn in range(TURNS):
            for connection in connections[:: 1 if turn % 2 else -1]:
                row = connection.execute(numbered, {"turn": turn}).one()
                assert tuple(row) == (turn + 1, "1min")
                connection.commit()
    engine.dispose()


@pytest.mark.full
def test_a_store_behind_a_pooler_counts_the_same(pooled_url: str, tmp_path: Path) -> None:
    decisions, labels = tmp_path / "decisions.jsonl", tmp_path / "labels.jsonl"
    for path, events in ((decisions, lesson.decisions()), (labels, lesson.labels())):
        path.write_bytes(b"\n".join(lesson.encode(events)))
    summaries = []
    for url in (pooled_url, f"sqlite:///{tmp_path}/direct.db"):
        runner = CliRunner(env={"SLICEWATCH__STORE__URL": url})
        assert runner.invoke(cli, ["db", "migrate", "-s", str(EXAMPLE)]).exit_code == 0
        run = runner.invoke(
            cli, ["replay", "-s", str(EXAMPLE), str(decisions), str(labels), "--summary", "--json"]
        )
        assert run.exit_code == 0, run.output
        summaries.append(run.stdout)
    assert summaries[0] == summaries[1]
    assert '"rows"' in summaries[0]
