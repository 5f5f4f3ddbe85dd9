"""Id keys for tests: a key file for settings that need one, and the settings of a rotation."""

from __future__ import annotations

import tempfile
from pathlib import Path

KEY = "a key for tests that is long enough"
KEY_FILE = Path(tempfile.mkdtemp(prefix="slicewatch-key-")) / "id_key"
KEY_FILE.write_text(KEY)
WITH_KEY = {"SLICEWATCH__PRIVACY__ID_KEY_FILE": str(KEY_FILE)}
"""For settings of real decisions, which are refused without a key."""


def rotated(text: str, *keys: tuple[str, str, str | None]) -> str:
    """Settings with a list of keys, (id, key, from_day), in place of the one they have."""
    head, _, rest = text.partition(f'[privacy]\nid_key = "{KEY}"\n')
    assert rest, "the settings have one key"
    return head + "".join(map(_table, keys)) + rest


def _table(key: tuple[str, str, str | None]) -> str:
    name, secret, day = key
    since = "" if day is None else f"from_day = {day}\n"
    return f'[[privacy.id_keys]]\nid = "{name}"\nkey = "{secret}"\n{since}'
