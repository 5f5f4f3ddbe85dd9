"""Settings change on a running system: what was counted stays right, what has no data says so."""

from __future__ import annotations

import logging
import random
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import counting_oracle as oracle
import lesson
import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from histories import START, Event, Histories, shuffled
from memory_source import MemorySource
from monitoring import eventually
from pipeline import (
    DECISIONS,
    ID_KEY,
    LABELS,
    SETTINGS,
    Counted,
    Pipeline,
    attributes_in,
    dead_letters,
    messages,
    settings_with,
)
from signed_probes import changed

from consumers.ingest import Ingest
from monitor.cli import cli
from monitor.commands import check
from monitor.composition.store import open_store
from monitor.core.counts.cells import parse_atom
from monitor.core.metric import Metric
from monitor.core.publish.snapshot import GroupTable, Snapshot, WindowTable, decode
from monitor.core.state import State
from monitor.core.time import HOUR, to_micros
from monitor.errors import OutdatedError, SlicewatchError, StoreError
from monitor.service import Parts, Service
from monitor.store import deltas
from monitor.store.codings import lock_eras
from monitor.store.schema import metadata

pytestmark = pytest.mark.full

OLD = SETTINGS
FAX = SETTINGS.replace('values = ["chat", "email"]', 'values = ["chat", "email", "fax"]')
REGION = """[[attribute]]
name = "region"
values = ["eu", "us"]
definition = "test condition"
purpose = "test"
"""
GROUPS = "group_bys = [\n"
NEW = FAX.replace("[[use_case]]", f"{REGION}[[use_case]]")
BY_REGION = NEW.replace(
    GROUPS,
    f'{GROUPS}  {{ attributes = ["region"] }},\n  {{ attributes = ["channel", "region"] }},\n',
)


def raised(text: str, version: int = 2) -> str:
    """The settings with another version of the contract."""
    return text.replace('version = "1"', f'version = "{version}"')


def short(text: str, version: int = 2) -> str:
    """The same, decided on a window that needs no full day."""
    return raised(text.replace('window = "7d"', 'window = "24h"'), version)


MOVED_ON = "settings are older than the store's"


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "slicewatch")


class Site(Pipeline):
    """A pipeline whose settings change; what runs keeps those it was started with."""

    def __init__(self, folder: Path, text: str = OLD, url: str | None = None) -> None:
        self.folder = folder
        self.overrides: dict[str, Any] = {"stream__clock": "history"}
        self.overrides |= {"store__url": url} if url else {}
        super().__init__(folder, text=text, **self.overrides)

    def change(self, text: str) -> None:
        """Start with other settings from now on."""
        self.settings = settings_with(self.folder, text, **self.overrides)
        open_store(self.settings, self.clock).dispose()

    def produce(self, decisions: Sequence[Event], labels: Sequence[Event] = ()) -> None:
        self.broker.produce(DECISIONS, messages(decisions))
        self.broker.produce(LABELS, messages(labels))

    @property
    def eras(self) -> list[int]:
        with self.engine.connect() as connection:
            query = "SELECT effective_from FROM coding ORDER BY effective_from"
            return list(connection.execute(sa.text(query)).scalars())

    def published(self) -> Snapshot:
        self.fold()
        body = self.snapshot()
        assert body is not None
        return decode(body)

    def run(self, *arguments: str) -> str:
        """A command with the settings of now; its output."""
        path = self.folder / "settings.toml"
        env = {f"SLICEWATCH__{name.upper()}": value for name, value in self.overrides.items()}
        env.setdefault("SLICEWATCH__STORE__URL", f"sqlite:///{self.path}")
        result = CliRunner(env=env).invoke(cli, [*arguments, "--settings", str(path)])
        assert result.exit_code == 0, result.output
        return result.output


def in_region(decisions: Sequence[Event], seed: int) -> list[Event]:
    """The same decisions, most of them with a region."""
    pick = random.Random(seed)
    return [
        changed(d, attributes=d["attributes"] | ({"region": region} if region else {}))
        for d in decisions
        for region in [pick.choice(("eu", "us", "mars", None))]
    ]


def count_by_era(
    eras: Mapping[int, str], decisions: Sequence[Event], labels: Sequence[Event]
) -> Counted:
    """The oracle's counts when every decision is coded by the settings of its time."""
    total: Counted = {}
    for start, text in eras.items():
        own = [d for d in decisions if start == max(s for s in eras if s <= at(d) or s == 0)]
        rules = oracle.Rules(attributes_in(text), ID_KEY.encode())
        for cell, row in oracle.count(rules, own, labels).counts.items():
            into = total.setdefault(cell, {})
            for name, value in row.items():
                into[name] = into.get(name, 0) + value
    return total


def at(event: Event) -> int:
    return to_micros(datetime.fromisoformat(event["decided_at"].replace("Z", "+00:00")))


def next_hour(events: Sequence[Event]) -> int:
    return (max(map(at, events)) // HOUR + 1) * HOUR


@pytest.mark.parametrize("seed", range(2))
def test_every_decision_is_coded_by_the_era_of_its_time(
    seed: int, tmp_path: Path, url: str
) -> None:
    """Late decisions and labels, a crash, a restart: none of them can be seen."""
    history = Histories(seed, 120)
    early = [d for d in history.decisions if at(d) < to_micros(START + timedelta(hours=30))]
    first, late = early[::2], in_region(early[1::2], seed)
    rest = in_region([d for d in history.decisions if d not in early], seed)
    then = shuffled([*late, *rest], random.Random(seed))
    with Site(tmp_path, url=url) as site:
        site.produce(first, history.labels[::3])
        worker = site.worker()
        site.drain()
        site.kill(worker)
        site.change(NEW)
        boundary = next_hour([*first, *history.labels[::3]])
        assert site.eras == [0, boundary]
        site.produce(then, history.labels)
        crashed = site.worker()
        for _ in range(seed + 2):
            site.step(crashed)
        site.kill(crashed)
        site.worker()
        site.drain()
        site.fold()
        site.check_conservation()
        assert not dead_letters(site.engine)
        expected = count_by_era({0: OLD, boundary: NEW}, [*first, *then], history.labels)
        site.check_counts(expected)


def test_a_worker_with_older_settings_is_refused_for_good(tmp_path: Path, url: str) -> None:
    history = Histories(5, 60)
    first, then = history.decisions[:20], in_region(history.decisions[20:], 5)
    with Site(tmp_path, url=url) as site:
        site.produce(first)
        old = site.worker()
        site.drain()
        unflushed = [lesson.decision("late", START, 0.8, attributes={"channel": "fax"})]
        site.produce(unflushed)
        old.step(0)  # read, coded by the old settings, not in the store yet
        site.change(NEW)
        with pytest.raises(OutdatedError, match=MOVED_ON):
            go_on(site, old)
        site.kill(old)
        site.produce(then, history.labels)
        site.worker()
        site.drain()
        site.fold()
        site.check_conservation()
        eras = {0: OLD, next_hour(first): NEW}
        site.check_counts(count_by_era(eras, [*first, *unflushed, *then], history.labels))


def go_on(site: Site, worker: Ingest) -> None:
    for _ in range(10):
        site.step(worker)


@pytest.mark.parametrize("parts", [Parts(serve=False), Parts(ingest=False)])
def test_a_service_with_older_settings_ends_with_the_error(parts: Parts, tmp_path: Path) -> None:
    """The command line makes one line and exit code 2 of it."""
    with Site(tmp_path) as site:
        count(site, Histories(1, 10).decisions)
        settings = settings_with(
            site.folder, OLD, server__listen="127.0.0.1:0", evaluate__cycle="1s", **site.overrides
        )
        service = Service(
            settings, parts, source=lambda _: MemorySource(site.broker, [DECISIONS, LABELS])
        )
        ended: list[BaseException] = []

        def run() -> None:
            try:
                service.run()
            except SlicewatchError as error:
                ended.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        if parts.ingest:
            eventually(lambda: all(s.epoch > 1 for s in site.statuses()), "a claim")
        else:
            eventually(lambda: site.snapshot() is not None, "a Snapshot")
        site.change(NEW)
        site.produce([lesson.decision("next", START + timedelta(hours=70), 0.8)])
        thread.join(60)
        assert [type(error) for error in ended] == [OutdatedError]


def test_workers_started_at_once_make_one_era(tmp_path: Path, url: str) -> None:
    with Site(tmp_path, url=url) as site:
        count(site, Histories(1, 10).decisions)
        together = threading.Barrier(4)
        failures: list[SlicewatchError] = []

        def start() -> None:
            together.wait()
            try:
                open_store(settings, site.clock).dispose()
            except SlicewatchError as error:
                failures.append(error)

        settings = settings_with(site.folder, NEW, **site.overrides)
        threads = [threading.Thread(target=start) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert len(site.eras) == 2


def test_a_claim_waits_for_a_change_that_is_under_way(tmp_path: Path, postgres_url: str) -> None:
    """PostgreSQL: the claim began before the change was committed, and must see it."""
    with Site(tmp_path, url=postgres_url) as site:
        store, refused = site.worker().store, []

        def claim() -> None:
            try:
                store.claim([status.shard for status in site.statuses()], "old", {})
            except OutdatedError as error:
                refused.append(error)

        thread = threading.Thread(target=claim)
        with site.engine.begin() as connection:
            lock_eras(connection)
            connection.execute(sa.text("UPDATE coding SET hash = 'another'"))
            thread.start()
            eventually(lambda: is_waiting(site.engine), "a claim that waits")
        thread.join()
        assert len(refused) == 1


def is_waiting(engine: sa.Engine) -> bool:
    query = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'coding'::regclass"
    with engine.connect() as connection:
        return bool(connection.execute(sa.text(query)).scalar())


def count(site: Site, decisions: Sequence[Event], labels: Sequence[Event] = ()) -> None:
    """Let one worker count these, and leave."""
    site.produce(decisions, labels)
    worker = site.worker()
    site.drain()
    site.kill(worker)


class TestStarts:
    def test_before_anything_was_counted_everything_may_change(self, tmp_path: Path) -> None:
        with Site(tmp_path) as site:
            site.change(NEW.replace("[0.70, 0.90]", "[0.5]"))
            site.change(OLD)
            assert site.eras == [0]

    def test_an_era_without_decisions_is_replaced_by_one_that_lists_more(
        self, tmp_path: Path
    ) -> None:
        with Site(tmp_path) as site:
            first = Histories(1, 10).decisions
            count(site, first)
            site.change(FAX)
            site.change(NEW)
            assert site.eras == [0, next_hour(first)]

    def test_a_supervisor_that_starts_older_settings_again_changes_nothing(
        self, tmp_path: Path
    ) -> None:
        """Or old and new processes would undo each other's start for ever."""
        with Site(tmp_path) as site:
            count(site, Histories(1, 10).decisions)
            site.change(NEW)
            eras = site.eras
            with pytest.raises(StoreError, match="channel=fax, region: not in the settings"):
                site.change(OLD)
            assert site.eras == eras
            site.run("db", "migrate", "--drop-attributes")
            site.change(OLD)
            assert site.eras == [0]

    def test_under_a_live_clock_the_era_begins_after_the_present(self, tmp_path: Path) -> None:
        with Site(tmp_path) as site:
            count(site, Histories(1, 10).decisions)
            site.clock.seconds = (START + timedelta(days=30, minutes=1)).timestamp()
            site.overrides["stream__clock"] = "live"
            site.change(NEW)
            assert site.eras == [0, to_micros(START + timedelta(days=30, hours=1))]

    def test_bands_are_fixed(self, tmp_path: Path) -> None:
        with Site(tmp_path) as site:
            count(site, Histories(1, 10).decisions)
            with pytest.raises(StoreError, match="score_bands differ"):
                site.change(OLD.replace("[0.70, 0.90]", "[0.5]"))

    def test_another_source_under_an_old_name_is_refused(self, tmp_path: Path) -> None:
        version = 'source = "judge_version"\n'
        with Site(tmp_path) as site:
            count(site, Histories(1, 10).decisions)
            with pytest.raises(StoreError, match="attribute channel: version_of differs"):
                site.change(OLD.replace('name = "channel"\n', f'name = "channel"\n{version}'))

    def test_a_removal_is_refused_in_one_line_that_says_how(self, tmp_path: Path) -> None:
        with Site(tmp_path, NEW) as site:
            count(site, Histories(1, 10).decisions)
            with pytest.raises(StoreError) as refused:
                site.change(OLD)
            assert str(refused.value) == (
                "channel=fax, region: not in the settings any more, but in this store; list it"
                " again, or delete what is stored of it: slicewatch db migrate --drop-attributes"
            )
            assert site.eras == [0]

    def test_check_says_it_before(self, tmp_path: Path) -> None:
        with Site(tmp_path) as site:
            count(site, Histories(1, 10).decisions)
            settings = settings_with(site.folder, NEW, **site.overrides)
            lines = list(check._store(settings))
            assert "a start would report: region is new and is counted apart from now on" in lines
            assert (
                "a start would report: channel=fax is new and is counted apart from now on" in lines
            )
            assert site.eras == [0]
            site.change(NEW)
            count(site, [d | {"decision_id": f"more {i}", "decided_at": "2026-06-20T10:00:00Z"}
                         for i, d in enumerate(Histories(1, 2).decisions)])  # fmt: skip
            settings = settings_with(site.folder, OLD, **site.overrides)
            with pytest.raises(StoreError, match="drop-attributes"):
                list(check._store(settings))

    def test_a_changed_alias_is_said_before_and_moves_nothing_that_was_counted(
        self, tmp_path: Path
    ) -> None:
        """The canary becomes stable: the hour in which it does begins another era."""
        with Site(tmp_path, released("p1")) as site:
            first = [lesson.decision("a", START, 0.8), lesson.decision("b", START, 0.5)]
            count(site, first)
            promoted = settings_with(site.folder, released("p2"), **site.overrides)
            lines = list(check._store(promoted))
            told = "a start would report: release has other aliases or ranges, for decisions from"
            assert f"{told} now on" in lines
            site.change(released("p2"))
            assert len(site.eras) == 2
            late = lesson.decision("late", START + timedelta(minutes=1), 0.8)
            count(site, [late, lesson.decision("c", START + timedelta(hours=30), 0.8)])
            site.fold()
            found: Counter[str] = Counter()
            for cell, row in site.counts().items():
                found[parse_atom(cell[2])["release"]] += row["n"] if cell[0] == "1d" else 0
            assert found == {"canary": 3, "__other__": 1}


def released(canary: str) -> str:
    """The settings with the policy as an attribute: this version is the canary."""
    text = f"""[[attribute]]
name = "release"
source = "policy_version"
values = ["stable", "canary"]
aliases = {{ "p0" = "stable", "{canary}" = "canary" }}
"""
    return OLD.replace("[[use_case]]", f"{text}[[use_case]]")


# What is shown

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def steady(
    start: datetime, hours: int, attributes: Sequence[Mapping[str, str]], each: int = 12
) -> tuple[list[Event], list[Event]]:
    """Decisions of these attributes every hour, all labelled."""
    decisions, labels = [], []
    for hour in range(hours):
        for number in range(each * len(attributes)):
            moment = start + timedelta(hours=hour, seconds=number)
            key = f"{moment.isoformat()} {number}"
            score = (0.5, 0.8)[number // len(attributes) % 2]
            own = {"language_variety": "formal", **attributes[number % len(attributes)]}
            decisions.append(lesson.decision(key, moment, score, attributes=own))
            labels.append(lesson.label(key, moment, number % 3 > 0))
    return decisions, labels


def window(snapshot: Snapshot, name: str) -> WindowTable:
    (table,) = snapshot.contracts
    return next(w for w in table.windows if w.window == name)


def group(snapshot: Snapshot, name: str, group_by: str) -> GroupTable:
    return next(g for g in window(snapshot, name).groups if g.group_by == group_by)


def supports(table: GroupTable) -> dict[str, int | None]:
    """Decisions of every row, None where it is hidden."""
    selection = {row.slice: row.rates.get(Metric.SELECTION) for row in table.rows}
    return {text: None if rate is None else rate.support for text, rate in selection.items()}


CHANNELS = [{"channel": name} for name in ("chat", "email", "fax")]


def change_at_noon(site: Site, text: str, sent: Sequence[Mapping[str, str]]) -> Snapshot:
    """Count six hours, change the settings, and count three more.

    The watermark stands 10 minutes before the newest event, at 10:50 when the settings change: the
    hour of 11 is the first that begins later, and that of 12 is the newest that has closed.
    """
    count(site, *steady(NOON - timedelta(hours=6), 6, CHANNELS))
    site.published()
    site.change(text)
    site.published()
    count(site, *steady(NOON, 3, sent))
    return site.published()


def shown_supports(snapshot: Snapshot, name: str, group_by: str) -> dict[str, int]:
    """Decisions of every row that is shown."""
    return {text: n for text, n in supports(group(snapshot, name, group_by)).items() if n}


class TestAdded:
    """A change is one of the tables that begin after it; what is older stays as it is."""

    def test_a_value(self, tmp_path: Path) -> None:
        with Site(tmp_path, short(OLD)) as site:
            shown = change_at_noon(site, short(FAX), CHANNELS)
        assert shown_supports(shown, "24h", "channel") == {
            "channel=__other__": 72, "channel=chat": 84, "channel=email": 84,
        }  # fmt: skip
        hidden = next(r for r in group(shown, "24h", "channel").rows if r.slice == "channel=fax")
        assert set(hidden.states.values()) == {State.SUPPRESSED}
        assert shown_supports(shown, "1h", "channel") == {
            "channel=chat": 12, "channel=email": 12, "channel=fax": 12,
        }  # fmt: skip

    def test_a_group_by_of_a_new_attribute(self, tmp_path: Path) -> None:
        regions = [{"channel": "chat", "region": "eu"}, {"channel": "chat", "region": "us"}]
        with Site(tmp_path, short(OLD)) as site:
            shown = change_at_noon(site, short(BY_REGION, 3), regions)
            with pytest.raises(StoreError, match="numbers changed under the unchanged version"):
                site.change(short(NEW, 3))
        assert shown_supports(shown, "24h", "region") == {
            "region=__missing__": 36, "region=eu": 12, "region=us": 12,
        }, "of the hours that have tables of it"  # fmt: skip
        assert shown_supports(shown, "24h", "channel")["channel=chat"] == 6 * 12 + 24
        assert shown_supports(shown, "1h", "region") == {"region=eu": 12, "region=us": 12}
        crossed = shown_supports(shown, "1h", "channel+region")
        assert crossed == {"channel=chat,region=eu": 12, "channel=chat,region=us": 12}

    def test_a_group_by_of_known_attributes(self, tmp_path: Path) -> None:
        alone = OLD.replace('  { attributes = ["channel", "language_variety"] },\n', "")
        with Site(tmp_path, short(alone)) as site:
            shown = change_at_noon(site, short(OLD, 3), CHANNELS[:1])
        assert shown_supports(shown, "24h", "channel+language_variety") == {
            "channel=__other__,language_variety=formal": 12,
            "channel=chat,language_variety=formal": 24,
            "channel=email,language_variety=formal": 12,
        }, "of the hours that have tables of it"
        assert shown_supports(shown, "1h", "channel+language_variety") == {
            "channel=chat,language_variety=formal": 12
        }

    def test_another_population_of_a_use_case(self, tmp_path: Path) -> None:
        """No sum has tables of both in it."""
        scoped = short(FAX, 3).replace("k = 1\n", 'k = 1\nwhere = { channel = "fax" }\n')
        scoped = re.sub(r'  \{ attributes = \["channel".*\n', "", scoped)
        with Site(tmp_path, short(OLD)) as site:
            shown = change_at_noon(site, scoped, CHANNELS)
        for name in ("1h", "24h"):
            assert window(shown, name).total.rates[Metric.SELECTION].support == 12


class TestNumbers:
    def test_a_raised_k_hides_in_the_tables_that_begin_after_it(self, tmp_path: Path) -> None:
        guarded = raised(OLD, 2).replace("synthetic = true\nk = 1", "k = 11")
        more = raised(OLD, 3).replace("synthetic = true\nk = 1", "k = 200")
        with Site(tmp_path, guarded) as site:
            count(site, *steady(NOON, 3, CHANNELS[:1], each=100))
            before = shown_supports(site.published(), "1h", "channel")
            assert before["channel=chat"] > 90
            with pytest.raises(StoreError, match="numbers changed under the unchanged version"):
                site.change(guarded.replace("k = 11", "k = 200"))
            site.change(more)
            assert shown_supports(site.published(), "1h", "channel") == before
            count(site, *steady(NOON + timedelta(hours=3), 2, CHANNELS[:1], each=100))
            shown = site.published()
        assert shown_supports(shown, "1h", "channel") == {}
        assert shown.contracts[0].k == 200

    def test_a_raised_contract_version_is_kept_beside_the_old_one(self, tmp_path: Path) -> None:
        with Site(tmp_path) as site:
            count(site, *steady(NOON, 2, CHANNELS[:2]))
            site.change(raised(OLD).replace("min_positives", "max_tpr_gap = 0.2\nmin_positives"))
            assert site.published().contracts[0].max_gaps[Metric.TPR] == 0.2
            with site.engine.connect() as connection:
                query = sa.text("SELECT version FROM contract ORDER BY version")
                assert list(connection.execute(query).scalars()) == ["1", "2"]


# What is removed


def everywhere(engine: sa.Engine) -> Iterator[tuple[str, bytes]]:
    """Every value of every column of every table, BLOBs decoded."""
    with engine.connect() as connection:
        for table in metadata.sorted_tables:
            for row in connection.execute(sa.select(table)).mappings():
                for column, value in row.items():
                    where = f"{table.name}.{column}"
                    if where == "delta.payload":
                        yield where, repr(deltas.decode(value)).encode()
                    elif isinstance(value, bytes):
                        yield where, value
                    else:
                        yield where, str(value).encode()


def found(engine: sa.Engine, *words: str) -> set[str]:
    return {where for where, text in everywhere(engine) for w in words if w.encode() in text}


def without(decisions: Sequence[Event], name: str) -> list[Event]:
    return [
        changed(d, attributes={n: v for n, v in d["attributes"].items() if n != name})
        for d in decisions
    ]


@contextmanager
def never_had(folder: Path, text: str) -> Iterator[Site]:
    folder.mkdir()
    with Site(folder, text) as site:
        yield site


@pytest.mark.parametrize("seed", range(2))
def test_after_a_removal_the_store_is_as_if_it_had_never_been_listed(
    seed: int, tmp_path: Path, url: str
) -> None:
    """Folded or not, labelled before or after, in two eras: every count is the other store's."""
    history = Histories(seed, 120)
    early = [d for d in history.decisions if at(d) < to_micros(START + timedelta(hours=30))]
    late = in_region([d for d in history.decisions if d not in early], seed)
    labels, half = history.labels, len(history.labels) // 2
    kept = "__other__" if seed else "fax"  # seed 0 removes the attribute alone
    after = raised(OLD if seed else FAX)
    with Site(tmp_path, OLD, url) as site, never_had(tmp_path / "never", after) as never:
        count(site, early)
        site.change(raised(BY_REGION, 3))
        count(site, late, labels[:half])
        site.fold()
        extra = in_region([changed(d, decision_id=f"{d['decision_id']} x") for d in late], seed)
        count(site, extra)  # counted, not folded yet
        settings_with(site.folder, after, **site.overrides)
        with pytest.raises(StoreError, match="region: not in the settings any more"):
            site.change(after)
        gone = site.run("db", "migrate", "--drop-attributes")
        assert ("deleted: channel=fax, region" if seed else "deleted: region") in gone
        site.change(after)
        words = ["region", "mars", "=eu", "=us"] + ["fax"] * (kept != "fax")
        assert found(site.engine, *words) == set()
        last = [changed(d, decision_id=f"{d['decision_id']} y") for d in without(late, "region")]
        count(site, last, labels[half:])
        site.fold()
        site.check_conservation()

        count(never, without([*early, *late, *extra, *last], "region"), labels)
        never.fold()
        expected = never.counts()
        if not seed:
            eras = {0: OLD, site.eras[1]: FAX}
            everything = without([*early, *late, *extra, *last], "region")
            expected = count_by_era(eras, everything, labels)
        site.check_counts(expected)


def test_a_removed_value_is_in_no_byte_of_the_file(tmp_path: Path) -> None:
    named = raised(FAX, 3).replace('{ attributes = ["channel"] }',
                        '{ attributes = ["channel"], reference = "channel=fax" }')  # fmt: skip
    after = raised(OLD)
    with Site(tmp_path, named) as site:
        count(site, *steady(NOON, 30, CHANNELS))
        before = group(site.published(), "24h", "channel")
        assert any(row.gaps for row in before.rows)
        assert {"atom.text", "coding.body", "snapshot.body", "contract.numbers"} <= found(
            site.engine, "fax"
        )
        settings_with(site.folder, after, **site.overrides)
        assert "deleted: channel=fax" in site.run("db", "migrate", "--drop-attributes")
        assert "deleted: nothing" in site.run("db", "migrate", "--drop-attributes")
        site.change(after)
        assert found(site.engine, "fax") == set()
        site.engine.dispose()
        for file in site.folder.glob("store.db*"):
            assert b"fax" not in file.read_bytes(), file
        site.fold()  # from the next hour on
        count(site, *steady(NOON + timedelta(hours=30), 3, CHANNELS))
        left = supports(group(site.published(), "1h", "channel"))
        assert left == {"channel=__other__": 12, "channel=chat": 12, "channel=email": 12}


def test_a_removal_needs_the_contracts_new_version_first(tmp_path: Path) -> None:
    """Or a comparison would vanish from a version that people know."""
    with Site(tmp_path, raised(BY_REGION)) as site:
        count(site, in_region(Histories(1, 20).decisions, 1))
        path = site.folder / "settings.toml"
        settings_with(site.folder, raised(OLD), **site.overrides)
        env = {"SLICEWATCH__STORE__URL": f"sqlite:///{site.path}"}
        arguments = ["db", "migrate", "--drop-attributes", "--settings", str(path)]
        result = CliRunner(env=env).invoke(cli, arguments, standalone_mode=False)
        assert result.exit_code != 0
        assert "numbers changed under the unchanged version 2" in str(result.exception)
        assert "atom.text" in found(site.engine, "region")


def test_who_runs_during_a_removal_must_be_started_anew(tmp_path: Path, url: str) -> None:
    with Site(tmp_path, NEW, url) as site:
        site.produce(in_region(Histories(2, 40).decisions, 2))
        worker, evaluator = site.worker(), site.evaluator()
        site.drain()
        assert evaluator.cycle()
        settings_with(site.folder, OLD, **site.overrides)
        site.run("db", "migrate", "--drop-attributes")
        site.produce([lesson.decision("after", START + timedelta(hours=40), 0.8)])
        with pytest.raises(OutdatedError, match=MOVED_ON):
            go_on(site, worker)
        with pytest.raises(OutdatedError, match=MOVED_ON):
            evaluator.cycle()
        evaluator.release_lease()
