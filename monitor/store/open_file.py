"""Files of an open SQLite database, and whether they are still under their names.

A file that is removed or replaced stays open under no name. Later writes into it are lost with the
process, and no error shows that.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from contextlib import suppress

_LOG = "-wal"

Identity = tuple[int, int]
"""Device and inode."""


class FileGoneError(sqlite3.OperationalError):
    """Error of an open database file that was removed or replaced under its name."""


class OpenFile:
    """Guard that raises if an open SQLite database or its log was removed or replaced.

    Args:
        file: the database; one in memory has no file, and is never gone.
    """

    def __init__(self, file: str) -> None:
        path = os.path.realpath(file)
        self._paths = (path, path + _LOG)
        self._identities: Mapping[str, Identity] = {}
        self._connections: set[int] = set()

    def require(self, *_: object) -> None:
        """Raise FileGoneError unless the open files are those under their names."""
        for path, identity in self._identities.items():
            if _identity(path) != identity:
                raise FileGoneError(
                    f"{path} was removed or replaced while it was open, so nothing is written any"
                    " more; put it back, or stop, restore a backup and start again"
                )

    def opened(self, connection: sqlite3.Connection, *_: object) -> None:
        """Register a new connection; with the first one, remember the files' identities."""
        if not self._connections:
            connection.execute("PRAGMA schema_version")  # opens the log, as any first read does
            present = {path: _identity(path) for path in self._paths}
            self._identities = {path: identity for path, identity in present.items() if identity}
        self._connections.add(id(connection))

    def closed(self, connection: object, *_: object) -> None:
        """Register the end of a connection; after the last one, forget the files' identities."""
        self._connections.discard(id(connection))
        if not self._connections:
            self._identities = {}


def _identity(path: str) -> Identity | None:
    """Return device and inode of a file; None if there is none."""
    with suppress(OSError):
        status = os.stat(path)
        return status.st_dev, status.st_ino
    return None
