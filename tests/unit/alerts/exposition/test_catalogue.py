from __future__ import annotations

import pytest

from alerts.exposition.catalogue import CATALOGUE, FAMILIES, SERVICE, MetricKind, read_families
from monitor.core.privacy.rules import PrivacyRule
from monitor.errors import SlicewatchError

ROW = {
    "name": "flushes_total",
    "surface": "operations",
    "rule": "steps",
    "why": "a step hides events",
    "help": "Transactions.",
}


def text(*rows: dict[str, str]) -> bytes:
    """Return rows as a YAML list of flow mappings."""
    pairs = (", ".join(f"{key}: {value}" for key, value in row.items()) for row in rows)
    return "".join(f"- {{{row}}}\n" for row in pairs).encode()


def test_the_catalogue_is_closed_and_well_formed() -> None:
    names = [family.name for family in CATALOGUE]

    assert len(set(names)) == len(names) > 100
    for family in CATALOGUE:
        assert family.why
        assert family.name.endswith("_total") == (family.kind is MetricKind.COUNTER)
        assert family.name.endswith("_info") == (family.kind is MetricKind.INFO)
        assert len(set(family.labels)) == len(family.labels)
    assert {family.tier for family in SERVICE} == {0}
    assert FAMILIES["slice_state"].tier == 0


def test_a_ratio_with_bounds_is_three_families() -> None:
    row = ROW | {"name": "x_ratio", "bounds": "of bands", "labels": "[slice]", "tier": "2"}
    value, lower, upper = read_families(text(row)).values()

    assert [value.name, lower.name, upper.name] == [
        *("slicewatch_x_ratio", "slicewatch_x_lower_ratio", "slicewatch_x_upper_ratio")
    ]
    assert (lower.rule, lower.why) == (PrivacyRule.BOUND, "of bands")
    assert lower.labels == value.labels == ("slice",)
    assert lower.tier == value.tier == 2
    assert (lower.help, upper.help) == (
        *("Lower 95 % bound. Transactions.", "Upper 95 % bound. Transactions."),
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"name": "x"}], "missing required field `surface`"),
        ([ROW | {"tiers": "1"}], "unknown field `tiers`"),
        ([ROW | {"surface": "pages"}], "Invalid enum value 'pages'"),
        ([ROW | {"rule": "step"}], "flushes_total: rule is step, not one of released_rate"),
        ([ROW | {"name": "Flushes"}], "`$[0].name`"),
        ([ROW | {"help": "'It is \\'"}], "`$[0].help`"),
        ([ROW, ROW], "flushes_total has two rows"),
    ],
)
def test_a_row_that_is_wrong_is_named(rows: list[dict[str, str]], message: str) -> None:
    with pytest.raises(SlicewatchError) as error:
        read_families(text(*rows))

    assert str(error.value).startswith("families.yaml: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)
