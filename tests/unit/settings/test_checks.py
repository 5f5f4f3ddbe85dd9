"""Contradictions are errors that name the key and say why; weak settings are warnings."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from monitor import settings as api
from monitor.errors import SettingsError

FILE = """
[stream]
[stream.security]
[server]
[privacy]
id_key = "0123456789abcdef"
[evaluate]
[retention]
[alerting]
[report]
[[attribute]]
name = "variety"
values = ["formal", "conversational"]
[[attribute]]
name = "channel"
values = ["chat", "email"]
[[attribute]]
name = "judge_version"
values = ["j1", "j2"]
source = "judge_version"
[[use_case]]
name = "replies"
owner = "team"
where = { channel = "chat" }
group_bys = [{ attributes = ["variety"] }]
[use_case.contract]
version = "1"
effective = 2026-01-01
reason = "first"
[[use_case]]
name = "mails"
owner = "team"
where = { channel = "email" }
group_bys = [{ attributes = ["variety"] }]
[use_case.contract]
version = "1"
effective = 2026-01-01
reason = "first"
"""

VALUES = [("formal", "conversational"), ("chat", "email"), ("j1", "j2")]
MANY = [f"v{i}" for i in range(40)]
Check = Callable[[dict[str, Any]], api.Settings]


def registry(**more: str) -> dict[str, Any]:
    """Avro, with a registry that has these settings."""
    return {"stream.schema_registry": {"url": "https://r", **more}}


def put(tree: Any, key: str, value: Any) -> None:
    """Set ``use_case.0.k`` in a tree; a value of None removes it."""
    *path, last = [int(part) if part.isdigit() else part for part in key.split(".")]
    for part in path:
        tree = tree[part]
    if value is None:
        del tree[last]
    else:
        tree[last] = value


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """Load the file above with some values changed."""

    def check(changes: dict[str, Any]) -> api.Settings:
        path = tmp_path / "x.toml"
        tree = tomllib.loads(FILE)
        for key, value in changes.items():
            put(tree, key, value)
        env = {}
        for section, table in tree.items():
            env[f"SLICEWATCH__{section.upper()}"] = toml(table)
        path.write_text("")
        return api.load(path, env)

    return check


def toml(value: Any) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{key} = {toml(part)}" for key, part in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(toml, value)) + "]"
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
    return str(value)


def test_the_file_itself_is_fine(check: Check) -> None:
    assert [contract.name for contract in check({}).contracts] == ["replies", "mails"]


KEYS = [{"id": "a", "key": "x" * 16}, {"id": "b", "key": "y" * 16, "from_day": "2027-01-01"}]
IMPOSSIBLE: list[tuple[dict[str, Any], str, str]] = [
    (
        {"stream.client": "embedded", "store": {"url": "postgresql://h/d"}},
        "store.url",
        "is no file",
    ),
    (
        {"stream.client": "embedded", "stream.schema_registry": {"url": "http://r"}},
        "stream.schema_registry",
        "leave it out",
    ),
    # streams and time
    ({"stream.labels_topic": "decisions"}, "stream.labels_topic", "two topics"),
    ({"stream.bootstrap_servers": []}, "stream.bootstrap_servers", "at least one"),
    ({"stream.start": "time"}, "stream.start", "with a zone"),
    ({"stream.quiet": ["2026-02-30"]}, "stream.quiet", "'2026-02-30' is no quiet time"),
    ({"stream.quiet": ["2026-12-26..2026-12-24"]}, "stream.quiet", "the earlier one first"),
    ({"stream.horizon": "1h", "stream.lateness": "2h"}, "stream.lateness", "stream.horizon"),
    ({"retention.aggregates": "20d"}, "the longest window", "retention.aggregates"),
    ({"stream.horizon": "400d"}, "stream.horizon", "retention.aggregates"),
    ({"stream.score_bands": [0.9, 0.7]}, "stream.score_bands", "increase"),
    ({"stream.score_bands": [0.7, 0.7]}, "stream.score_bands", "increase"),
    ({"stream.score_bands": [0.701, 0.702]}, "stream.score_bands", "two decimals"),
    ({"stream.score_bands": [(i + 1) / 100 for i in range(30)]}, "stream.score_bands", "29"),
    # alerts
    ({"report.timezone": "Mars/Olympus"}, "report.timezone", "not known here"),
    ({"report.timezone": "Asia/Kolkata"}, "report.timezone", "not a whole number of hours"),
    ({"alerting.office_hours": []}, "alerting.office_hours", "no day"),
    ({"alerting.office_hours": ["09:00-17:00"]}, "alerting.office_hours[0]", "monday-friday"),
    ({"alerting.office_hours": ["sunday 9-9"]}, "alerting.office_hours[0]", "office hours such"),
    ({"alerting.office_hours": ["monday 09:00-09:00"]}, "alerting.office_hours[0]", "swap the two"),
    (
        {"alerting.page": {"webhook_token_file": "x"}},
        "alerting.page.webhook_url",
        "goes with webhook_token_file",
    ),
    # broker and server
    ({"stream.schema_registry": {"username": "u"}}, "stream.schema_registry.url", "is missing"),
    (registry(username="u"), "stream.schema_registry.password", "goes with username"),
    (registry(password="p"), "stream.schema_registry.username", "goes with password"),
    (
        registry(username="u", password="p", token="t"),
        "stream.schema_registry.token",
        "keep one of the two",
    ),
    (registry(url="http://r", ca_file="x"), "stream.schema_registry.ca_file", "without TLS"),
    (registry(cert_file="x"), "stream.schema_registry.key_file", "goes with"),
    ({"stream.security.protocol": "SASL_SSL"}, "stream.security.sasl_mechanism", "needs it"),
    ({"stream.security.username": "x"}, "stream.security.username", "no effect with PLAINTEXT"),
    ({"stream.security.ca_file": "x"}, "stream.security.ca_file", "no effect with PLAINTEXT"),
    (
        {"stream.security.protocol": "SSL", "stream.security.cert_file": "x"},
        "stream.security.key_file",
        "goes with stream.security.cert_file",
    ),
    *(
        (
            {
                "stream.security": {
                    "protocol": "SASL_SSL",
                    "sasl_mechanism": "SCRAM-SHA-512",
                    "username": name,
                    "password": "p",
                }
            },
            "stream.security.username",
            "cannot log in by SCRAM",
        )
        for name in ("a=b", "a,b", "jürgen")
    ),
    ({"privacy.id_key": "short"}, "privacy.id_key", "16 to 64 bytes"),
    ({"privacy.id_key": "x" * 65}, "privacy.id_key", "16 to 64 bytes"),
    ({"privacy.id_key": None}, "privacy.id_key", "slicewatch db new-key FILE"),
    ({"privacy.id_keys": KEYS}, "privacy.id_key", "make it the first"),
    *(
        ({"privacy.id_key": None, "privacy.id_keys": keys}, f"privacy.id_keys[{key}", words)
        for keys, key, words in (
            ([{"id": "a"}], "0].key_file", "slicewatch db new-key FILE"),
            ([{"id": "store", "key": "x" * 16}], "0].id", "choose another name"),
            ([{"id": "a", "key": "x" * 15}], "0].key", "16 to 64 bytes"),
            ([{"id": "a", "key": "ü" * 33}], "0].key", "66 bytes"),
            ([{"key": "x" * 16}], "0].id", "is missing"),
            ([KEYS[0], {"id": "b", "key": "y" * 16}], "1].from_day", "is missing"),
            ([KEYS[0], KEYS[1] | {"key": "x" * 16}], "1].key", "is the key of privacy.id_keys[0]"),
            ([KEYS[0], KEYS[1] | {"id": "a"}], "1].id", "repeats 'a'"),
            ([*KEYS, KEYS[1] | {"id": "c", "key": "z" * 16}], "2].from_day", "must be later"),
            ([KEYS[0] | {"from_day": "2027-02-01"}, KEYS[1]], "1].from_day", "must be later"),
            ([KEYS[0], KEYS[1] | {"from_day": "January"}], "1].from_day", "a date such as"),
        )
    ),
    ({"server.tls_key_file": "x"}, "server.tls_cert_file", "is missing"),
    ({"server.client_ca_file": "x"}, "server.client_ca_file", "needs TLS"),
    ({"server.token": "two words"}, "server.token", "header"),
    ({"server.listen": "0.0.0.0:9095"}, "server.listen", "TLS is required"),
    ({"server.listen": "127.example.org:9095"}, "server.listen", "TLS is required"),
    (
        {"server.listen": "0.0.0.0:9095", "server.token": "x" * 16},
        "server.listen",
        "TLS is required",
    ),
    (
        {"server.listen": "[::]:9095", "server.tls_cert_file": "x", "server.tls_key_file": "x"},
        "server.listen",
        "readers must be known",
    ),
    # attributes
    ({"attribute.0.values": []}, "attribute[0].values", "at least one"),
    ({"attribute.0.values": [f"v{i}" for i in range(51)]}, "attribute[0].values", "at most 50"),
    (
        {"attribute.0.values": ["a", "a"]},
        "attribute[0].values[1]",
        "taken by attribute[0].values[0]",
    ),
    ({"attribute.1.name": "variety"}, "attribute[1].name", "taken by attribute[0].name"),
    ({"attribute.2.source": "version"}, "attribute[2].source", "judge_version"),
    ({"attribute.0.source": "judge_version"}, "attribute[2].source", "taken by attribute[0]"),
    (
        {f"attribute.{i}.values": [*values, *MANY] for i, values in enumerate(VALUES)},
        "attribute",
        "combinations of values, 10000 are possible; shorten",
    ),
    # use cases
    ({"use_case": []}, "use_case", "[[use_case]]"),
    ({"use_case.1.name": "replies"}, "use_case[1].name", "taken by use_case[0].name"),
    ({"use_case.1.where": {"channel": "chat"}}, "use_case[1].where", "by subtraction"),
    ({"use_case.1.where": {}}, "use_case[1].where", "whose contract.page_on names every limit"),
    ({"use_case.1.where": {"judge_version": "j1"}}, "use_case[1].where", "use_case[0]"),
    ({"use_case.0.where": {"chanel": "chat"}}, "use_case[0].where.chanel", "where.channel?"),
    ({"use_case.0.where": {"channel": "fax"}}, "use_case[0].where.channel", "chat, email"),
    ({"use_case.0.where": {"channel": "__other__"}}, "use_case[0].where.channel", "chat, email"),
    (
        {"use_case.0.contract.page_on": ["max_tpr_gap", "max_fpr"]},
        "use_case[0].contract.page_on[1]",
        "'max_fpr' is no limit of this contract; set it, or use some of max_tpr_gap, max_fpr_gap",
    ),
    ({"use_case.0.contract.page_on": ["tpr"]}, "use_case[0].contract.page_on[0]", "'tpr' is no"),
    ({"use_case.0.contract.page_on": "max_fpr"}, "use_case[0].contract.page_on", "in [ ]"),
    ({"use_case.0.contract.window": "1h"}, "use_case[0].contract.window", "use 24h, 7d, 28d"),
    ({"use_case.0.contract.window": "8d"}, "use_case[0].contract.window", "use 24h, 7d, 28d"),
    ({"use_case.0.group_bys": []}, "use_case[0].group_bys", "nothing is compared"),
    # privacy
    ({"privacy.k": 10}, "privacy.k", "synthetic = true"),
    ({"use_case.0.k": 10}, "use_case[0].k", "found 10"),
    ({"privacy.k": 20, "use_case.0.k": 19}, "use_case[0].k", "privacy.k (20)"),
    ({"privacy.k": 1, "use_case.0.synthetic": True}, "privacy.k", "found 1"),
]

WRONG_GROUP_BYS: list[tuple[dict[str, Any], str, str]] = [
    ({"attributes": []}, "attributes", "has 0 attributes"),
    ({"attributes": ["variety", "channel", *"abc"]}, "attributes", "use 1 to 4"),
    ({"attributes": ["variety", "variety"]}, "attributes[1]", "taken"),
    ({"attributes": ["age"]}, "attributes[0]", "not a declared attribute"),
    ({"attributes": ["channel"]}, "attributes[0]", "one value only"),
    ({"attributes": ["variety"], "reference": "best"}, "reference", "not offered"),
    ({"attributes": ["variety"], "reference": "best of the day"}, "reference", "by chance"),
    ({"attributes": ["variety"], "reference": "formal"}, "reference", "variety=formal"),
    ({"attributes": ["variety"], "reference": "variety=plain"}, "reference", "not allow-listed"),
    ({"attributes": ["variety"], "reference": "judge_version=j1"}, "reference", "this group-by"),
    (
        {"attributes": ["variety", "judge_version"], "reference": "variety=formal"},
        "reference",
        "judge_version=j1,variety=formal",
    ),
]


def line_of(check: Check, changes: dict[str, Any]) -> str:
    with pytest.raises(SettingsError) as caught:
        check(changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("changes", "key", "words"), IMPOSSIBLE)
def test_contradictions(check: Check, changes: dict[str, Any], key: str, words: str) -> None:
    message = line_of(check, changes)
    assert message.startswith(f"{key}: ")
    assert words in message


@pytest.mark.parametrize(("group_by", "key", "words"), WRONG_GROUP_BYS)
def test_wrong_group_bys(check: Check, group_by: dict[str, Any], key: str, words: str) -> None:
    message = line_of(check, {"use_case.0.group_bys": [group_by]})
    assert message.startswith(f"use_case[0].group_bys[0].{key}: ")
    assert words in message


def test_one_group_by_twice(check: Check) -> None:
    twice = [
        {"attributes": ["variety", "judge_version"]},
        {"attributes": ["judge_version", "variety"]},
    ]
    assert line_of(check, {"use_case.0.group_bys": twice}).startswith("use_case[0].group_bys[1]: ")


POSSIBLE: list[dict[str, Any]] = [
    {"stream.score_bands": []},
    {"stream.score_bands": [(i + 1) / 100 for i in range(29)]},
    {"stream.horizon": "3d", "stream.lateness": "3d"},
    {"stream.start": "2026-01-01T00:00:00Z"},
    {"attribute.0.values": [f"v{i}" for i in range(50)]},
    {"use_case.0.k": 12},
    {"privacy.k": 1, "use_case.0.synthetic": True, "use_case.1.synthetic": True},
    {"use_case.0.synthetic": True, "use_case.0.k": 1},
    {"use_case.1.where": {"channel": "email", "variety": "formal"},
     "use_case.1.group_bys": [{"attributes": ["judge_version"]}]},
    {"server.listen": "127.8.8.8:9095"},
    {"server.listen": "[::1]:9095"},
    {"server.listen": "localhost:9095"},
    {"server.listen": "0.0.0.0:9095", "server.insecure": True},
    {"server.listen": "0.0.0.0:9095", "server.tls_cert_file": "x", "server.tls_key_file": "x",
     "server.client_ca_file": "x"},
    {"stream.security.protocol": "SASL_PLAINTEXT", "stream.security.sasl_mechanism": "PLAIN",
     "stream.security.username": "u", "stream.security.password": "p"},
]  # fmt: skip


@pytest.mark.parametrize("changes", POSSIBLE)
def test_the_edges_are_allowed(check: Check, changes: dict[str, Any]) -> None:
    assert check(changes).contracts


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"stream.clock": "history"}, "stream.clock"),
        (registry(url="http://r", token="t"), "stream.schema_registry.url"),
        ({"stream.score_bands": [0.725]}, "stream.score_bands"),
        ({"server.listen": "0.0.0.0:9095", "server.insecure": True}, "server.insecure"),
        ({"server.token": "short"}, "server.token"),
        ({"attribute.0.source": "inferred"}, "attribute[0].source"),
        ({"use_case.0.synthetic": True, "use_case.0.k": 1}, "use_case[0].synthetic"),
    ],
)
def test_weak_settings_are_warned_of(check: Check, changes: dict[str, Any], key: str) -> None:
    assert key in {line.split(":")[0] for line in api.warnings(check(changes))}
    assert key not in {line.split(":")[0] for line in api.warnings(check({}))}


def test_what_is_not_described_is_one_warning(check: Check) -> None:
    lines = api.warnings(check({"attribute.0.purpose": "Equal speed of help."}))
    (line,) = (line for line in lines if line.startswith("not set"))
    missing = line.partition(": ")[2].split(", ")
    assert {"attribute[0].definition", "use_case[1].context"} <= set(missing)
    assert not {"attribute[0].purpose", "attribute[2].purpose"} & set(missing)
    assert len(missing) == 2 + 3 + 2


def test_an_unused_attribute_is_warned_of(check: Check) -> None:
    lines = [line for line in api.warnings(check({})) if "no group-by" in line]
    assert lines == ["attribute[2]: is in no group-by and no where; it only multiplies the cells"]
