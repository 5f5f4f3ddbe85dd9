"""``slicewatch backtest``: the service's own pages found again, other contracts, and proposals."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from adversary.worlds import DAY, HOUR, START
from click.testing import CliRunner
from releasing import MARGIN, Releasing, instants
from repaired import WORSE, repaired, site

from monitor.commands.backtest import command
from monitor.core.metric import Metric
from monitor.core.publish.annotations import IncidentKind
from monitor.core.time import to_datetime
from monitor.errors import SlicewatchError
from monitor.settings import load
from monitor.store.evaluator.stored_incidents import read_incidents
from monitor.store.schema import published_rate

DAYS, A_DAY = 17, 480
QUIET, BREACH, REPAIR = START + 7 * DAY, START + 13 * DAY, START + 15 * DAY
"""A quiet week is the baseline, nine more days are quiet too, and then a slice is served less."""
WORLD = repaired(BREACH, REPAIR, DAYS, A_DAY)
BASELINE = "2026-W23"


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Releasing]:
    with site(tmp_path_factory.mktemp("backtest") / "store", WORLD) as made:
        for now in instants(WORLD, DAY, START + DAYS * DAY - HOUR + MARGIN):
            made.until(now)
        made.evaluator.release_lease()
        yield made


def run(folder: Path, *arguments: str) -> str:
    """What the command prints; its errors are raised."""
    environment = {"SLICEWATCH__STORE__URL": f"sqlite:///{folder}/store.db"}
    settings = ("-s", str(folder / "settings.toml"))
    done = CliRunner(env=environment).invoke(command, [*arguments, *settings])
    if done.exception is not None:
        raise done.exception
    return done.stdout


def tried(made: Releasing, *arguments: str) -> Any:
    return json.loads(run(made.folder, *arguments, "--json"))


def pages(found: Any) -> list[dict[str, Any]]:
    return [one for one in found["incidents"] if one["severity"] == "page"]


def day(at: int) -> int:
    return at - at % DAY


def moment(at: int) -> str:
    return to_datetime(at).isoformat()


def contents(made: Releasing) -> str:
    """A hash of all that the store holds."""
    with sqlite3.connect(made.folder / "store.db") as connection:
        return hashlib.sha256("\n".join(connection.iterdump()).encode()).hexdigest()


def test_its_own_contract_comes_to_exactly_what_was_sent(lived: Releasing) -> None:
    with lived.engine.connect() as connection:
        sent = read_incidents(connection, resolved=True)
    assert {(one.kind.value, one.metric.value, one.slice) for one in sent} >= {
        ("breach", "tpr", WORSE)
    }
    before = contents(lived)
    found = tried(lived)
    assert [
        (one["severity"], one["metric"], one["slice"], one["since"], one["resolved"])
        for one in found["incidents"]
    ] == [
        ("page" if (one.kind, one.metric) == (IncidentKind.BREACH, Metric.TPR) else "ticket",
         one.metric.value, one.slice, day(one.opened_at),
         None if one.resolved_at is None else day(one.resolved_at))
        for one in sent
    ]  # fmt: skip
    assert (found["start"], found["bulk"]) == (START, 0)
    assert found["hours"] > 16 * 24
    assert contents(lived) == before, "nothing is written"


def test_what_was_proposed_from_a_quiet_week_is_quiet_until_the_regression(
    lived: Releasing,
) -> None:
    text = run(lived.folder, "--propose", "--baseline", BASELINE)
    (lived.folder / "new.toml").write_text(text)
    assert "# Proposed from 2026-W23" in text
    assert "a=a0" not in text, "both slices are decided"
    proposed = load(lived.folder / "settings.toml", {}, contract=lived.folder / "new.toml")
    (use_case,) = proposed.use_case
    assert use_case.contract.version == "1-proposed"
    assert Fraction("0.05") <= use_case.contract.max_tpr_gap <= Fraction("0.10")
    new = ("--contract", str(lived.folder / "new.toml"))
    quiet = tried(lived, *new, "--since", moment(QUIET), "--until", moment(BREACH))
    assert quiet["hours"] == 6 * 24
    assert quiet["incidents"] == []
    whole = pages(tried(lived, *new, "--since", moment(QUIET)))
    assert ("tpr", WORSE) in {(one["metric"], one["slice"]) for one in whole}
    assert all(BREACH <= one["since"] < REPAIR + DAY for one in whole)


def test_a_contract_that_allows_more_pages_less(lived: Releasing) -> None:
    text = run(lived.folder, "--propose", "--baseline", BASELINE)
    loose = [
        f"{line.partition('=')[0]}= 0.9" if line.startswith("max_") else line
        for line in text.splitlines()
    ]
    file = lived.folder / "loose.toml"
    file.write_text("\n".join(loose))
    assert "0 pages, 0 tickets" in run(lived.folder, "--contract", str(file))


def test_a_slice_that_no_table_shows_is_withheld(lived: Releasing, tmp_path: Path) -> None:
    copy = tmp_path / "store.db"
    with sqlite3.connect(lived.folder / "store.db") as source, sqlite3.connect(copy) as target:
        source.backup(target)
    (tmp_path / "settings.toml").write_text((lived.folder / "settings.toml").read_text())
    engine = sa.create_engine(f"sqlite:///{copy}")
    hidden = sa.update(published_rate).where(published_rate.c.slice == WORSE)
    with engine.begin() as connection:
        connection.execute(hidden.values(state="suppressed"))
    engine.dispose()
    said = run(tmp_path)
    assert "slice withheld" in said
    assert WORSE not in said
    assert "no published table shows that slice" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--baseline", BASELINE), "--baseline goes with --propose"),
        (("--propose", "--baseline", "2025-W01"), "there is no Release of week 2025-W01"),
        (("--propose", "--baseline", "now"), "--baseline must be ISO weeks"),
        (("--propose", "--since", "2026-06-01T00:00:00Z"), "--propose takes no --contract"),
        (("--since", "yesterday"), "--since must be a time with its zone"),
        (("--since", "2030-01-01T00:00:00Z"), "no cohort is kept of that time"),
        (("--contract", "missing.toml"), "missing.toml: No such file"),
        (("--contract", "empty.toml"), "empty.toml: has no [[use_case]]"),
        (("--contract", "odd.toml"), "use_case[0].contract: is missing"),
    ],
)
def test_a_mistake_is_said_in_one_line(
    lived: Releasing, arguments: tuple[str, ...], said: str
) -> None:
    (lived.folder / "empty.toml").write_text("[stream]\n")
    (lived.folder / "odd.toml").write_text('[[use_case]]\nname = "x"\nowner = "y"\n')
    typed = [str(lived.folder / one) if one.endswith(".toml") else one for one in arguments]
    with pytest.raises(SlicewatchError, match=re.escape(said)):
        run(lived.folder, *typed)
