"""Contradictions in the keys that decision ids are hashed with."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from itertools import pairwise

from monitor.settings.checks import MIN_SECRET
from monitor.settings.kinds import Secret
from monitor.settings.model import Settings
from monitor.settings.problems import problem, shown
from monitor.settings.sections import STORE_KEY, IdKeySettings, Privacy

MAX_ID_KEY = 64
"""The longest key that BLAKE2b takes, in bytes."""
NEW_KEY = "make one with: slicewatch db new-key FILE"

_LIST = "privacy.id_keys"


def check_id_keys(settings: Settings) -> None:
    """Raise SettingsError for the first contradiction; the use cases must be checked."""
    privacy = settings.privacy
    if not privacy.keys and not all(case.synthetic for case in settings.use_case):
        raise problem(
            "privacy.id_key",
            "is not set, but ids of real decisions are kept only as keyed hashes;"
            f" {NEW_KEY}, and set id_key_file = FILE",
        )
    if privacy.id_key is not None:
        _check_single(privacy, privacy.id_key)
    for i, one in enumerate(privacy.id_keys):
        _check_one(one, f"{_LIST}[{i}]")
    _check_days(privacy.id_keys)
    _check_repeats(privacy.id_keys)


def _check_single(privacy: Privacy, id_key: Secret) -> None:
    if privacy.id_keys:
        key = "privacy.id_key" if privacy.id_key_file is None else "privacy.id_key_file"
        raise problem(key, f"is set beside {_LIST}; make it the first of that list")
    _check_size("privacy.id_key", id_key)


def _check_one(one: IdKeySettings, key: str) -> None:
    if one.id == STORE_KEY:
        fix = "choose another name"
        raise problem(f"{key}.id", f'is "{STORE_KEY}", as a key is called that a store made; {fix}')
    if one.key is None:
        raise problem(f"{key}.key_file", f"is missing, and so is key; {NEW_KEY}")
    _check_size(f"{key}.key", one.key)


def _check_size(key: str, secret: Secret) -> None:
    size = len(secret.reveal().encode())
    if not MIN_SECRET <= size <= MAX_ID_KEY:
        raise problem(key, f"has {size} bytes; use {MIN_SECRET} to {MAX_ID_KEY} bytes")


def _check_days(keys: Sequence[IdKeySettings]) -> None:
    for i, (before, one) in enumerate(pairwise(keys), start=1):
        key = f"{_LIST}[{i}].from_day"
        if one.from_day is None:
            raise problem(key, "is missing; say from which UTC day on the key is used")
        if one.from_day <= (before.from_day or date.min):
            raise problem(key, "must be later than that of the key before it; sort the keys")


def _check_repeats(keys: Sequence[IdKeySettings]) -> None:
    names: dict[str, int] = {}
    secrets: dict[Secret, int] = {}
    for i, one in enumerate(keys):
        key = f"{_LIST}[{i}]"
        if one.id in names:
            fix = "give each key a name of its own"
            raise problem(f"{key}.id", f"repeats {shown(one.id)}; {fix}")
        if one.key in secrets:
            fix = f"a rotation needs a new key, {NEW_KEY}"
            raise problem(f"{key}.key", f"is the key of {_LIST}[{secrets[one.key]}] too; {fix}")
        names[one.id] = i
        if one.key is not None:
            secrets[one.key] = i
