"""The series of a scraped page.

Pages of one service have the same names and labels again and again, and the library takes a second
for thirty thousand of them: each is parsed when it is first met.
"""

from __future__ import annotations

from functools import cache

from prometheus_client.parser import text_string_to_metric_families as parse

Named = tuple[str, frozenset[tuple[str, str]]]
"""Name and labels."""
Series = dict[Named, float]


def series_of(page: str) -> Series:
    """All series of a page: (name, labels) -> value."""
    found: Series = {}
    for line in page.splitlines():
        if line and not line.startswith("#"):
            named, _, value = line.rpartition(" ")
            found[_parsed(named)] = float(value)
    return found


@cache
def _parsed(named: str) -> Named:
    (family,) = parse(f"{named} 0\n")
    (sample,) = family.samples
    return sample.name, frozenset(sample.labels.items())
