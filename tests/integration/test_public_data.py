"""Public data sets with their own columns and codes: every published rate is that of pandas.

The sets come with statsmodels. Only ids and times are added, because surveys have none. The columns
stand for decisions and outcomes to try the counting; nothing here is a finding about people.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import statsmodels.api as sm
from click.testing import CliRunner

from monitor import logs
from monitor.cli import cli
from monitor.commands import replay

SETTINGS = """
store.url = "sqlite:///{folder}/store.db"
privacy.id_key = "a key of this test alone, 32 characters or more"
attribute = [{attributes}]
[[use_case]]
name = "public-data"
owner = "example"
synthetic = true
k = 1
group_bys = [{group_bys}]
[use_case.contract]
version = "1"
effective = 2026-01-01
reason = "test"
min_positives = 1
min_negatives = 1
window = "7d"
[mapping.decisions]
times = "%d.%m.%Y %H:%M:%S"
time_zone = "America/New_York"
constants = {{ evidence_passed = "true", audit_p = "1", label_requested = "true" }}
[mapping.decisions.fields]
decision_id = "/row"
decided_at = "/interviewed"
route = "/{decided}"
{places}
[mapping.decisions.values]
{codes}
[mapping.labels]
times = "%d.%m.%Y %H:%M:%S"
time_zone = "America/New_York"
constants = {{ version = "1", kind = "initial", reason = "audit", reviewer = "survey" }}
values = {{ "ready=1.0" = "true", "ready=0.0" = "false" }}
[mapping.labels.fields]
label_id = "/row"
decision_id = "/row"
decided_at = "/interviewed"
labelled_at = "/interviewed"
ready = "/{outcome}"
"""


@dataclass(frozen=True)
class DataSet:
    """A set of statsmodels: which column stands for what, and which codes mean selected."""

    name: str
    decided: str
    selected: Sequence[str]
    outcome: str
    attributes: Mapping[str, str]
    """Columns by the name of the attribute."""

    def rows(self) -> pd.DataFrame:
        data: pd.DataFrame = getattr(sm.datasets, self.name).load_pandas().data
        if self.name == "fair":
            data["affair"] = (data.affairs > 0).astype(float)
        times = pd.date_range("2026-06-01 04:00", "2026-06-04 03:59", periods=len(data), tz="UTC")
        local = times.tz_convert("America/New_York").strftime("%d.%m.%Y %H:%M:%S")
        return data.assign(row=range(len(data)), interviewed=local)

    def settings(self, folder: Path, table: pd.DataFrame) -> str:
        """Return the settings; ``table`` holds the texts that the file has."""
        values = {n: sorted(table[column].unique()) for n, column in self.attributes.items()}
        listed = (f'{{ name = "{name}", values = {texts} }}' for name, texts in values.items())
        groups = [*([name] for name in values), list(values)]
        routes = {
            code: "auto_serve" if code in self.selected else "human_review"
            for code in table[self.decided].unique()
        }
        return SETTINGS.format(
            folder=folder,
            attributes=", ".join(listed),
            group_bys=", ".join(f"{{ attributes = {group} }}" for group in groups),
            decided=self.decided,
            outcome=self.outcome,
            places="\n".join(
                f'"attributes.{name}" = "/{column}"' for name, column in self.attributes.items()
            ),
            codes="\n".join(f'"route={code}" = "{route}"' for code, route in routes.items()),
        )


SETS = (
    DataSet("anes96", "PID", ("4.0", "5.0", "6.0"), "vote", {"educ": "educ", "tv": "TVnews"}),
    DataSet(
        "fair",
        "rate_marriage",
        ("4.0", "5.0"),
        "affair",
        {"faith": "religious", "work": "occupation"},
    ),
    DataSet("randhie", "idp", ("1",), "hlthg", {"fair_health": "hlthf", "lncoins": "lncoins"}),
)


Rates = dict[tuple[str, str], tuple[float, int]]
"""Value and support by (slice, metric), of those with a support."""


def published_rates(summary: dict[str, Any]) -> Rates:
    (contract,) = summary["contracts"]
    (window,) = [window for window in contract["windows"] if window["window"] == "7d"]
    rows = [window["total"], *(row for group in window["groups"] for row in group["rows"])]
    return {
        (row["slice"], metric): (rate["value"], rate["support"])
        for row in rows
        for metric, rate in row["rates"].items()
        if metric in ("selection", "tpr", "fpr")
    }


def rates_by_pandas(data: DataSet, table: pd.DataFrame) -> Rates:
    flags = table.assign(
        selected=table[data.decided].isin(data.selected),
        ready=table[data.outcome].astype(float) == 1,
    )
    flags = flags.rename(columns={column: name for name, column in data.attributes.items()})
    first, second = sorted(data.attributes)
    rates: Rates = {}
    for keys in ([], [first], [second], [first, second]):
        for values, group in flags.groupby(keys) if keys else [((), flags)]:
            name = ",".join(f"{key}={value}" for key, value in zip(keys, values, strict=True))
            parts = {"selection": group, "tpr": group[group.ready], "fpr": group[~group.ready]}
            rates |= {
                (name, metric): (int(part.selected.sum()) / len(part), len(part))
                for metric, part in parts.items()
                if len(part)
            }
    return rates


@pytest.mark.parametrize("data", SETS, ids=lambda data: data.name)
def test_every_rate_of_a_public_data_set_is_that_of_pandas(
    data: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "on_stop", lambda _: None)
    monkeypatch.setattr(logs, "configure", lambda *_: None)
    log = tmp_path / "log.csv.gz"
    data.rows().to_csv(log, index=False)
    table = pd.read_csv(log, dtype=str)
    settings = tmp_path / "settings.toml"
    settings.write_text(data.settings(tmp_path, table))
    arguments = ["replay", "-s", str(settings), f"decisions={log}", f"labels={log}"]
    result = CliRunner().invoke(cli, [*arguments, "--summary", "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    assert published_rates(json.loads(result.stdout)) == rates_by_pandas(data, table)
