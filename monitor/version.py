"""The version of this program."""

from __future__ import annotations

import importlib.metadata


def program_version() -> str:
    """Return the version of the installed package; ``unknown`` without an installation."""
    try:
        return importlib.metadata.version("slicewatch")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
