"""Starts Python programs without their imports: a process that has made them, and forks.

Started by :mod:`warm_start` with the number of a socket. Each message names what to run, and brings
standard streams and a pipe; the pipe is told the process id at once and the exit code at the end.
The process between is the parent of the program, so that this one waits for nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

LARGEST = 1 << 20
STREAMS = 3
LATER = (
    *("alembic.command", "alembic.config", "jinja2", "pandas", "river.base", "river.stats"),
    *("scipy.optimize", "scipy.sparse", "sqlalchemy.dialects.sqlite"),
    *("alerts.http", "consumers.receiving", "consumers.sources.kafka_source", "monitor.web"),
)
"""What the product loads when it is needed."""


def main() -> None:
    """Fork for each message until the other end of the socket is closed."""
    control = socket.socket(fileno=int(sys.argv[1]))
    _load()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: it is for the tests to stop
    signal.signal(signal.SIGCHLD, _bury)
    while True:
        body, given, _, _ = socket.recv_fds(control, LARGEST, STREAMS + 1)
        if not body:
            return
        if os.fork() == 0:
            control.close()
            return _keep(json.loads(body), given)
        for one in given:
            os.close(one)


def _bury(*_: object) -> None:
    """Take leave of all that have ended: what they used is counted as ours only then."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _load() -> None:
    """Everything that commands import, at once or later."""
    commands = importlib.import_module("monitor.commands")
    for one in pkgutil.walk_packages(commands.__path__, "monitor.commands."):
        importlib.import_module(one.name)
    for name in LATER:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _keep(request: dict[str, Any], given: list[int]) -> None:
    """Start the program and wait for its end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, told = given
    pid = os.fork()
    if pid == 0:
        os.close(told)
        _become(request, streams)
        _to_the_end(request["program"], request["arguments"])
    with contextlib.suppress(OSError):  # nobody listens any more
        for one in streams:
            os.close(one)
        os.write(told, f"{pid}\n".encode())
        _, status = os.waitpid(pid, 0)
        os.write(told, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(request: dict[str, Any], streams: list[int]) -> None:
    """Take over what a process gets from whoever starts it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, one in enumerate(streams):
        os.dup2(one, number)
        os.close(one)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    tempfile.tempdir = None


def _to_the_end(program: list[str], arguments: list[str]) -> NoReturn:
    """Run it and end as the interpreter does, but for taking down a thousand modules one by one."""
    code = 0
    try:
        try:
            _run(program, arguments)
        finally:
            for thread in threading.enumerate():
                if thread is not threading.current_thread() and not thread.daemon:
                    thread.join()
            atexit._run_exitfuncs()
    except SystemExit as asked:
        code = asked.code if isinstance(asked.code, int) else int(asked.code is not None)
        if isinstance(asked.code, str):
            sys.stderr.write(f"{asked.code}\n")
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


def _run(program: list[str], arguments: list[str]) -> None:
    """Run ``-m module``, ``-c text`` or a script as the interpreter does."""
    kind, *named = program
    if kind == "-m":
        sys.argv, sys.path[0] = ["-m", *arguments], os.getcwd()
        runpy.run_module(named[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv, sys.path[0] = ["-c", *arguments], ""
        exec(compile(named[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv, sys.path[0] = [kind, *arguments], str(Path(kind).parent)
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    main()
