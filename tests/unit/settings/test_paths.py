"""Relative paths: those of a settings file are beside it, those of the environment below us."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

import msgspec
import pytest

from monitor import settings as api
from monitor.errors import SettingsError, SlicewatchError
from monitor.settings.build import bare, is_section, required
from monitor.settings.kinds import LocalFile

TEXT = """
[[attribute]]
name = "channel"
values = ["chat", "email"]
[[use_case]]
name = "replies"
owner = "team"
group_bys = [{ attributes = ["channel"] }]
[use_case.contract]
version = "1"
effective = 2026-01-01
reason = "first"
"""
FILES = """
[stream.security]
protocol = "SASL_SSL"
sasl_mechanism = "PLAIN"
username = "reader"
password_file = "secrets/password"
ca_file = "tls/ca.pem"
cert_file = "tls/client.pem"
key_file = "tls/client.key"
[stream.schema_registry]
url = "https://registry.example"
username = "reader"
password_file = "secrets/registry"
ca_file = "tls/registry-ca.pem"
cert_file = "tls/registry.pem"
key_file = "tls/registry.key"
[store]
url = "sqlite:///data/store.db"
[[privacy.id_keys]]
id = "default"
key_file = "secrets/id_key"
[server]
listen = "0.0.0.0:9095"
tls_cert_file = "tls/server.pem"
tls_key_file = "tls/server.key"
client_ca_file = "tls/clients.pem"
token_file = "secrets/token"
[[server.tokens]]
name = "prometheus"
token_file = "secrets/prometheus"
[probes]
key_file = "secrets/probes"
[judge]
api_key_file = "secrets/judge"
"""
ALERTMANAGERS = """
[alerting.page]
webhook_url = "http://on-call/"
webhook_token_file = "page_token"
chat_url_file = "page_chat"
"""
ID_KEY = "SLICEWATCH__PRIVACY__ID_KEY"
KEY = {ID_KEY: "0123456789abcdef"}


class Site(NamedTuple):
    """A settings file in a folder, and a working directory beside it."""

    conf: Path
    work: Path

    def load(self, text: str = "", **env: str) -> api.Settings:
        file = self.conf / "slicewatch.toml"
        file.write_text(text + TEXT)
        return api.load(file, env)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    found = Site(tmp_path / "conf", tmp_path / "work")
    for folder in found:
        (folder / "secrets").mkdir(parents=True)
        for name in ("password", "id_key", "token", "prometheus", "probes", "judge", "registry"):
            (folder / "secrets" / name).write_text(f"{folder.name}-{name}-0123456789\n")
    monkeypatch.chdir(found.work)
    return found


def files(section: Any) -> Iterator[str]:
    """Every path of a file that is set in some settings."""
    for field in msgspec.structs.fields(type(section)):
        value, kind = getattr(section, field.name), required(field.type)
        parts = (value or ()) if get_origin(kind) is tuple else [value]
        inner = get_args(kind)[0] if get_origin(kind) is tuple else kind
        for part in parts:
            if part is not None and is_section(inner):
                yield from files(part)
            elif part is not None and bare(inner)[0] is LocalFile:
                yield part
            elif isinstance(part, api.Secret) and part.file is not None:
                yield part.file


def declared(section: Any) -> Iterator[tuple[str, Any]]:
    for field in msgspec.structs.fields(section):
        kind = required(field.type)
        inner = get_args(kind)[0] if get_origin(kind) is tuple else kind
        if is_section(inner):
            yield from declared(inner)
        else:
            base = bare(inner)[0]
            yield field.name, LocalFile if base is api.Secret else base


class TestOfTheFile:
    def test_all_are_below_its_folder(self, site: Site) -> None:
        settings = site.load(FILES)
        named = re.findall(r'_file = "(.+)"', FILES)
        assert sorted(files(settings)) == sorted(f"{site.conf}/{name}" for name in named)
        assert settings.store.url == f"sqlite:///{site.conf}/data/store.db"
        server = settings.server
        tokens = [server.token, server.tokens[0].token]
        tokens += [settings.probes.key, settings.privacy.keys[0].key]
        tokens += [settings.stream.security.password, settings.judge.api_key]
        assert all(one is not None and one.reveal().startswith("conf-") for one in tokens)

    def test_every_option_that_is_a_file_is_known_here(self, site: Site) -> None:
        """A new one that is plain text would be relative to the working directory."""
        plain = {name for name, base in declared(api.Settings) if base is not LocalFile}
        elsewhere = set(re.findall(r"(\w+) = ", ALERTMANAGERS))
        assert {name for name in plain if name.endswith("_file")} <= elsewhere
        assert (
            len([base for _, base in declared(api.Settings) if base is LocalFile])
            == len(list(files(site.load(FILES)))) + 2
        )  # privacy.id_key, which excludes id_keys, and the registry's token

    def test_a_single_id_key(self, site: Site) -> None:
        key = site.load('[privacy]\nid_key_file = "secrets/id_key"\n').privacy.id_key
        assert key == api.Secret("conf-id_key-0123456789")

    def test_files_of_other_machines_stay_as_they_are(self, site: Site) -> None:
        page = site.load(ALERTMANAGERS, **KEY).alerting.page
        assert (page.webhook_token_file, page.chat_url_file) == ("page_token", "page_chat")

    @pytest.mark.parametrize("text", ["", "[store]\n"])
    def test_the_database_that_no_option_names_is_beside_it(self, site: Site, text: str) -> None:
        assert site.load(text, **KEY).store.url == f"sqlite:///{site.conf}/slicewatch.db"

    @pytest.mark.parametrize(
        "url",
        ["sqlite:////var/lib/x.db", "postgresql://app@db/slicewatch", "postgresql:///slicewatch"],
    )
    def test_other_databases_stay_as_they_are(self, site: Site, url: str) -> None:
        assert site.load(f'[store]\nurl = "{url}"\n', **KEY).store.url == url

    def test_absolute_paths_stay_as_they_are(self, site: Site) -> None:
        file = site.work / "secrets" / "id_key"
        privacy = site.load(f'[privacy]\nid_key_file = "{file}"\n').privacy
        assert privacy.id_key is not None
        assert privacy.id_key.file == str(file)
        assert privacy.id_key == api.Secret("work-id_key-0123456789")

    def test_its_own_path_may_be_relative(self, site: Site) -> None:
        site.load("", **KEY)
        settings = api.load("../conf/slicewatch.toml", KEY)
        assert Path(settings.store.url.removeprefix("sqlite:///")).resolve() == (
            site.conf / "slicewatch.db"
        )

    def test_what_is_in_force_can_be_loaded_from_anywhere(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settings = site.load('[privacy]\nid_key_file = "secrets/id_key"\n')
        text = api.resolved(settings)
        monkeypatch.chdir("/")
        other = site.work / "other.toml"
        other.write_text(re.sub(r"(?m)^id_key = .*\n", "", text))
        assert api.load(other, {}) == settings

    def test_a_folder_that_no_url_can_name(self, site: Site) -> None:
        folder = site.conf / "what?"
        folder.mkdir()
        with pytest.raises(SettingsError, match=r"^store\.url: .* with \? or % in its name"):
            Site(folder, site.work).load("", **KEY)


class TestOfTheEnvironment:
    def test_they_are_below_the_working_directory(self, site: Site) -> None:
        settings = site.load(
            FILES,
            SLICEWATCH__STORE__URL="sqlite:///other.db",
            SLICEWATCH__SERVER__TOKEN_FILE="secrets/token",
            SLICEWATCH__SERVER__TOKENS__0__TOKEN_FILE='"secrets/prometheus"',
        )
        assert settings.store.url == f"sqlite:///{site.work}/other.db"
        server = settings.server
        assert server.token is not None
        assert server.token.file == f"{site.work}/secrets/token"
        assert server.token == api.Secret("work-token-0123456789")
        assert server.tokens[0].token == api.Secret("work-prometheus-0123456789")
        assert server.tls_cert_file == f"{site.conf}/tls/server.pem"

    @pytest.mark.parametrize(
        ("variable", "value"),
        [
            ("SLICEWATCH__SERVER__TOKENS", '[{name = "a", token_file = "secrets/token"}]'),
            ("SLICEWATCH__SERVER", '{tokens = [{name = "a", token_file = "secrets/token"}]}'),
        ],
    )
    def test_in_lists_and_tables(self, site: Site, variable: str, value: str) -> None:
        (token,) = site.load("", **KEY, **{variable: value}).server.tokens
        assert token.token is not None
        assert token.token.file == f"{site.work}/secrets/token"
        assert token.token == api.Secret("work-token-0123456789")


class TestErrors:
    def test_they_name_the_absolute_path(self, site: Site) -> None:
        with pytest.raises(SettingsError) as caught:
            site.load('[privacy]\nid_key_file = "no.key"\n')
        path = site.conf / "no.key"
        said = f"privacy.id_key_file: {path}: No such file or directory; check the path"
        assert str(caught.value) == said
        with pytest.raises(SettingsError, match=re.escape(f": {site.work}/none: No such file")):
            site.load("", SLICEWATCH__PRIVACY__ID_KEY_FILE="none")

    @pytest.mark.parametrize("value", ["1", '""', '" "', "true", "[]", "{}"])
    def test_what_is_no_path_is_refused(self, site: Site, value: str) -> None:
        with pytest.raises(SettingsError, match=r"^server\.token_file: found .* path of a file"):
            site.load(f"[server]\ntoken_file = {value}\n", **KEY)

    @pytest.mark.parametrize("name", ["a\\nb", "a\\u0000b", "x" * 70_000])
    def test_a_path_of_any_kind_is_one_short_line(self, site: Site, name: str) -> None:
        with pytest.raises(SlicewatchError) as caught:
            site.load(f'[privacy]\nid_key_file = "{name}"\n')
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 1500
