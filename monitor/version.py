"""The version of this program."""

from __future__ import annotations

import importlib.metadata


def program_version() -> str:
    """Return the installed package's version; ``unknown`` if it is not installed."""
    try:
        return importlib.metadata.version("slicewatch")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
