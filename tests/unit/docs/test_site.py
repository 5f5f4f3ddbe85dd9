"""The documentation as one whole: it builds, is read offline, and names only what there is."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click
import msgspec
import pytest
import yaml
from programs import program

from alerts.exposition.catalogue import CATALOGUE
from monitor.cli import cli
from monitor.settings.build import secrets_of
from monitor.settings.sections import Settings

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "deploy" / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *(ROOT / "deploy" / "runbooks").glob("*.md")])
PAGES += [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
TEXTS = {str(page.relative_to(ROOT)): page.read_text() for page in PAGES}
OTHERS = {"slicewatch_deploy", "slicewatch_service", "slicewatch_reader", "slicewatch_restored"}
OTHERS |= {"slicewatch_migrator", "slicewatch_writer", "slicewatch_reporter"}
"""Logins, roles and databases of PostgreSQL."""


# The site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    words = ["build", "--strict", "--config-file", str(ROOT / "deploy" / "mkdocs.yml")]
    built = subprocess.run(
        [program("mkdocs"), *words, "--site-dir", str(folder)],
        capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


@pytest.mark.full
def test_nothing_on_the_site_comes_from_elsewhere(site: Path) -> None:
    loaded = r"<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=\"?(https?:|//)"
    pages = [*site.rglob("*.html")]
    assert len(pages) > 40
    for page in pages:
        text = re.sub(r'<link rel="?canonical[^>]*>', "", page.read_text())
        assert not re.search(loaded, text), page.name
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(\"?(?:https?:|//)", style.read_text()), style.name


def test_every_page_is_in_the_navigation() -> None:
    named = re.findall(r"^ +- .*?([\w-]+\.md)$", (ROOT / "deploy" / "mkdocs.yml").read_text(), re.M)
    assert sorted(named) == sorted(page.name for page in DOCS.glob("*.md"))


# What is named exists


def commands(text: str) -> Iterator[list[str]]:
    """The words of every slicewatch command: in blocks of a shell, and between backticks."""
    for block in re.findall(r"^ *```(?:ba)?sh\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE):
        joined = block.replace("\\\n", " ")
        for line in re.findall(r"^ *(?:\w+=\S+ )*slicewatch (.*)$", joined, re.M):
            yield _words(line)
    for line in re.findall(r"`slicewatch ([^`]+)`", text):
        yield _words(line)


def _words(line: str) -> list[str]:
    line = re.split(r" [|>&;<]|\s#|\)|\.\.\.", line)[0]
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


@pytest.mark.parametrize("page", TEXTS)
def test_every_command_and_option_exists(page: str) -> None:
    for words in commands(TEXTS[page]):
        check_command(words, f"{page}: slicewatch {' '.join(words)}")


def check_command(words: list[str], where: str) -> None:
    found: click.Command = cli
    names = [re.sub(r"[,.:]$", "", word) for word in words]
    while isinstance(found, click.Group) and names and re.fullmatch(r"[a-z][a-z-]*", names[0]):
        deeper = found.get_command(click.Context(found), names[0])
        assert deeper is not None or found.invoke_without_command, where
        if deeper is None:
            break
        found, names = deeper, names[1:]
    options = {text for one in found.get_params(click.Context(found)) for text in one.opts}
    for name in names:
        if name.startswith("--"):
            assert name.partition("=")[0] in options, where


def slug(heading: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", TEXTS)
def test_every_link_leads_somewhere(page: str) -> None:
    for link in re.findall(r"\]\((?!http)([^)\s]+)\)", TEXTS[page]):
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            assert anchor in {slug(heading) for heading in headings}, link


@pytest.mark.parametrize("page", TEXTS)
def test_every_target_of_make_exists(page: str) -> None:
    targets = re.findall(r"^([\w-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"`make ([a-z-]+)", TEXTS[page])) <= {*targets}


@pytest.mark.parametrize("page", TEXTS)
def test_every_metric_exists(page: str) -> None:
    known = {family.name for family in CATALOGUE}
    for name in re.findall(
        r"(?<![\w/.-])slicewatch_[a-z_]+(?![\w/.-]*\.(?:py|toml|key|sql))", TEXTS[page]
    ):
        base = re.sub(r"_(?:total|bucket|sum|count|created)$", "", name)
        good = name in known or base in known or f"{base}_total" in known
        assert good or name in OTHERS or name.endswith("_"), f"{page}: {name}"


def fields(kind: Any, prefix: str) -> Iterator[str]:
    """Every key of the settings, as texts write it: ``server.operations.port``."""
    yield from (f"{prefix}{name}_file" for name in secrets_of(kind))
    for field in msgspec.structs.fields(kind):
        name = f"{prefix}{field.encode_name}"
        yield name
        for inner in (field.type, *get_args(field.type)):
            if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
                yield from fields(inner, f"{name}.")


KEYS = set(fields(Settings, ""))
SECTIONS = {key.split(".")[0] for key in KEYS}


@pytest.mark.parametrize("page", TEXTS)
def test_every_setting_exists(page: str) -> None:
    sections = "|".join(SECTIONS - {"alerting"}) + "|alerting"
    for key in re.findall(rf"`((?:{sections})\.[a-z_.]+)(?: = [^`]*)?`", TEXTS[page]):
        last = key.rsplit(".", 1)[1]
        assert key in KEYS or last in ("toml", "py", "md", "yaml", "sql", "json"), f"{page}: {key}"


def nested(tree: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in tree.items():
        yield f"{prefix}{name}"
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict) and f"{prefix}{name}" not in FREE:
                yield from nested(inner, f"{prefix}{name}.")


FREE = {"attribute.aliases", "attribute.target", "use_case.where"}
FREE |= {
    f"mapping.{events}.{part}"
    for events in ("decisions", "labels")
    for part in ("fields", "values", "constants", "divide", "audit_p")
}
"""Tables whose keys are the reader's own."""


@pytest.mark.parametrize("page", TEXTS)
def test_every_table_of_settings_is_right(page: str) -> None:
    for block in re.findall(r"^```toml\n(.*?)^```", TEXTS[page], re.DOTALL | re.MULTILINE):
        tree = tomllib.loads(block)
        if SECTIONS & tree.keys():
            assert {*nested(tree)} - KEYS == set(), f"{page}: {block}"


# Examples run


def clone(folder: Path) -> Path:
    """What a newcomer's checkout has of files that commands name."""
    (folder / "deploy").mkdir()
    for name in ("examples", "schemas"):
        shutil.copytree(ROOT / "deploy" / name, folder / "deploy" / name)
    return folder


def followed(page: str, folder: Path) -> list[str]:
    """The outputs of all blocks of ``bash`` on a page, run as they stand, in one shell's folder."""
    text = TEXTS[page]
    said = []
    path = f"{Path(program('slicewatch')).parent}:{os.environ['PATH']}"
    for block in re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block], cwd=folder, env={**os.environ, "PATH": path},
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
        said.append(done.stdout)
    return said


@pytest.mark.full
def test_the_start_can_be_followed(tmp_path: Path) -> None:
    replayed, checked, traffic, events = followed("deploy/docs/index.md", clone(tmp_path))
    assert replayed.strip().splitlines()[-1].startswith("ten-pairs v1: fail. Of 4 checks 1 fail")
    assert "slicewatch.toml and slicewatch.key are written" in checked
    assert "contract replies" in checked
    assert "500" in traffic
    assert events


COOKBOOK = sorted((ROOT / "deploy" / "examples" / "cookbook").glob("*.toml"))


@pytest.mark.full
@pytest.mark.parametrize("recipe", COOKBOOK, ids=lambda recipe: recipe.stem)
def test_a_recipe_is_accepted(recipe: Path, tmp_path: Path) -> None:
    shutil.copy(recipe, tmp_path)
    slicewatch = program("slicewatch")
    key = [slicewatch, "db", "new-key", "slicewatch.key"]
    subprocess.run(key, cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "reader_token").write_text("a-token-of-the-tests-long-enough")
    checked = subprocess.run(
        [slicewatch, "check", "--settings", recipe.name],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout + checked.stderr
    for word in ("Served at once", "Ready", "Harm", "Trap"):
        assert f"# {word}: " in recipe.read_text()


def test_the_cookbook_has_the_four_recipes() -> None:
    names = {one.stem for one in COOKBOOK}
    assert names == {"content_moderation", "llm_judge", "loan_screening", "support_triage"}


def test_the_figures_of_sizing_are_those_of_the_measurements() -> None:
    """What is quoted is measured, and what is computed follows from it."""
    sizing, measured = TEXTS["deploy/docs/deployment.md"], TEXTS["deploy/docs/performance.md"]
    assert "9.9 bytes" in sizing
    assert "9.9 bytes" in measured
    rows = re.findall(
        r"^\| (?:up to )?([\d,]+) million \| ([\d,]+) \|.*\| ([\d.]+) MB \|$", sizing, re.M
    )
    assert len(rows) == 4
    for millions, a_second, megabytes in rows:
        a_day = int(millions.replace(",", "")) * 1e6
        assert round(a_day / 86_400) == int(a_second.replace(",", ""))
        assert a_day / 24 * 9.9 / 1e6 == pytest.approx(float(megabytes), rel=0.05)


def test_the_disk_of_sizing_follows_from_its_bytes() -> None:
    sizing = " ".join(TEXTS["deploy/docs/deployment.md"].split())
    label = re.search(r"is (\d+) bytes on SQLite and (\d+) on PostgreSQL", sizing)
    snapshot = re.search(r"\((\d+) kB on SQLite, (\d+) kB on PostgreSQL\)", sizing)
    assert label
    assert snapshot
    month = [int(size) * 1e6 * 0.43 * 30 / 1e9 for size in label.groups()]
    assert f"stay at {month[0]:.1f} GB and {month[1]:.1f} GB" in sizing
    year = [int(size) * 1e3 * 365 * 24 / 1e9 for size in snapshot.groups()]
    assert f"{year[0]:.1f} GB a year on SQLite and {year[1]:.1f} GB" in sizing


def test_the_navigation_is_yaml_that_names_the_hooks() -> None:
    found = yaml.safe_load((ROOT / "deploy" / "mkdocs.yml").read_text())
    assert found["strict"]
    assert found["theme"]["font"] is False
    assert all((ROOT / "deploy" / hook).exists() for hook in found["hooks"])
