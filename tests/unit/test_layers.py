"""The package's shape: every module has its layer, and none hides a dependency."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import importlib.util
import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PACKAGES = ("monitor", "consumers", "alerts")
ROOT = Path(__file__).parents[2]


def source_of(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def settings() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def declared_dependencies() -> list[str]:
    project = settings()["project"]
    extras = project["optional-dependencies"].values()
    return [*project["dependencies"], *(one for extra in extras for one in extra)]


def canonical(requirement: str) -> str:
    name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def modules() -> dict[str, Path]:
    """Files by the name of their module; Alembic finds its own."""
    files = {}
    for package in PACKAGES:
        for path in source_of(package).rglob("*.py"):
            parts = [package, *path.relative_to(source_of(package)).with_suffix("").parts]
            files[".".join(part for part in parts if part != "__init__")] = path
    return {name: path for name, path in files.items() if ".migrations" not in name}


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def test_a_package_names_what_others_import_of_it() -> None:
    """``__all__``: modules that code outside uses, and what ``__init__.py`` itself has."""
    files = modules()
    packages = {name for name, path in files.items() if path.name == "__init__.py"}
    used: dict[str, set[str]] = {package: set() for package in packages}
    for user, path in files.items():
        for name in files.keys() & imported(path):
            package, _, module = name.rpartition(".")
            if package and not f"{user}.".startswith(f"{package}."):
                used[package].add(module)
    assert len(packages) > 30
    for package, names in used.items():
        face = importlib.import_module(package)
        assert names <= set(face.__all__), package
        own = {one: getattr(face, one) for one in set(face.__all__) - names}
        assert not any(map(inspect.ismodule, own.values())), package


def test_every_part_of_monitor_has_a_layer() -> None:
    contracts = settings()["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["type"] == "layers")
    listed = {name for layer in layers for name in re.findall(r"[\w.]+", layer)}
    entries = source_of("monitor").iterdir()
    parts = {one.stem for one in entries if one.suffix == ".py" or (one / "__init__.py").exists()}
    parts -= {"__init__", "__main__"}
    assert {f"monitor.{part}" for part in parts} <= listed


def test_no_module_is_named_like_a_dependency() -> None:
    """Run as a script, ``kafka.py`` would import itself instead of the library."""
    installed = importlib.metadata.packages_distributions()
    # A tool that is run in the root of the tree, and never imported.
    declared = {canonical(one) for one in declared_dependencies()} - {"build"}
    foreign = {name for name, owners in installed.items() if declared & set(map(canonical, owners))}
    ours = {path.stem for package in PACKAGES for path in source_of(package).rglob("*.py")}
    assert {"kafka", "numpy"} <= foreign
    assert sorted(ours & (foreign - {"__init__"})) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_types_are_published(package: str) -> None:
    assert (source_of(package) / "py.typed").is_file()


def test_the_development_files_are_not_packages() -> None:
    """An editable install puts the whole tree on the path: ``import tests`` must not find it."""
    assert not list((ROOT / "tests").rglob("__init__.py"))
    assert not list((ROOT / "deploy").rglob("__init__.py"))
