"""What must hold for any settings file and environment; tests/fuzz and `make fuzz` check it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import strategies as st

from monitor import settings as api
from monitor.errors import SettingsError
from monitor.settings.environment import PREFIX

REFERENCE = (Path(__file__).parents[3] / "deploy" / "slicewatch.reference.toml").read_text()
# Long enough for every rule of a secret; no part of it occurs in any message by chance.
SECRET = "Zq7Zq7-Hunter2-Zq7Zq7"
URL_SECRET = "Yx8Yx8-Hunter3-Yx8Yx8"
SECRETS = f"""
[stream.security]
protocol = "SASL_SSL"
sasl_mechanism = "PLAIN"
username = "reader"
password = "{SECRET}"
[store]
url = "postgresql://app:{URL_SECRET}@db/slicewatch"
[privacy]
id_key = "{SECRET}"
[server]
token = "{SECRET}"
"""
CASE = """
[[attribute]]
name = "channel"
values = ["chat", "email"]
[[use_case]]
name = "replies"
owner = "team"
group_bys = [{ attributes = ["channel"], reference = "channel=chat" }]
[use_case.contract]
version = "1"
effective = 2026-01-01
reason = "first"
"""
_PART = r"""(?:[A-Za-z0-9_-]+|'[^']*'|"[^"]*")"""
_KEY = re.compile(rf"{_PART}(?:\.{_PART}|\[\d+\])*")
_SEVERAL = re.compile(r"([2-9]|[1-9]\d+) errors: ")
LINES = [line for line in REFERENCE.splitlines() if line and not line.startswith("#")]

VALUES = st.one_of(
    st.sampled_from(
        ["", "true", "nan", "inf", "-inf", "1e999999", "-0.0", "0x10", "0o7", "1_000", "9" * 5000,
         "1979-05-27", "1979-05-27T07:32:60Z", "9999-12-31T23:59:59-23:59", "07:32:00", '""',
         '"\\ud800"', '"\\u0000"', '"' + "x" * 70_000 + '"', '"""a\nb"""', "'''", "[", "[]", "[[]]",
         "{}", "{ a = 1 }", "[" * 200 + "]" * 200, "[" * 3000, "{ a = " * 300 + "1" + " }" * 300,
         '"1h"', '"99999999999d"', '"0s"', '"-1h"', '"complement"', '"channel=chat"', '"best"',
         '["chat", "chat"]', '"localhost:99999"', '"sqlite://"', '"postgresql://u:p@[/x"']
    ),
    st.integers().map(str),
    st.floats().map(str),
    st.text(max_size=12),
)  # fmt: skip
SPOILED_SECRETS = st.sampled_from(
    [f'"{SECRET}"', f'["{SECRET}"]', f'{{ a = "{SECRET}" }}', f"'{SECRET}",
     f'"{SECRET} "', f'"x://u:{URL_SECRET}@"', f'"{SECRET}\\u0000"', f'"{SECRET * 4}"', SECRET]
)  # fmt: skip
_SECRET_KEYS = ("password", "url", "id_key", "token")


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """A settings file: with secrets or the reference, some lines changed, then some bytes."""
    base = draw(st.sampled_from([SECRETS + CASE, SECRETS + CASE, REFERENCE]))
    lines = base.splitlines()
    for change in draw(st.lists(st.sampled_from(["value", "drop", "twice", "line"]), max_size=3)):
        _change(draw, lines, change)
    data = bytearray("\n".join(lines).encode("utf-8", "surrogatepass"))
    for at in draw(st.lists(st.integers(0, max(len(data) - 1, 0)), max_size=2)):
        if data:
            data[at] ^= 1 << draw(st.integers(0, 7))
    return bytes(data)


def _change(draw: st.DrawFn, lines: list[str], change: str) -> None:
    at = draw(st.integers(0, max(len(lines) - 1, 0)))
    if change == "line" or not lines:
        lines.insert(at, draw(st.sampled_from(LINES) | VALUES))
    elif change == "value":
        key = lines[at].partition("=")[0].strip()
        # Under any other key it would be no secret: names may be said.
        values = SPOILED_SECRETS | VALUES if key in _SECRET_KEYS else VALUES
        lines[at] = f"{key} = {draw(values)}"
    elif change == "drop":
        del lines[at]
    else:
        lines.insert(at, lines[at])


_NAMES = st.sampled_from(
    ["STREAM__HORIZON", "STREAM__SECURITY__PROTOCOL", "STREAM__SECURITY__PASSWORD_FILE",
     "STREAM__START", "STREAM__CLIENT", "PRIVACY__ID_KEY_FILE",
     "PRIVACY__K", "SERVER__TOKEN__X", "SERVER__LISTEN", "SERVER", "ATTRIBUTE",
     "ATTRIBUTE__0__VALUES", "ATTRIBUTE__1__NAME", "ATTRIBUTE__7__NAME", "USE_CASE__0__K",
     "USE_CASE__0__WHERE__CHANNEL", "USE_CASE__0__GROUP_BYS__0", "USE_CASE__X",
     "RETENTION__AGGREGATES", "", "__", "NOTHING", "\u00c9"]
)  # fmt: skip
_SECRET_NAMES = st.sampled_from(
    ["STREAM__SECURITY__PASSWORD", "STORE__URL", "PRIVACY__ID_KEY", "SERVER__TOKEN",
     "SERVER__TOKENS__0__TOKEN"]
)  # fmt: skip


@st.composite
def environments(draw: st.DrawFn) -> dict[str, str]:
    """Up to two overrides, and up to two of secrets."""
    names = (_NAMES | st.text(max_size=6)).map(lambda name: PREFIX + name)
    plain: dict[str, str] = draw(st.dictionaries(names, VALUES, max_size=2))
    secret: dict[str, str] = draw(
        st.dictionaries(
            _SECRET_NAMES.map(lambda name: PREFIX + name), SPOILED_SECRETS | VALUES, max_size=2
        )
    )
    return plain | secret


def check_settings(file: bytes, environment: Mapping[str, str]) -> None:
    """Settings, or one SettingsError of one line that names a key; a secret is never said."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "settings.toml"
        path.write_bytes(file)
        try:
            loaded = api.load(path, environment)
        except SettingsError as error:
            check_error(str(error), str(path))
            return
    _check_loaded(loaded)


def check_error(text: str, path: str) -> None:
    assert len(text.splitlines()) == 1, text
    assert text.isprintable(), text
    assert SECRET not in text, text
    assert URL_SECRET not in text, text
    assert len(text) < MOST, text
    counted = _SEVERAL.match(text)
    problems = text[counted.end() :].split("; ") if counted else [text]
    assert _names_key(problems[0], path), text
    named = sum(_names_key(one, path) for one in problems)
    assert named >= (int(counted[1]) if counted else 1), text


def _names_key(problem: str, path: str) -> bool:
    """Whether a text begins with the key that it is about; what follows a semicolon need not."""
    key, _, said = problem.partition(": ")
    known = key in (path, "the longest window") or _KEY.fullmatch(key)
    return bool(said and known)


MOST = 1500
"""Characters of the longest error: a line that fits into a log."""


def _check_loaded(loaded: api.Settings) -> None:
    """Everything that is shown of settings is text of valid Unicode and masks what is secret."""
    shown = [repr(loaded), *map(str, api.warnings(loaded)), str(api.resolved(loaded))]
    shown += [api.contract_record(case) + api.contract_numbers(case) for case in loaded.use_case]
    for text in shown:
        text.encode()
        for secret in _secrets(loaded):
            assert secret not in text, text
    assert loaded.coding.hash


def _secrets(loaded: api.Settings) -> list[str]:
    """The planted texts that stand as secrets."""
    found = (loaded.stream.security.password, loaded.privacy.id_key, loaded.server.token)
    values = [one.reveal() for one in found if one is not None]
    in_url = [URL_SECRET] if f":{URL_SECRET}@" in loaded.store.url else []
    return in_url + [SECRET for value in values if SECRET in value]


SETTINGS = st.tuples(files(), environments())
