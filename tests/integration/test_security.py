"""SASL, TLS and ACLs on a real Apache Kafka: who is let in, what is said, what is lost later."""

from __future__ import annotations

import json
import re
import shlex
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import lesson
import pytest
import sqlalchemy as sa
from certificates import Certificates, make_certificates
from click.testing import CliRunner
from kafka.admin import ResourceType
from pipeline import read_counts
from running import Running
from secured_kafka import CLIENT, SecuredKafka
from signed_probes import WITH_KEY

from monitor.commands.check import command as check
from monitor.composition.brokers import ACCESS_TIMEOUT, kafka_source
from monitor.service import WATCH_SECONDS
from monitor.settings import load
from monitor.watchdog import ACCESS_SECONDS

ROOT = Path(__file__).parents[2]
SETTINGS = ROOT / "deploy" / "examples" / "ten_pairs.toml"
CLIENTS = ["kafka-python", "librdkafka"]
START_SECONDS, LOSS_SECONDS = 10, 20
"""What deploy/docs/security.md promises."""
BUSY = 3
"""So many times as long a machine may take that runs other tests besides."""
ONCE = pytest.mark.parametrize("site", CLIENTS[:1], indirect=True)
"""A refusal at the start is found before any client exists: not every step needs both."""
ONCE_FAST = pytest.mark.parametrize(
    "site", [CLIENTS[0], pytest.param(CLIENTS[1], marks=pytest.mark.full)], indirect=True
)
PASSWORD = "correct-horse-battery"
SECURITY = "SLICEWATCH__STREAM__SECURITY__"


def documented_acls() -> list[str]:
    return re.findall(
        r"^kafka-acls\.sh .*$", (ROOT / "deploy/docs/security.md").read_text(), re.MULTILINE
    )


@dataclass
class Site:
    """Topics, a group and a user that no other test has, and a service that reads them."""

    broker: SecuredKafka
    name: str
    folder: Path
    client: str

    @property
    def decisions(self) -> str:
        return f"{self.name}-decisions"

    @property
    def acls(self) -> list[str]:
        """The documented commands under our names: decisions, labels, group."""
        ours = {
            "decisions": self.decisions,
            "labels": f"{self.name}-labels",
            "slicewatch": self.name,
            "User:slicewatch": f"User:{self.name}",
        }
        lines = [[ours.get(word, word) for word in shlex.split(x)] for x in documented_acls()]
        return [shlex.join(words) for words in lines]

    def produce(self) -> None:
        self.broker.produce(self.decisions, lesson.encode(lesson.decisions()))
        self.broker.produce(f"{self.name}-labels", lesson.encode(lesson.labels()))

    def environment(self, **security: str | None) -> dict[str, str]:
        """A service with the right password, but for the security settings given (None: unset)."""
        address = security.pop("address", self.broker.password_listener)
        settings: dict[str, str | None] = {
            "protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-256",
            "username": self.name,
            "password": PASSWORD,
            "ca_file": str(self.broker.certificates.ca),
            **security,
        }
        return {
            "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": str(address),
            "SLICEWATCH__STREAM__CLIENT": self.client,
            "SLICEWATCH__STREAM__DECISIONS_TOPIC": self.decisions,
            "SLICEWATCH__STREAM__LABELS_TOPIC": f"{self.name}-labels",
            "SLICEWATCH__STREAM__GROUP_ID": self.name,
            "SLICEWATCH__STREAM__SESSION_TIMEOUT": "6s",
            "SLICEWATCH__STORE__URL": f"sqlite:///{self.folder}/store.db",
            **WITH_KEY,
            **{SECURITY + key.upper(): value for key, value in settings.items() if value},
        }

    def run(self, **security: str | None) -> Running:
        arguments = ["run", "--settings", str(SETTINGS)]
        return Running(self.folder, arguments, self.environment(**security))

    def certificate(self) -> dict[str, str | None]:
        """What logs in by certificate instead of a password."""
        files = self.broker.certificates
        login = dict.fromkeys(("sasl_mechanism", "username", "password"))
        pair = {"cert_file": str(files.client), "key_file": str(files.client_key)}
        return {"address": self.broker.certificate_listener, "protocol": "SSL", **login, **pair}


@pytest.fixture(params=CLIENTS)
def site(
    secured_kafka: SecuredKafka, topic_name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Site]:
    site = Site(secured_kafka, f"site-{topic_name[-8:]}", tmp_path, request.param)
    for kind in ("decisions", "labels"):
        secured_kafka.create_topic(f"{site.name}-{kind}", 2)
    secured_kafka.set_password(site.name, PASSWORD)
    yield site
    for log in tmp_path.glob("slicewatch-*.log"):
        assert PASSWORD not in log.read_text()


def consumed(service: Running) -> Counter[str]:
    """Messages by topic, over its partitions."""
    found: Counter[str] = Counter()
    for (name, labels), value in service.metrics().items():
        if name == "slicewatch_messages_consumed_total":
            found[dict(labels)["topic"].rpartition("-")[2]] += int(value)
    return found


def assert_exact(site: Site, decisions: int = 20) -> None:
    """Every decision and every label of the lesson is counted once."""
    engine = sa.create_engine(f"sqlite:///{site.folder}/store.db")
    counted = read_counts(engine)
    engine.dispose()
    hours = [cell for (grain, *_), cell in counted.items() if grain == "1h"]
    assert hours
    assert sum(cell.get("n", 0) for cell in hours) == decisions
    assert sum(cell.get("labelled", 0) for cell in hours) == 20


def test_the_right_password_with_the_documented_rights_counts_exactly(site: Site) -> None:
    assert len(site.acls) == 3
    site.broker.allow("\n".join(site.acls))
    site.produce()
    with site.run() as service:
        service.until(lambda: consumed(service) == {"decisions": 20, "labels": 20}, "all of it")
        service.until(lambda: service.get("/readyz")[0] == 200, "readiness")
        assert service.stop() == 0
    assert_exact(site)


@pytest.mark.full
def test_a_client_certificate_with_the_documented_rights_counts_exactly(site: Site) -> None:
    mine = f"User:{site.name}"
    site.broker.allow("\n".join(site.acls).replace(mine, shlex.quote(CLIENT)))
    site.produce()
    with site.run(**site.certificate()) as service:
        service.until(lambda: consumed(service) == {"decisions": 20, "labels": 20}, "all of it")
        assert service.stop() == 0
    assert_exact(site)
    site.broker.forbid(CLIENT)


def test_the_promised_times_are_kept_by_a_machine_that_is_not_busy() -> None:
    said = (ROOT / "deploy/docs/security.md").read_text()
    assert f"the process ends within {START_SECONDS} seconds" in said
    assert f"Within {LOSS_SECONDS} seconds of a loss" in said
    assert ACCESS_TIMEOUT < START_SECONDS
    assert ACCESS_SECONDS + ACCESS_TIMEOUT + WATCH_SECONDS < LOSS_SECONDS


def refused(site: Site, **security: str | None) -> str:
    """The one line of a process that must end by itself, with exit code 2, in time."""
    with site.run(**security) as service:
        began = time.monotonic()  # not before: the first start of a session makes the imports
        code = service.process.wait(timeout=60)
        took = time.monotonic() - began
        (line,) = service.log.read_text().splitlines()
    assert code == 2, line
    assert took < BUSY * START_SECONDS, line
    assert line.startswith("slicewatch: ")
    return line


@ONCE_FAST
def test_a_wrong_password_is_said(site: Site) -> None:
    line = refused(site, password="wrong-horse-battery")
    assert f"refuses the login of user {site.name} by SCRAM-SHA-256" in line
    assert "stream.security.password is wrong" in line
    assert "wrong-horse" not in line


Changes = Callable[[Site, Certificates], dict[str, str | None]]
NO_LOGIN = dict.fromkeys(("sasl_mechanism", "username", "password"))
REFUSALS: dict[str, tuple[Changes, str]] = {
    "an unknown user": (
        lambda _, __: {"username": "nobody"},
        "refuses the login of user nobody by SCRAM-SHA-256: the user is unknown",
    ),
    "a mechanism that is not offered": (
        lambda _, __: {"sasl_mechanism": "PLAIN"},
        "does not offer stream.security.sasl_mechanism = PLAIN.*use SCRAM-SHA-256 or SCRAM-SHA-512",
    ),
    "a wrong authority": (
        lambda _, strangers: {"ca_file": str(strangers.ca)},
        "the certificate of {password} is not trusted.*set stream.security.ca_file",
    ),
    "plain text at a TLS port": (
        lambda _, __: {"protocol": "PLAINTEXT", "ca_file": None, **NO_LOGIN},
        "does not speak Kafka in plain text, TLS perhaps: set stream.security.protocol",
    ),
    "TLS at a plain port": (
        lambda site, _: {"address": site.broker.bootstrap},
        "{plain} does not speak TLS: set stream.security.protocol",
    ),
    "no login": (
        lambda _, __: {"protocol": "SSL", **NO_LOGIN},
        "hangs up without a login: set stream.security.protocol to SASL_SSL",
    ),
    "no client certificate": (
        lambda site, _: {**site.certificate(), "cert_file": None, "key_file": None},
        "hangs up without a client certificate: set stream.security.cert_file",
    ),
    "a client certificate of strangers": (
        lambda site, strangers: {
            **site.certificate(),
            "cert_file": str(strangers.client),
            "key_file": str(strangers.client_key),
        },
        "refuses the client certificate",
    ),
}


@pytest.mark.full
@ONCE
@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_says_what_to_set(
    site: Site, case: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    changes, words = REFUSALS[case]
    line = refused(site, **changes(site, make_certificates(tmp_path_factory.mktemp("strangers"))))
    where = {"password": site.broker.password_listener, "plain": site.broker.bootstrap}
    assert re.search(words.format(**where), line), line


@pytest.mark.full
@ONCE
def test_files_that_cannot_be_used_are_said(site: Site) -> None:
    line = refused(site, ca_file="/nowhere/ca.pem")
    assert "ca_file cannot be used: /nowhere/ca.pem: No such file or directory" in line
    line = refused(site, ca_file=str(SETTINGS))
    assert f"stream.security.ca_file cannot be used: {SETTINGS}: PEM is needed" in line
    wrong = {**site.certificate(), "key_file": str(site.broker.certificates.server_key)}
    assert "stream.security.cert_file and key_file cannot be used" in refused(site, **wrong)


@pytest.mark.full
@ONCE
@pytest.mark.parametrize(("missing", "kind"), [(0, "topic"), (1, "topic"), (2, "group")])
def test_a_missing_right_is_said(site: Site, missing: int, kind: str) -> None:
    command = site.acls.pop(missing)
    wanted = command.split()[-1]
    site.broker.allow("\n".join(line for line in site.acls if line != command))
    line = refused(site)
    assert f"{kind} {wanted} may not be read by user {site.name}" in line
    fix = " ".join(command.split()[6:])
    assert f"allow it with kafka-acls.sh --add {fix}" in line


@pytest.mark.full
@ONCE
def test_describing_a_topic_or_group_is_not_reading_it(site: Site) -> None:
    site.broker.allow("\n".join(site.acls).replace("--operation Read", "--operation Describe"))
    assert f"topic {site.decisions} may not be read" in refused(site)
    site.broker.allow("\n".join(site.acls[:2]))
    assert f"group {site.name} may not be read" in refused(site)


@pytest.mark.full
@ONCE
def test_check_connect_says_the_same(site: Site) -> None:
    def checked(**security: str | None) -> tuple[str, str]:
        runner = CliRunner(env=site.environment(**security))
        arguments = ["--settings", str(SETTINGS), "--connect"]
        result = runner.invoke(check, arguments, standalone_mode=False)
        assert PASSWORD not in result.output
        return result.output, str(result.exception)

    assert f"topic {site.decisions} may not be read by user" in checked()[1]
    site.broker.allow("\n".join(site.acls[:2]))
    assert f"group {site.name} may not be read by user" in checked()[1]
    site.broker.allow(site.acls[2])
    assert "we may not read how long it keeps messages" in checked()[0]
    assert "refuses the login" in checked(username="nobody")[1]


@pytest.mark.full
@ONCE
def test_check_connect_says_that_a_topic_of_events_over_http_may_not_be_written(site: Site) -> None:
    site.broker.allow("\n".join(site.acls))
    named = {
        "SLICEWATCH__SERVER__TOKENS__0__NAME": "router",
        "SLICEWATCH__SERVER__TOKENS__0__TOKEN": "0123456789abcdef",
        "SLICEWATCH__SERVER__TOKEN": "fedcba9876543210",
        "SLICEWATCH__SERVER__PRODUCERS": "router",
    }

    def checked() -> str:
        runner = CliRunner(env=site.environment() | named)
        result = runner.invoke(
            check, ["--settings", str(SETTINGS), "--connect"], standalone_mode=False
        )
        return f"{result.output}{result.exception}"

    line = checked()
    assert f"topic {site.decisions} may not be written by user {site.name}" in line
    assert f"--operation Write --topic {site.decisions}" in line
    site.broker.allow("\n".join(site.acls[:2]).replace("--operation Read", "--operation Write"))
    assert "ok: both topics may be written, for server.producers; nothing was written" in checked()


@pytest.mark.full
def test_a_refused_source_polls_on_without_haste(site: Site) -> None:
    """A client that raises its refusal anew at every call would keep a core busy."""
    site.broker.allow("\n".join(site.acls))
    source = kafka_source(load(SETTINGS, site.environment()))
    try:
        deadline, begun = time.monotonic() + 60, 0
        while begun < 4:
            assert time.monotonic() < deadline
            for shard in source.poll(0.5).assigned:
                source.begin(shard, 0)
                begun += 1
        site.broker.forbid(f"User:{site.name}")
        polls, until = 0, time.monotonic() + 6
        while time.monotonic() < until:
            assert not source.poll(0.5).records
            polls += 1
        assert polls < 40
    finally:
        source.close()


def said(service: Running, state: str) -> list[str]:
    """Why, by the log lines that told of a state."""
    lines = [json.loads(line) for line in service.log.read_text().splitlines()]
    return [x.get("why", "") for x in lines if x["event"] == f"consumer is {state}"]


def refusals(service: Running) -> list[str]:
    """Of rights; a broker on a busy machine may have been too slow to answer besides."""
    return [why for why in said(service, "stuck") if "may not be read" in why]


def assert_lost(service: Running, reason: str) -> None:
    """Not ready and stuck, within the promised time, for a reason; the process lives on."""

    def is_lost() -> bool:
        stuck = service.value("slicewatch_consumer_state", state="stuck") == 1
        told = reason in (said(service, "stuck") or [""])[-1]
        return stuck and told and service.get("/readyz")[0] == 503

    service.until(is_lost, reason, BUSY * LOSS_SECONDS)
    assert service.get("/livez")[0] == 200


def assert_back(service: Running) -> None:
    """Ready again by itself, and what was produced meanwhile is read."""
    service.until(lambda: service.get("/readyz")[0] == 200, "readiness again")
    service.until(lambda: consumed(service)["decisions"] == 21, "one more decision")


@pytest.fixture
def reading(site: Site) -> Iterator[Running]:
    """A service that has read everything and is ready; in the end it has read one more, once."""
    site.broker.allow("\n".join(site.acls))
    site.produce()
    with site.run() as service:
        service.until(lambda: consumed(service) == {"decisions": 20, "labels": 20}, "all of it")
        service.until(lambda: service.get("/readyz")[0] == 200, "readiness")
        yield service
        assert service.stop() == 0
    assert_exact(site, 21)


@pytest.mark.full
def test_rights_on_topics_are_lost_and_given_back(site: Site, reading: Running) -> None:
    site.broker.forbid(f"User:{site.name}", ResourceType.TOPIC)
    site.broker.produce(site.decisions, lesson.encode(iter([lesson.tick()])))
    assert_lost(reading, f"topic {site.decisions} may not be read")
    (why,) = refusals(reading)
    assert f"--operation Read --topic {site.decisions}" in why
    site.broker.allow("\n".join(site.acls[:2]))
    assert_back(reading)
    assert len(refusals(reading)) == 1


@pytest.mark.full
def test_the_right_on_the_group_is_lost_and_given_back(site: Site, reading: Running) -> None:
    site.broker.forbid(f"User:{site.name}", ResourceType.GROUP)
    assert_lost(reading, f"group {site.name} may not be read")
    site.broker.allow(site.acls[2])
    site.broker.produce(site.decisions, lesson.encode(iter([lesson.tick()])))
    assert_back(reading)
    assert len(refusals(reading)) == 1


@pytest.mark.full
def test_a_changed_password_and_a_broker_that_is_away(site: Site, reading: Running) -> None:
    site.broker.set_password(site.name, "another-horse-battery")
    assert_lost(reading, "refuses the login")
    site.broker.stop()  # drops the connection that outlived the change
    assert_lost(reading, "no Kafka broker can be reached")
    site.broker.restart()
    assert_lost(reading, "refuses the login")
    site.broker.set_password(site.name, PASSWORD)
    site.broker.produce(site.decisions, lesson.encode(iter([lesson.tick()])))
    assert_back(reading)
    known = ("refuses the login", "no Kafka broker can be reached")
    told = [one for why in said(reading, "stuck") for one in known if one in why]
    assert [one for one, _ in groupby(told)] == [known[0], known[1], known[0]]


@pytest.mark.full
@ONCE
def test_events_over_http_need_the_right_to_write_besides(site: Site) -> None:
    """With the documented rights alone none is written, and the log says what to grant."""
    site.broker.allow("\n".join(site.acls))
    producers = {"SLICEWATCH__SERVER__PRODUCERS": "anonymous"}
    arguments = ["run", "--settings", str(SETTINGS)]
    with Running(site.folder, arguments, site.environment() | producers) as service:
        service.until(lambda: service.get("/livez")[0] == 200, "the service answers")
        assert post(service) == 503
        assert f"--operation Write --topic {site.decisions}" in service.log.read_text()
        read = "\n".join(line for line in site.acls if "--topic" in line)
        site.broker.allow(read.replace("--operation Read", "--operation Write"))
        service.until(lambda: post(service) == 200, "the event is taken")


def post(service: Running) -> int:
    event = lesson.encode(lesson.decisions())[0]
    headers = {"Content-Type": "application/json"}
    address = f"http://127.0.0.1:{service.port}/v1/events"
    request = urllib.request.Request(address, event, headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
