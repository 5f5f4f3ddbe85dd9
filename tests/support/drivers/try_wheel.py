"""Try the built wheel on several Pythons: install it in a fresh environment, run it from outside.

Called by ``make try-wheel``: ``try_wheel.py WHEEL PYTHON...``. A Python that is not there is said,
and is a failure only where it was asked for by name (``--all``).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "deploy" / "examples"
FAILS = "ten-pairs v1: fail. Of 4 checks 1 fail, 0 pass, 3 are undecided."
"""The last line of the README's replay begins so."""


def main() -> None:
    """Try each; exit with 1 if one fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("pythons", nargs="+")
    parser.add_argument("--all", action="store_true", help="fail if one of them is not there")
    options = parser.parse_args()
    results = [tried(options.wheel.resolve(), one, needed=options.all) for one in options.pythons]
    sys.exit(0 if all(results) and any(found is True for found in results) else 1)


def tried(wheel: Path, name: str, *, needed: bool) -> bool | str:
    """True when the wheel works on a Python; a text where there is no such Python."""
    version = answered([name, "--version"], Path.cwd())
    if version is None:
        say(f"{name}: not there")
        return False if needed else "not there"
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="slicewatch-wheel-") as folder:
        problem = problem_of(wheel, name, Path(folder))
    say(f"{version.strip()}: {problem or 'works'} ({time.monotonic() - began:.0f} s)")
    return not problem


def problem_of(wheel: Path, name: str, folder: Path) -> str:
    """Why the wheel does not work; empty when it does."""
    bin_folder = folder / "environment" / "bin"
    program = str(bin_folder / "slicewatch")
    install = [str(bin_folder / "python"), "-m", "pip", "install", "--quiet", str(wheel)]
    for command in ([name, "-m", "venv", str(folder / "environment")], install):
        if answered(command, folder) is None:
            return f"cannot be installed: {' '.join(command)}"
    return problem_of_program(program, folder)


def problem_of_program(program: str, folder: Path) -> str:
    """Why an installed program does not work: its help, a check of settings, a small replay."""
    for one in EXAMPLES.glob("ten_pairs*"):
        shutil.copy(one, folder)
    settings = ["--settings", "ten_pairs.toml"]
    files = ["ten_pairs_decisions.jsonl", "ten_pairs_labels.jsonl"]
    expected = {
        ("--help",): "Usage: slicewatch",
        ("check", *settings): "ten-pairs",
        ("replay", *settings, *files, "--summary"): FAILS,
    }
    for arguments, text in expected.items():
        said = answered([program, *arguments], folder)
        if said is None or text not in said:
            return f"slicewatch {arguments[0]} fails"
    return ""


def answered(command: list[str], folder: Path) -> str | None:
    """Standard output of a command; None when it fails, whose last words are shown."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        done = subprocess.run(
            command, cwd=folder, env=clean, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return None
    if done.returncode != 0:
        sys.stderr.write(done.stderr[-1500:])
        return None
    return done.stdout


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
