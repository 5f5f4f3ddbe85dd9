"""Does this tree make of fixed input what another commit makes of it, byte for byte?

    python tests/same/compare.py REVISION [ten_pairs] [mixed] [incidents] [census]

Snapshots, expositions, every table of the store. Exits 1 and names the first differences. Texts
that people read (alerts, runbooks, notifications) are no part of it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCENARIO = Path(__file__).with_name("scenario.py")


def lines_of(tree: Path, parts: list[str]) -> list[str]:
    """What the scenario says in this tree."""
    command = [sys.executable, str(SCENARIO), str(tree), *parts]
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tempfile.gettempdir()
    )
    if run.returncode:
        sys.exit(f"{tree}:\n{run.stderr}")
    return run.stdout.splitlines()


def main() -> int:
    """Compare, and say what differs."""
    if len(sys.argv) < 2:
        sys.stderr.write(__doc__)
        return 2
    revision, parts = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "before"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(before), revision], check=True)
        try:
            old, new = lines_of(before, parts), lines_of(ROOT, parts)
        finally:
            subprocess.run([*git, "remove", "--force", str(before)], check=True)
    apart = [(a, b) for a, b in zip(old, new, strict=False) if a != b]
    for one, other in apart[:20]:
        sys.stdout.write(f"- {one}\n+ {other}\n")
    missing = abs(len(old) - len(new))
    sys.stdout.write(f"{len(new)} lines, {len(apart) + missing} differ\n")
    return int(bool(apart or missing))


if __name__ == "__main__":
    sys.exit(main())
