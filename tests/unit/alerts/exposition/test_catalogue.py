from __future__ import annotations

from alerts.exposition import catalogue
from alerts.exposition.catalogue import CATALOGUE, HELP, SERVICE, MetricKind


def test_the_catalogue_is_closed_and_well_formed() -> None:
    names = [family.name for family in CATALOGUE]

    assert len(set(names)) == len(names)
    for family in CATALOGUE:
        assert family.help.isascii()
        assert not set('\\"\n') & set(family.help)
        assert family.name.endswith("_total") == (family.kind is MetricKind.COUNTER)
        assert family.name.endswith("_info") == (family.kind is MetricKind.INFO)
        assert len(set(family.labels)) == len(family.labels)
    assert {family.tier for family in SERVICE} == {0}
    assert catalogue.STATE.tier == 0


def test_every_help_text_is_that_of_a_metric() -> None:
    assert {f"slicewatch_{name}" for name in HELP} <= {family.name for family in CATALOGUE}
