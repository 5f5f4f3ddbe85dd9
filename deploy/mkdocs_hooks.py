"""What the site needs of files outside ``deploy/docs``: runbooks as pages, other files by name."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

DEPLOY = Path(__file__).parent
ROOT = DEPLOY.parent
RUNBOOKS = "runbooks"
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>(?!https?://|#|mailto:)[^)\s]+)\)")


def on_files(files: Files, *, config: Any) -> Files:
    """Add the runbooks: alerts.md links to them."""
    for page in sorted((DEPLOY / RUNBOOKS).glob("*.md")):
        files.append(File.generated(config, f"{RUNBOOKS}/{page.name}", abs_src_path=str(page)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Links to files of the repository that are no pages become their paths."""
    del config
    here = PurePosixPath(page.file.src_uri)
    folder = DEPLOY if here.parts[0] == RUNBOOKS else DEPLOY / "docs"

    def replaced(found: re.Match[str]) -> str:
        path, _, anchor = found["target"].partition("#")
        source = Path(os.path.normpath((folder / here).parent / path))
        uri = _uri(source)
        if uri is None or files.get_file_from_path(uri) is None:
            name = found["text"].strip("`")
            shown = source.relative_to(ROOT).as_posix()
            return f"`{shown}`" if name == shown else f"{found['text']} (`{shown}`)"
        target = os.path.relpath(uri, here.parent)
        return f"[{found['text']}]({target}{'#' if anchor else ''}{anchor})"

    return _LINK.sub(replaced, markdown)


def _uri(source: Path) -> str | None:
    """The page that a file is made into."""
    for folder, prefix in ((DEPLOY / "docs", ""), (DEPLOY / RUNBOOKS, f"{RUNBOOKS}/")):
        if source.is_relative_to(folder):
            return prefix + source.relative_to(folder).as_posix()
    return None
