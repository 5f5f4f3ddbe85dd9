"""What alerts about probe sets say, in the templates of :mod:`alerts.texts`."""

from __future__ import annotations

from alerts import catalogue
from alerts.texts import MINUTE, lookup, said
from monitor.core.probes.flips import Direction

A_CASE = (
    "\nA flip is a case to investigate, not a population disparity."
    "\nSynthetic test conditions, nobody's requests."
)
WAY = (
    f'{{{{ if eq $labels.direction "{Direction.HELD_BACK}" }}}}held back more often'
    "{{ else }}served more often{{ end }}"
)


def _flips(key: str, by: str, words: str) -> str:
    """Pairs that flip now by one label, without zeros; of replicas the one that shows most."""
    every = f"max by (variant, direction, stage) ({catalogue.PROBE_FLIPPING.name}{{%s}})"
    each = (
        f'{{{{ range $i, $one := . | sortByLabel "{by}" }}}}{{{{ if $i }}}},{{{{ end }}}}'
        f' {{{{ $one | label "{by}" }}}} {{{{ $one | value }}}}{{{{ end }}}}'
    )
    query = f"printf `sum by ({by}) ({every}) > 0` ${key} | query"
    return f"{{{{ with {query} }}}}\n{words}:{each}.{{{{ end }}}}"


SINCE = lookup(
    catalogue.PROBE_PAGING_SINCE, "way", f"\nThe test crossed with the probe of {MINUTE}."
)
NOW = _flips("set", "direction", "Flips at the newest comparison of each pair, by direction")
THIS_WAY = _flips("way", "variant", "This way by variant") + _flips(
    "way", "stage", "This way by stage of the router"
)
DIGEST = lookup(
    catalogue.PROBE_SET_INFO,
    "set",
    f"\nContent hash of the set: {{{{ {said('digest')} }}}}.",
    by="digest",
)
ALLOWED = lookup(
    catalogue.PROBE_MAX_FLIP,
    "set",
    "\nThe settings allow {{ . | first | value | humanizePercentage }}.",
)
CADENCE = lookup(
    catalogue.PROBE_CADENCE,
    "set",
    "\nIt is to be sent every {{ . | first | value | humanizeDuration }}.",
)
