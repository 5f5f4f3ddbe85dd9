"""Ports, tokens and attributes of a special category: what is refused, and what is warned of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from monitor import settings as api
from monitor.errors import SettingsError
from monitor.settings import checks
from monitor.store.upkeep import retention_guard

FILE = """
[privacy]
id_key = "0123456789abcdef0123456789abcdef"
{sections}
[[attribute]]
name = "origin"
values = ["a", "b"]
{attribute}
[[use_case]]
name = "replies"
owner = "team"
group_bys = [{{ attributes = ["origin"] }}]
{use_case}
[use_case.contract]
version = "1"
effective = 2026-01-01
reason = "first"
"""
TOKEN = '[server]\ntoken = "0123456789abcdef"\n'
TLS = '[server]\nlisten = "0.0.0.0:9095"\ntls_cert_file = "c"\ntls_key_file = "k"\n'
NAMED = """
[[server.tokens]]
name = "prometheus"
token = "first-token-0123"
[[server.tokens]]
name = "grafana"
token = "second-token-012"
"""
OPERATIONS = '[server.operations]\nlisten = "127.0.0.1:9096"\n'
SPECIAL = {
    "special_category": "true",
    "purpose": '"equal help"',
    "owner": '"privacy office"',
    "retention": '"395d"',
}
Load = Callable[..., api.Settings]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load(sections: str = "", attribute: str = "", use_case: str = "") -> api.Settings:
        path = tmp_path / "x.toml"
        path.write_text(FILE.format(sections=sections, attribute=attribute, use_case=use_case))
        return api.load(path, {})

    return load


def refusal(load: Load, *parts: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load(*parts)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def special(**changes: str | None) -> str:
    fields = SPECIAL | changes
    return "\n".join(f"{key} = {value}" for key, value in fields.items() if value is not None)


def keys(found: list[str]) -> set[str]:
    return {line.split(":")[0] for line in found}


class TestTokens:
    def test_all_tokens_by_name(self, load: Load) -> None:
        server = load(TOKEN + NAMED).server

        assert {name: token.reveal() for name, token in server.all_tokens.items()} == {
            "default": "0123456789abcdef",
            "prometheus": "first-token-0123",
            "grafana": "second-token-012",
        }
        assert server.requires_credentials
        assert not load().server.requires_credentials

    def test_tokens_from_files(self, load: Load, tmp_path: Path) -> None:
        (tmp_path / "reader").write_text("reader-token-0123\n")
        server = load(f'[[server.tokens]]\nname = "a"\ntoken_file = "{tmp_path}/reader"\n').server

        assert server.all_tokens == {"a": api.Secret("reader-token-0123")}

    def test_named_tokens_are_not_printed(self, load: Load) -> None:
        settings = load(NAMED)

        for text in (repr(settings), api.resolved(settings)):
            assert "-token-" not in text
            assert "prometheus" in text

    def test_named_tokens_are_credentials(self, load: Load) -> None:
        assert load(TLS + NAMED).server.requires_credentials

    @pytest.mark.parametrize(
        ("old", "new", "key", "words"),
        [
            ('token = "second-token-012"', "", "server.tokens[1].token_file", "'grafana' a token"),
            ('"grafana"', '"prometheus"', "server.tokens[1].name", "taken by server.tokens[0]"),
            ('"grafana"', '"default"', "server.tokens[1].name", "rename"),
            ('"grafana"', '"anonymous"', "server.tokens[1].name", "rename"),
            ('"grafana"', '"a\\nb"', "server.tokens[1].name", "a name"),
            ('name = "grafana"', "", "server.tokens[1].name", "is missing"),
            ("second-token-012", "first-token-0123", "server.tokens[1].token", "is also"),
            ("second-token-012", "two words", "server.tokens[1].token", "header"),
            ("second-token-012", "0123456789abcdef", "server.tokens[1].token", "server.token;"),
        ],
    )
    def test_contradictions(self, load: Load, old: str, new: str, key: str, words: str) -> None:
        message = refusal(load, TOKEN + NAMED.replace(old, new))

        assert message.startswith(f"{key}: ")
        assert words in message
        assert "token-0" not in message

    def test_short_ones_are_warned_of(self, load: Load) -> None:
        found = api.warnings(load(NAMED.replace("first-token-0123", "short")))

        assert "server.tokens[0].token" in keys(found)
        assert "server.tokens[1].token" not in keys(found)


class TestOperationsPort:
    def test_there_is_none_without_a_port(self, load: Load) -> None:
        assert load().server.operations.port is None
        assert load(OPERATIONS).server.operations.port == 9096

    @pytest.mark.parametrize(
        ("sections", "key", "words"),
        [
            (OPERATIONS.replace("9096", "9095"), "server.operations.listen", "two ports"),
            (OPERATIONS + "insecure = true\n", "server.operations.insecure", "unknown key"),
        ],
    )
    def test_contradictions(self, load: Load, sections: str, key: str, words: str) -> None:
        message = refusal(load, sections)

        assert message.startswith(f"{key}: ")
        assert words in message

    def test_two_free_ports(self, load: Load) -> None:
        free = 'listen = "127.0.0.1:0"\n'
        server = load(f"[server]\n{free}[server.operations]\n{free}").server

        assert (server.port, server.operations.port) == (0, 0)

    def test_another_address_is_allowed_and_warned_of(self, load: Load) -> None:
        others = OPERATIONS.replace("127.0.0.1", "0.0.0.0")

        assert "server.operations.listen" in keys(api.warnings(load(others)))
        found = keys(api.warnings(load(OPERATIONS)))
        assert not [key for key in found if key.startswith("server.")]

    def test_the_main_port_stays_as_strict(self, load: Load) -> None:
        message = refusal(load, f'[server]\nlisten = "0.0.0.0:9095"\n{OPERATIONS}')

        assert message.startswith("server.listen: ")


class TestSpecialCategory:
    def test_with_all_it_needs(self, load: Load) -> None:
        attribute = load(TOKEN, special()).attribute[0]

        assert attribute.special_category
        assert attribute.owner == "privacy office"
        assert attribute.to_core() == load().attribute[0].to_core(), "nothing is counted otherwise"

    @pytest.mark.parametrize("name", ["purpose", "owner", "retention"])
    @pytest.mark.parametrize("value", [None, '" \\n "'])
    def test_each_field_is_needed(self, load: Load, name: str, value: str | None) -> None:
        message = refusal(load, TOKEN, special(**{name: value}))

        assert message.startswith(f"attribute[0].{name}: ")
        assert ("'origin' is of a special category" in message) == (
            (name, value) != ("retention", '" \\n "')
        )

    def test_also_where_everything_is_synthetic(self, load: Load) -> None:
        assert "purpose" in refusal(load, "", special(purpose=None), "synthetic = true")

    @pytest.mark.parametrize(
        ("sections", "value", "words"),
        [
            ("", "394d", "lower retention.aggregates or raise it"),
            (
                '[retention]\naggregates = "30d"\n',
                *("37d", "stream.horizon plus 8d keeps them 38d; lower stream.horizon"),
            ),
        ],
    )
    def test_nothing_may_keep_its_counts_longer(
        self, load: Load, sections: str, value: str, words: str
    ) -> None:
        message = refusal(load, TOKEN + sections, special(retention=f'"{value}"'))

        assert message.startswith(f"attribute[0].retention: counts of 'origin' may be kept {value}")
        assert words in message

    def test_as_long_as_the_longest_is_allowed(self, load: Load) -> None:
        short = '[retention]\naggregates = "30d"\n'

        assert load(TOKEN + short, special(retention='"38d"')).attribute[0].special_category

    def test_a_retention_binds_any_attribute(self, load: Load) -> None:
        assert "retention.aggregates" in refusal(load, "", 'retention = "30d"')

    def test_the_hours_are_those_of_the_store(self) -> None:
        assert checks.HOURS_KEPT_AFTER_HORIZON == retention_guard.HOURS_KEPT_AFTER_HORIZON

    @pytest.mark.parametrize("sections", ["", OPERATIONS, "[server]\ninsecure = true\n"])
    def test_its_readers_must_be_known_also_on_loopback(self, load: Load, sections: str) -> None:
        message = refusal(load, sections, special())

        assert message.startswith("server.token_file: is missing; 'origin' is of a special")

    @pytest.mark.parametrize(
        "sections", [TOKEN, NAMED, TLS + 'client_ca_file = "a"\n'], ids=["token", "named", "tls"]
    )
    def test_any_credentials_do(self, load: Load, sections: str) -> None:
        assert load(sections, special()).attribute[0].special_category

    def test_synthetic_ones_are_of_nobody(self, load: Load) -> None:
        assert load("", special(), "synthetic = true").attribute[0].special_category

    def test_proxies_are_warned_of(self, load: Load) -> None:
        inferred = 'source = "inferred"\n'
        assert "attribute[0].source" in keys(api.warnings(load("", inferred)))
        assert "attribute[0].source" not in keys(api.warnings(load()))
        declared = load(TOKEN, inferred + special())
        assert "attribute[0].source" not in keys(api.warnings(declared))


def test_producers_are_named_and_no_responders(load: Load) -> None:
    server = '[server]\nproducers = ["grafana"]\n'
    assert load(server + NAMED).server.producers == ("grafana",)
    assert load('[server]\nproducers = ["anonymous"]\n').server.producers == ("anonymous",)
    for sections, text in (
        ('[server]\nproducers = ["router"]\n' + NAMED, "'router' is no name of a token; known:"),
        ('[server]\nproducers = ["anonymous"]\n' + NAMED, "'anonymous' is only for loopback"),
        (server + 'responders = ["grafana"]\n' + NAMED, "'grafana' is a responder too; give the"),
    ):
        with pytest.raises(SettingsError) as caught:
            load(sections)
        assert str(caught.value).startswith("server.producers[0]")
        assert text in str(caught.value)
    with pytest.raises(SettingsError, match=r"server.producers: has every token, and producers"):
        load('[server]\nproducers = ["grafana", "prometheus"]\n' + NAMED)
