"""Whatever stands in the file or the environment: settings, or one line that keeps secrets."""

from __future__ import annotations

import pytest
from fuzz_settings import CASE, SECRETS, check_settings
from fuzzing import PROPERTIES

from monitor.settings import Url


@pytest.mark.parametrize("times", [0.33, pytest.param(1.0, marks=pytest.mark.full)])
def test_spoiled_settings(times: float) -> None:
    PROPERTIES["settings"].hammer(times)


def test_the_unspoiled_file_loads() -> None:
    check_settings((SECRETS + CASE).encode(), {})


@pytest.mark.parametrize("mark", [":", ";", "|", "::"])
def test_a_mistyped_colon_does_not_show_the_password(mark: str) -> None:
    assert Url(f"postgresql://app{mark}hunter2@db/x").masked == "postgresql://app:********@db/x"


@pytest.mark.parametrize("url", ["sqlite:////srv/a:b@c.db", "sqlite:///a@b", "postgresql://u@db/x"])
def test_a_url_without_a_password_is_shown_as_it_is(url: str) -> None:
    assert Url(url).masked == url
