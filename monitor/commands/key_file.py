"""Files that hold a key."""

from __future__ import annotations

import os
from pathlib import Path

from monitor.errors import SlicewatchError


def write_key(file: Path, key: str) -> None:
    """Write a key to a new file that only its owner can read; it is never printed.

    Raises:
        SlicewatchError: the file is there already, or cannot be written.
    """
    try:
        # Made with its rights, so that nobody can open it before they are set.
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise SlicewatchError(f"{file} is there already; give the name of a new file") from None
    except OSError as error:
        reason = error.strerror or "it cannot be written"
        raise SlicewatchError(f"{file}: {reason}; give the name of a new file") from None
    with os.fdopen(handle, "w") as written:
        written.write(f"{key}\n")
