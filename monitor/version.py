"""The version of this program."""

from __future__ import annotations

import importlib.metadata


def program_version() -> str:
    """Version of the installed package; ``unknown`` where it runs without being installed."""
    try:
        return importlib.metadata.version("slicewatch")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
