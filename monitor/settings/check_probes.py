"""Contradictions in the probe sets and the key that signs them."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.settings.check_sections import MIN_SECRET
from monitor.settings.probes import Probes, ProbeSetSettings
from monitor.settings.problems import problem, shown

MAX_SETS = 64
MAX_VARIANTS = 32
"""Declared probe sets, and variants of each, at most: every variant has ten series."""
_LIST = "probes.sets"


def check_probes(probes: Probes) -> None:
    """Raise SettingsError for the first contradiction."""
    if probes.key is not None and len(probes.key.reveal().encode()) < MIN_SECRET:
        raise problem("probes.key", f"must have at least {MIN_SECRET} bytes; make a longer one")
    if probes.sets and probes.key is None:
        fix = "make one with: slicewatch db new-key FILE, and set key_file = FILE"
        raise problem("probes.key", f"is missing; decisions of {_LIST} must be signed; {fix}")
    if len(probes.sets) > MAX_SETS:
        raise problem(_LIST, f"has {len(probes.sets)} sets; declare at most {MAX_SETS}")
    for i, one in enumerate(probes.sets):
        _check_set(one, f"{_LIST}[{i}]")
    _check_repeats(probes.sets)


def _check_set(one: ProbeSetSettings, key: str) -> None:
    if len(set(one.variants)) < len(one.variants):
        raise problem(f"{key}.variants", "repeats a variant; name each once")
    if len(one.variants) < 2:  # noqa: PLR2004 - a pair
        raise problem(f"{key}.variants", "needs two variants at least; a single one matches none")
    if len(one.variants) > MAX_VARIANTS:
        fix = f"name at most {MAX_VARIANTS}, and make several sets of more"
        raise problem(f"{key}.variants", f"has {len(one.variants)} variants; {fix}")
    if one.reference not in one.variants:
        raise problem(f"{key}.reference", f"{shown(one.reference)} is not one of its variants")


def _check_repeats(sets: Sequence[ProbeSetSettings]) -> None:
    for field in ("name", "digest"):
        seen = set()
        for i, one in enumerate(sets):
            value = getattr(one, field)
            if value in seen:
                raise problem(f"{_LIST}[{i}].{field}", f"repeats {shown(value)}; sets must differ")
            seen.add(value)
