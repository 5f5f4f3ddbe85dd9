"""Load the settings once, at the edge: file, environment, secret files, contradictions."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from monitor.settings.build import build
from monitor.settings.check_use_cases import check_use_cases
from monitor.settings.checks import check_id_keys, check_probes, check_sections, check_special
from monitor.settings.environment import exact, override
from monitor.settings.kinds import Secret
from monitor.settings.problems import Problems, problem
from monitor.settings.sections import Server, Settings

# Far above any key or token: a larger file is the wrong file.
_MAX_SECRET_BYTES = 4096


def load(path: str | Path, env: Mapping[str, str]) -> Settings:
    """Read a settings file, apply ``SLICEWATCH__SECTION__KEY`` overrides and check it all.

    Args:
        path: a TOML file; relative paths inside it are relative to the working directory.
        env: the environment, usually ``os.environ``; only names with the prefix are read.

    Raises:
        SettingsError: whatever is wrong, each on one line with the key, what was found and the fix.
            What contradicts something else is looked for once every value is possible by itself.
    """
    tree = _read(path)
    override(tree, env)
    settings: Settings = build(Settings, tree, "")
    settings = _read_secrets(settings)
    problems = Problems()
    for check in (check_sections, check_use_cases, check_special, check_id_keys, check_probes):
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


def _one_line(value: object) -> str:
    return " ".join(str(value).split())


def _read_secrets(settings: Settings) -> Settings:
    stream, privacy, probes = settings.stream, settings.privacy, settings.probes
    security = stream.security
    password = _secret("stream.security.password", security.password, security.password_file)
    security = replace(security, password=password)
    id_key = _secret("privacy.id_key", privacy.id_key, privacy.id_key_file)
    id_keys = tuple(
        replace(one, key=_secret(f"privacy.id_keys[{i}].key", one.key, one.key_file))
        for i, one in enumerate(privacy.id_keys)
    )
    return replace(
        settings,
        stream=replace(stream, security=security),
        privacy=replace(privacy, id_key=id_key, id_keys=id_keys),
        server=_read_tokens(settings.server),
        probes=replace(probes, key=_secret("probes.key", probes.key, probes.key_file)),
    )


def _read_tokens(server: Server) -> Server:
    operations = server.operations
    own = _secret("server.operations.token", operations.token, operations.token_file)
    tokens = tuple(
        replace(one, token=_secret(f"server.tokens[{i}].token", one.token, one.token_file))
        for i, one in enumerate(server.tokens)
    )
    return replace(
        server,
        token=_secret("server.token", server.token, server.token_file),
        tokens=tokens,
        operations=replace(operations, token=own),
    )


def _secret(key: str, given: Secret | None, path: str | None) -> Secret | None:
    if path is None:
        return given
    key = f"{key}_file"
    if given is not None:
        raise problem(key, f"is set beside {key.removesuffix('_file')}; keep one of the two")
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MAX_SECRET_BYTES + 1)
        text = data.decode().rstrip("\r\n")
    except OSError as error:
        raise problem(key, f"{error.strerror or 'cannot be read'}; check the path") from None
    except ValueError:
        raise problem(key, "is not the path of a text file; check it") from None
    if len(data) > _MAX_SECRET_BYTES or not text.strip():
        raise problem(key, f"must hold 1 to {_MAX_SECRET_BYTES} bytes of text; check the file")
    return Secret(text)
