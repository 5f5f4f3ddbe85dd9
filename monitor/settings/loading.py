"""Load the settings: file, environment, secret files, and checks for contradictions."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

from msgspec.structs import replace

from monitor.settings.build import build, declared_kinds, is_section, required, secrets_of
from monitor.settings.check_use_cases import check_use_cases
from monitor.settings.checks import (
    MIN_SECRET,
    check_id_keys,
    check_probes,
    check_sections,
    check_special,
    is_loopback,
)
from monitor.settings.environment import EnvText, exact, override
from monitor.settings.kinds import File, Secret
from monitor.settings.paths import anchor
from monitor.settings.problems import Problems, join, problem
from monitor.settings.sections import DEFAULT_DATABASE, Settings

# Far longer than any key or token; a larger file is the wrong file.
_MAX_SECRET_BYTES = 4096
_LONGEST_PATH = 1000  # characters of a path in an error message


def load(
    path: str | Path,
    env: Mapping[str, str],
    *,
    with_secrets: bool = True,
    contract: str | Path | None = None,
    with_use_case: bool = True,
) -> Settings:
    """Return the checked settings of a file, overridden by ``SLICEWATCH__SECTION__KEY`` variables.

    Args:
        path: a TOML file; relative paths inside it, of an SQLite database too, are relative to its
            folder.
        env: the environment, usually ``os.environ``; only names with the prefix are read. Relative
            paths in it are relative to the working directory.
        with_secrets: False if no secret is needed: no secret file is read or must exist. Stand-ins
            replace the secrets; they can sign or open nothing.
        contract: a file whose use cases replace those of ``path``; its other keys are ignored.
        with_use_case: False if the file may lack use cases, since no contract decides.

    Raises:
        SettingsError: all problems, each on one line with the key, the value found and the fix.
            Contradictions are looked for after every value is valid by itself.
    """
    tree = _with_database(_read(path))
    if contract is not None:
        tree = {**tree, "use_case": _use_cases(contract)}
    tree = anchor(Settings, tree, Path(path).absolute().parent)
    override(tree, env)
    tree, problems = anchor(Settings, tree, Path.cwd()), Problems()
    with problems.collected():
        _read_secret_files(Settings, tree, "", _from_file if with_secrets else _stand_in)
    with problems.collected():
        settings: Settings = build(Settings, tree, "")
    problems.raise_any()
    if not with_secrets:
        settings = _with_needed_keys(settings)
    checks = [check_sections, check_special, check_id_keys, check_probes]
    if with_use_case or settings.use_case:
        checks.insert(1, check_use_cases)
    for check in checks:
        with problems.collected():
            check(settings)
    problems.raise_any()
    filled = (u if u.k is not None else replace(u, k=settings.privacy.k) for u in settings.use_case)
    return replace(settings, use_case=tuple(filled))


def _read(path: str | Path) -> dict[str, Any]:
    try:
        text = Path(path).read_bytes().decode()
        return tomllib.loads(text, parse_float=exact)
    except OSError as error:
        reason = error.strerror or "cannot be read"
        raise problem(_one_line(path), f"{reason}; give the path of a settings file") from None
    except UnicodeDecodeError:
        raise problem(_one_line(path), "is not UTF-8 text; save it as UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise problem(_one_line(path), f"is not valid TOML: {_one_line(error)}") from None


def _use_cases(path: str | Path) -> Any:
    tree = _read(path)
    if not tree.get("use_case"):
        raise problem(_one_line(path), "has no [[use_case]]; give a file that has one or more")
    return tree["use_case"]


def _with_database(tree: dict[str, Any]) -> dict[str, Any]:
    """Return the settings file with ``store.url`` set to the default if it is missing."""
    store = tree.get("store", {})
    if not isinstance(store, dict):
        return tree  # refused when the settings are built
    return {**tree, "store": {"url": str(DEFAULT_DATABASE), **store}}


def _printable(path: str) -> str:
    text = path if path.isprintable() else repr(path)
    return text if len(text) <= _LONGEST_PATH else text[:_LONGEST_PATH] + "..."


def _one_line(value: object) -> str:
    return " ".join(str(value).split())


def _with_needed_keys(settings: Settings) -> Settings:
    """Return the settings with stand-ins for a missing token, id key or probe key."""
    privacy, probes, server = settings.privacy, settings.probes, settings.server
    if not is_loopback(server.host) and not server.requires_credentials:
        server = replace(server, token=_stand_in("server.token", ""))
    if not privacy.keys:
        privacy = replace(privacy, id_key=_stand_in("privacy.id_key", ""))
    keys = tuple(
        id_key
        if id_key.key is not None
        else replace(id_key, key=_stand_in(f"privacy.id_keys[{i}]", ""))
        for i, id_key in enumerate(privacy.id_keys)
    )
    if probes.sets and probes.key is None:
        probes = replace(probes, key=_stand_in("probes.key", ""))
    privacy = replace(privacy, id_keys=keys)
    return replace(settings, privacy=privacy, probes=probes, server=server)


def _stand_in(key: str, path: str) -> Secret:
    """Return a fake Secret made from ``key``: distinct, and long enough for every check."""
    text = re.sub(r"\W+", "-", f"{key} was not read").ljust(MIN_SECRET, "-")
    return Secret(text, path or None)


_Read = Callable[[str, str], Secret]
"""Reader of a secret, given the key and the path of its file."""


def _read_secret_files(kind: Any, value: Any, key: str, read: _Read) -> None:
    """Set each secret NAME of a settings tree from NAME_file, which is removed.

    Raises:
        SettingsError: all files that cannot be read, and secrets that are given twice.
    """
    kind, problems = required(kind), Problems()
    value = value.parsed if isinstance(value, EnvText) else value
    if isinstance(value, list) and get_origin(kind) is tuple:
        parts = [(get_args(kind)[0], part, join(key, i)) for i, part in enumerate(value)]
    elif isinstance(value, dict) and is_section(kind):
        for name in secrets_of(kind):
            with problems.collected():
                _read_secret_file(value, name, join(key, name), read)
        kinds = declared_kinds(kind)
        parts = [(kinds[n], part, join(key, n)) for n, part in value.items() if n in kinds]
    else:
        return
    for part_kind, part, part_key in parts:
        with problems.collected():
            _read_secret_files(part_kind, part, part_key, read)
    problems.raise_any()


def _read_secret_file(table: dict[str, Any], name: str, key: str, read: _Read) -> None:
    """Replace ``NAME_file`` in a table by the secret in that file, if it is set."""
    written = table.pop(f"{name}_file", None)
    if written is None:
        return
    file_key = f"{key}_file"
    path = build(File, written, file_key)
    if name in table:
        raise problem(file_key, f"is set beside {key}; keep one of the two")
    table[name] = read(file_key, path)


def _from_file(key: str, path: str) -> Secret:
    """Return a file's secret without its newline; errors name the file and never quote it."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MAX_SECRET_BYTES + 1)
        text = data.decode().rstrip("\r\n")
    except OSError as error:
        reason = error.strerror or "cannot be read"
        raise problem(key, f"{_printable(path)}: {reason}; check the path") from None
    except ValueError:
        raise problem(key, f"{_printable(path)} is not a text file; check the path") from None
    if len(data) > _MAX_SECRET_BYTES or not text.strip():
        fix = f"must hold 1 to {_MAX_SECRET_BYTES} bytes of text; check the file"
        raise problem(key, f"{_printable(path)} {fix}")
    return Secret(text, path)
