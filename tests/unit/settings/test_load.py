"""Loading: defaults, exact numbers, environment, secrets, and errors of one line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from fractions import Fraction
from pathlib import Path

import pytest

from monitor import settings as api
from monitor.core.contract import DEFAULT_PAGE_ON, GroupBy, Limits
from monitor.core.metric import Metric
from monitor.core.time import DAY, MINUTE, SECOND, to_micros
from monitor.errors import SettingsError

BASE = """
[[attribute]]
name = "variety"
values = ["formal", "conversational"]
[[attribute]]
name = "channel"
values = ["chat", "email"]
[[use_case]]
name = "replies"
owner = "team"
group_bys = [{ attributes = ["variety", "channel"], reference = "variety=formal,channel=chat" }]
[use_case.contract]
version = "1"
effective = 2026-01-01
reason = "first"
"""

ID_KEY = "SLICEWATCH__PRIVACY__ID_KEY"

Load = Callable[..., api.Settings]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a text (put before the minimal file) under an environment."""

    def load(text: str = "", base: str = BASE, **env: str) -> api.Settings:
        path = tmp_path / "slicewatch.toml"
        path.write_text(text + base)
        keyed = {} if "id_key" in f"{text}{env}".lower() else {ID_KEY: "0123456789abcdef"}
        return api.load(path, keyed | env)

    return load


def error_of(load: Load, text: str = "", base: str = BASE, **env: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load(text, base, **env)
    message = str(caught.value)
    assert "\n" not in message
    return message


class TestDefaults:
    def test_a_minimal_file_has_the_defaults_of_the_design(self, load: Load) -> None:
        settings = load()
        stream = settings.stream
        assert (stream.horizon, stream.lateness) == (30 * DAY, 10 * MINUTE)
        assert settings.evaluate.cycle == 10 * SECOND
        assert stream.score_bands == (0.7, 0.9)
        assert settings.privacy.k == 11
        assert settings.server.host == "127.0.0.1"

    def test_the_contract_of_the_engine(self, load: Load) -> None:
        (contract,) = load().contracts
        tenth = Fraction(1, 10)
        assert contract.limits == Limits(tenth, tenth, None, None, None, 50, 30)
        assert (contract.page_on, contract.primary) == (DEFAULT_PAGE_ON, Metric.TPR)
        assert contract.k == 11
        assert contract.group_bys == (
            GroupBy(("channel", "variety"), "channel=chat,variety=formal"),
        )

    def test_the_coding_is_sorted_by_name(self, load: Load) -> None:
        coding = load().coding
        assert [attribute.name for attribute in coding.attributes] == ["channel", "variety"]
        assert coding.attributes[1].values == ("formal", "conversational")

    def test_where_is_sorted_pairs(self, load: Load) -> None:
        base = BASE.replace(
            'owner = "team"', 'owner = "team"\nwhere = { variety = "formal", channel = "chat" }'
        ).replace("group_bys", 'group_bys = [{ attributes = ["x"] }]\n#')
        base = '[[attribute]]\nname = "x"\nvalues = ["1"]\n' + base
        assert load(base=base).contracts[0].where == (("channel", "chat"), ("variety", "formal"))

    @pytest.mark.parametrize("text", ["0.30", "0.3", "3e-1"])
    def test_limits_are_exact(self, load: Load, text: str) -> None:
        settings = load(base=BASE + f"max_tpr_gap = {text}\nmin_tpr = 1")
        limits = settings.contracts[0].limits
        assert limits.max_tpr_gap == Fraction(3, 10)
        assert limits.min_tpr == 1

    def test_a_start_time_in_another_zone(self, load: Load) -> None:
        text = "[stream]\nstart = {}\n"
        at = datetime(2026, 1, 1, tzinfo=UTC)
        for written in ("2026-01-01T01:00:00+01:00", '"2026-01-01T00:00:00Z"'):
            stream = load(text.format(written)).stream
            assert stream.start_micros == to_micros(at)

    @pytest.mark.parametrize(
        ("text", "micros"), [("10s", 10 * SECOND), ("250ms", SECOND // 4), ("24h", DAY), ("0s", 0)]
    )
    def test_durations(self, load: Load, text: str, micros: int) -> None:
        duration = load(f'[stream]\nlateness = "{text}"').stream.lateness
        assert duration == micros
        assert api.duration_text(duration) == text

    def test_a_duration_of_days(self, load: Load) -> None:
        horizon = load('[stream]\nhorizon = "40d"').stream.horizon
        assert (horizon, api.duration_text(horizon)) == (40 * DAY, "40d")


class TestEnvironment:
    def test_overrides_reach_every_depth(self, load: Load) -> None:
        settings = load(
            SLICEWATCH__STREAM__GROUP_ID="eu",
            SLICEWATCH__STREAM__SECURITY__PROTOCOL="SSL",
            SLICEWATCH__USE_CASE__0__CONTRACT__MAX_TPR_GAP="0.05",
            SLICEWATCH__USE_CASE__0__CONTRACT__EFFECTIVE="2026-02-01",
            SLICEWATCH__ATTRIBUTE__1__VALUES="chat,email,phone",
            SLICEWATCH__STREAM__BOOTSTRAP_SERVERS='["a:1", "b:2"]',
            SLICEWATCH__SERVER__INSECURE="true",
            SLICEWATCH__STREAM__LATENESS="0s",
            SLICEWATCH_TOKEN="not ours",
            PATH="/bin",
        )
        contract = settings.use_case[0].contract
        assert settings.stream.group_id == "eu"
        assert settings.stream.security.protocol == "SSL"
        assert (contract.max_tpr_gap, contract.effective) == (Fraction("0.05"), date(2026, 2, 1))
        assert settings.attribute[1].values == ("chat", "email", "phone")
        assert settings.stream.bootstrap_servers == ("a:1", "b:2")
        assert settings.server.insecure
        assert settings.stream.lateness == 0

    def test_text_that_looks_like_a_number_stays_text(self, load: Load) -> None:
        settings = load(
            SLICEWATCH__USE_CASE__0__CONTRACT__VERSION="2",
            SLICEWATCH__SERVER__TOKEN="1234567890123456",
            SLICEWATCH__STREAM__GROUP_ID='"quoted"',
        )
        assert settings.contracts[0].version == "2"
        assert settings.server.token == api.Secret("1234567890123456")
        assert settings.stream.group_id == "quoted"

    def test_list_items_can_be_appended_in_order(self, load: Load) -> None:
        settings = load(
            SLICEWATCH__ATTRIBUTE__3__NAME="d",
            SLICEWATCH__ATTRIBUTE__3__VALUES="1",
            SLICEWATCH__ATTRIBUTE__2__NAME="c",
            SLICEWATCH__ATTRIBUTE__2__VALUES__0="1",
        )
        assert [a.name for a in settings.attribute] == ["variety", "channel", "c", "d"]

    @pytest.mark.parametrize(
        ("variable", "value", "words"),
        [
            ("SLICEWATCH__STREAM__HORIZN", "3d", ("stream.horizn", "stream.horizon")),
            ("SLICEWATCH__STRAEM__HORIZON", "3d", ("straem", "did you mean stream")),
            ("SLICEWATCH__STREAM", "3d", ("stream: found text",)),
            (
                "SLICEWATCH__JUDGE__REQUESTS_PER_DAY",
                "many",
                ("judge.requests_per_day: found text",),
            ),
            ("SLICEWATCH__USE_CASE__5__OWNER", "x", ("use_case[5]", "item 1")),
            ("SLICEWATCH__USE_CASE__NAME", "x", ("use_case", "'name'")),
            ("SLICEWATCH__USE_CASE__0__OWNER__X", "x", ("use_case[0].owner",)),
            ("SLICEWATCH____X", "x", ("empty part",)),
            ("SLICEWATCH__", "x", ("empty part",)),
            ("SLICEWATCH__STREAM__GROUP_ID", "1\nx = 2", ("stream.group_id: found text",)),
            ("SLICEWATCH__STREAM__GROUP_ID", "\udcff", ("UTF-8",)),
        ],
    )
    def test_wrong_overrides_name_key_and_variable(
        self, load: Load, variable: str, value: str, words: tuple[str, ...]
    ) -> None:
        message = error_of(load, **{variable: value})
        assert variable in message
        for word in words:
            assert word in message


class TestSecrets:
    SASL = """
    [stream.security]
    protocol = "SASL_SSL"
    sasl_mechanism = "PLAIN"
    username = "app"
    """

    def test_id_keys_of_a_list_and_their_files(self, load: Load, tmp_path: Path) -> None:
        (tmp_path / "new").write_text("hunter2-abcdef0123456789\n")
        settings = load(
            f'''[[privacy.id_keys]]
            id = "default"
            key = "hunter2-0123456789"
            [[privacy.id_keys]]
            id = "2027"
            key_file = "{tmp_path}/new"
            from_day = 2027-01-01
            '''
        )
        assert [one.id for one in settings.privacy.keys] == ["default", "2027"]
        assert settings.privacy.keys[1].key == api.Secret("hunter2-abcdef0123456789")
        assert settings.privacy.keys[1].from_day == date(2027, 1, 1)
        for text in (repr(settings), api.resolved(settings)):
            assert "hunter2" not in text

    def test_id_keys_from_the_environment(self, load: Load) -> None:
        settings = load(
            SLICEWATCH__PRIVACY__ID_KEYS__0__ID="a",
            SLICEWATCH__PRIVACY__ID_KEYS__0__KEY="hunter2-0123456789",
            SLICEWATCH__PRIVACY__ID_KEYS__1__ID="b",
            SLICEWATCH__PRIVACY__ID_KEYS__1__KEY="hunter2-9876543210",
            SLICEWATCH__PRIVACY__ID_KEYS__1__FROM_DAY="2027-01-01",
        )
        assert [one.from_day for one in settings.privacy.keys] == [None, date(2027, 1, 1)]
        assert "hunter2" not in api.resolved(settings)

    def test_a_single_key_is_a_list_of_one(self, load: Load) -> None:
        (only,) = load().privacy.keys
        assert (only.id, only.from_day) == ("default", None)

    def test_test_conditions_alone_need_no_key(self, tmp_path: Path) -> None:
        path = tmp_path / "x.toml"
        path.write_text(BASE.replace('owner = "team"', 'owner = "team"\nsynthetic = true'))
        assert api.load(path, {}).privacy.keys == ()
        path.write_text(BASE)
        with pytest.raises(SettingsError, match=r"privacy\.id_key: .* slicewatch db new-key FILE"):
            api.load(path, {})

    def test_a_secret_is_never_printed(self, load: Load) -> None:
        settings = load(
            self.SASL,
            SLICEWATCH__STREAM__SECURITY__PASSWORD="hunter2-password",
            SLICEWATCH__PRIVACY__ID_KEY="hunter2-0123456789",
            SLICEWATCH__SERVER__TOKEN="hunter2-token-0123",
            SLICEWATCH__STORE__URL="postgresql://app:hunter2@db/x?sslpassword=hunter2",
        )
        for text in (repr(settings), str(settings), api.resolved(settings)):
            assert "hunter2" not in text
        assert "********" in api.resolved(settings)
        assert settings.stream.security.password is not None
        assert settings.stream.security.password.reveal() == "hunter2-password"
        assert settings.store.url == "postgresql://app:hunter2@db/x?sslpassword=hunter2"

    @pytest.mark.parametrize(
        "url", ["pg://u:hunter2@h/d", "pg://:hunter2/@?x@h/d", "pg://u:a@hunter2@h"]
    )
    def test_a_password_is_masked_in_any_url(self, url: str) -> None:
        assert "hunter2" not in api.Url(url).masked
        assert api.Url("sqlite:///x.db").masked == "sqlite:///x.db"

    @pytest.mark.parametrize(
        "address",
        ["u:hun@ter2:x@h/d", "u:hun@ter2@h/d", "u:hun@ter2/x@h/d", "u:hunter2", "u@h1:1,h2:2/d"],
    )
    def test_a_password_is_not_taken_for_the_host(self, load: Load, address: str) -> None:
        message = error_of(load, f'[store]\nurl = "postgresql://{address}"\n')
        assert message.startswith("store.url: has no HOST")
        assert "ter2" not in message

    @pytest.mark.parametrize(
        "address",
        ["/d", "h", "u:hun%40ter2@h:5432/d", "u:a:/b?@[::1]:1/d", "u@h1,h2/d?host=h3:1&host=h4:2"],
    )
    def test_addresses_of_databases(self, load: Load, address: str) -> None:
        url = f"postgresql://{address}"
        assert load(f'[store]\nurl = "{url}"\n').store.url == url

    @pytest.mark.parametrize(
        ("url", "found"),
        [
            ("sqlite://", "names no file"),
            ("sqlite:///", "names no file"),
            ("sqlite:///:memory:", "names no file"),
            ("sqlite://store.db", "names no file"),
            ("sqlite:///file:store.db", "names no file"),
            ("sqlite:///file:store.db?uri=true", "names no file"),
            ("sqlite:///q?z.db", "is the path of a file with ? or % in its name"),
            ("sqlite:///store.db?mode=ro", "is the path of a file with ? or % in its name"),
            ("sqlite:///a%20b.db", "is the path of a file with ? or % in its name"),
            ("sqlite:///data/", "names the folder "),
            ("sqlite:////", "names the folder /"),
            ("sqlite:////tmp", "names the folder /tmp"),
            ("sqlite+aiosqlite:///store.db", "begins with sqlite+aiosqlite://, which cannot"),
            ("mysql://app@db/x", "begins with mysql://, which cannot"),
            ("postgresql+psycopg2://app@db/x", "begins with postgresql+psycopg2://, which cannot"),
            ("app:hunter2@db://x", "begins with another text, which cannot"),
        ],
    )
    def test_a_store_that_would_be_another_one_is_refused(
        self, load: Load, url: str, found: str
    ) -> None:
        message = error_of(load, f'[store]\nurl = "{url}"\n')
        assert message.startswith(f"store.url: {found}")
        assert "; " in message, "the fix"
        assert "hunter2" not in message

    @pytest.mark.parametrize("key", ["stream.security.password", "privacy.id_key", "server.token"])
    @pytest.mark.parametrize("value", ["41276634", "[41276634]", '{ "41276634" = 1 }', "41276.634"])
    def test_a_wrong_secret_is_not_quoted(self, load: Load, key: str, value: str) -> None:
        section, name = key.rsplit(".", 1)
        message = error_of(load, f"[{section}]\n{name} = {value}\n")
        assert message.startswith(f"{key}: found ")
        assert "41276" not in message

    def test_secret_files(self, load: Load, tmp_path: Path) -> None:
        file = tmp_path / "token"
        file.write_text("0123456789abcdef\n")
        settings = load(f'[server]\ntoken_file = "{file}"\n')
        assert settings.server.token == api.Secret("0123456789abcdef")
        assert "0123456789abcdef" not in api.resolved(settings)

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (None, "No such file"),
            (b"", "must hold"),
            (b"\n", "must hold"),
            (b"x" * 5000, "must hold"),
            (b"\xff\xfe", "is not a text file"),
        ],
    )
    def test_unreadable_secret_files(
        self, load: Load, tmp_path: Path, content: bytes | None, words: str
    ) -> None:
        file = tmp_path / "key"
        if content is not None:
            file.write_bytes(content)
        message = error_of(load, f'[privacy]\nid_key_file = "{file}"\n')
        assert message.startswith(f"privacy.id_key_file: {file}")
        assert words in message

    def test_secret_and_file_together(self, load: Load) -> None:
        text = '[server]\ntoken = "0123456789abcdef"\ntoken_file = "/x"\n'
        assert error_of(load, text).startswith("server.token_file: is set beside server.token")

    def test_equality_and_masking(self) -> None:
        assert api.Secret("a") == api.Secret("a") != api.Secret("b")
        assert api.Secret("a") != "a"
        assert {api.Secret("a"): 1}[api.Secret("a")] == 1
        assert f"{api.Secret('a')}{api.Secret('a')!r}".count("a") == 0


class TestErrors:
    @pytest.mark.parametrize(
        ("text", "start", "words"),
        [
            ("[stream]\nhorzon = '3d'\n", "stream.horzon: unknown key", "mean stream.horizon?"),
            ("[strem]\n", "strem: unknown key", "did you mean stream?"),
            ("zzzzz = 1\n", "zzzzz: unknown key", "known here: stream, store"),
            ("'a\\nb' = 1\n", "'a", "unknown key"),
            ("'a\nb' = 1\n", "", "not valid TOML"),
            ("[stream]\nhorizon = 30\n", "stream.horizon: found the number 30", '"30d"'),
            ("[stream]\nhorizon = 'x'\n", "stream.horizon: found text", '"30d"'),
            ("[stream]\nhorizon = '99999d'\n", "stream.horizon: found text", "to 3650d"),
            ("[stream]\nhorizon = '1m'\n", "stream.horizon: found text", "from 1h"),
            ("[stream]\nclock = 'lives'\n", "stream.clock: found 'lives'", "one of live, history"),
            ("[stream]\nclock = ['live']\n", "stream.clock: found a list", "one of live"),
            ("[stream]\nstart = 2026-01-01\n", "stream.start: found a date", "with a zone"),
            ("[stream]\nstart = 2026-01-01T00:00:00\n", "stream.start: found", "with a zone"),
            ("[stream]\nscore_bands = 0.7\n", "stream.score_bands: found a", "in [ ]"),
            ("[stream]\nscore_bands = [0.7, nan]\n", "stream.score_bands[1]: found", "a score"),
            ("[stream]\nscore_bands = [1.0]\n", "stream.score_bands[0]: found", "a score"),
            (
                "[mapping.decisions.audit_p]\nx = 0\n",
                "mapping.decisions.audit_p.x: found the number 0",
                "above",
            ),
            ("[judge]\naudit_p = 1.5\n", "judge.audit_p: found", "up to 1"),
            (
                "[judge]\nrequests_per_day = true\n",
                "judge.requests_per_day: found true or false",
                "from",
            ),
            (
                "[judge]\nrequests_per_day = 0\n",
                "judge.requests_per_day: found the number 0",
                "from 1",
            ),
            (
                "[judge]\nrequests_per_day = 1.0\n",
                "judge.requests_per_day: found the number",
                "whole",
            ),
            ("[server]\ninsecure = 1\n", "server.insecure: found the number 1", "true or false"),
            ('[server]\nlisten = "a:70000"\n', "server.listen: found text 'a:70000'", "65535"),
            ("[store]\nurl = 'x.db'\n", "store.url: found text", "sqlite:///"),
            ("stream = 1\n", "stream: found a whole number", "a table"),
            ("attribute = {}\n", "attribute: found a table", "a list"),
            ("[server]\nport = 1\nport = 2\n", "", "not valid TOML"),
        ],
    )
    def test_one_line_with_key_kind_and_fix(
        self, load: Load, text: str, start: str, words: str
    ) -> None:
        base = BASE if "attribute" not in text else ""
        message = error_of(load, text, base)
        assert message.startswith(start)
        assert words in message

    @pytest.mark.parametrize(
        ("old", "new", "start"),
        [
            ('version = "1"', "version = 1", "use_case[0].contract.version: found the number 1"),
            ('version = "1"', "", "use_case[0].contract.version: is missing"),
            ('owner = "team"', "", "use_case[0].owner: is missing"),
            ('owner = "team"', 'owner = " "', "use_case[0].owner: found text"),
            ("effective = 2026-01-01", "", "use_case[0].contract.effective: is missing"),
            ('reason = "first"', "", "use_case[0].contract.reason: is missing"),
            ('reason = "first"', 'reason = ""', "use_case[0].contract.reason: found text"),
            ('reason = "first"', 'reason = "x"\nmax_gap = 1', "use_case[0].contract.max_gap: unkn"),
            ('name = "channel"', 'name = "__x"', "attribute[1].name: found text"),
            ('"email"', '"e\\n"', "attribute[1].values[1]: found text"),
            ('"email"', '"email\\n"', "attribute[1].values[1]: found text"),
            ('"email"', '"__other__"', "attribute[1].values[1]: found text"),
            ('"email"', '"a\\u200bb"', "attribute[1].values[1]: found text"),
            ('"email"', "3", "attribute[1].values[1]: found the number 3"),
        ],
    )
    def test_required_and_named_things(self, load: Load, old: str, new: str, start: str) -> None:
        assert old in BASE
        assert error_of(load, base=BASE.replace(old, new)).startswith(start)

    @pytest.mark.parametrize(
        "number",
        ["1.01", "-0.01", "inf", "nan", "1e-99999999", "1e99999999", "1e-999999999999999999999",
         "0.1234567890123", "10", '"0.1"', "true"],
    )  # fmt: skip
    def test_impossible_limits(self, load: Load, number: str) -> None:
        message = error_of(load, base=BASE + f"max_tpr_gap = {number}\n")
        assert message.startswith("use_case[0].contract.max_tpr_gap: found ")
        assert message.endswith("expected a number from 0 to 1, such as 0.10")

    @pytest.mark.parametrize("data", [b"\xff", b"a = [" * 5000, b"a = " + b"9" * 5000])
    def test_files_that_are_no_settings(self, tmp_path: Path, data: bytes) -> None:
        path = tmp_path / "x.toml"
        path.write_bytes(data)
        with pytest.raises(SettingsError, match=r"x\.toml: is not"):
            api.load(path, {})

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match="No such file"):
            api.load(tmp_path / "none.toml", {})
        with pytest.raises(SettingsError, match="s a directory"):
            api.load(tmp_path, {})


def test_importing_settings_is_cheap() -> None:
    heavy = ["pandas", "sqlalchemy", "kafka", "rich", "click", "prometheus_client"]
    code = f"import sys, monitor.settings; sys.exit(any(m in sys.modules for m in {heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_contract_is_reviewed_a_cadence_after_it_came_into_force(load: Load) -> None:
    contract = load().contracts[0]
    assert contract.review_due == to_micros(datetime(2026, 4, 1, tzinfo=UTC))
