"""The manual's example of a canary beside the stable version is a setting that works."""

from __future__ import annotations

import re
from pathlib import Path

from monitor.core.publish.side_by_side import VersionGroup, version_groups
from monitor.settings import load

ROOT = Path(__file__).parents[3]
MANUAL = (ROOT / "deploy/docs/status-page.md").read_text()
QUICKSTART = (ROOT / "deploy/examples/quickstart.toml").read_text()


def test_the_example_fits_into_the_quickstart(tmp_path: Path) -> None:
    section = MANUAL[MANUAL.index("## Is the new version worse?") :]
    attribute, groups, limit = re.findall(r"```toml\n(.*?)```", section, re.DOTALL)[:3]
    text = QUICKSTART.replace("[[use_case]]", f"{attribute}\n[[use_case]]")
    text = re.sub(r"(?m)^group_bys = .*\n", lambda _: groups, text) + limit
    path = tmp_path / "slicewatch.toml"
    path.write_text(re.sub(r"id_key_file = .*", 'id_key = "a key that is long enough"', text))
    settings = load(path, {})
    (found,) = version_groups(settings.contracts, settings.coding)
    assert found == VersionGroup("reply-routing", "release", {"release": "stable"})
    (release,) = (one for one in settings.coding.attributes if one.version_of)
    assert [release.code(text) for text in ("p-41", "p-42", "p-43", None)] == [
        *("stable", "canary", "__other__", "__missing__")
    ]
