"""The package's shape: every module has its layer, and none hides a dependency."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import tomllib
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
