"""The demo's own settings: the file next to this module, with addresses filled in."""

from __future__ import annotations

import json
from importlib.resources import as_file, files

from monitor.settings import Settings, load


def demo_settings(bootstrap: str, store_url: str, port: int) -> Settings:
    """An ordinary settings file with three overrides; the caller's environment has no say.

    Args:
        bootstrap: address of the broker.
        store_url: database.
        port: of /metrics; 0 takes a free one.
    """
    overrides = {
        "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": json.dumps([bootstrap]),
        "SLICEWATCH__STORE__URL": store_url,
        "SLICEWATCH__SERVER__PORT": str(port),
    }
    with as_file(files("monitor.demo") / "settings.toml") as path:
        return load(path, overrides)
