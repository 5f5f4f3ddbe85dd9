"""Addresses of routers that may be sent to, and shown."""

from __future__ import annotations

import pytest

from monitor.errors import SlicewatchError
from monitor.probing.http_router import target


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://localhost/probe", "localhost:80"),
        ("http://127.0.0.1:8900/probe", "127.0.0.1:8900"),
        ("http://127.8.9.1/", "127.8.9.1:80"),
        ("http://[::1]:8900/probe", "[::1]:8900"),
        ("https://router.example", "router.example:443"),
        ("https://router.example:8443/v1/probe", "router.example:8443"),
    ],
)
def test_https_and_this_machine_are_taken(url: str, host: str) -> None:
    found = target(url)
    assert (found.url, found.host, found.tls) == (url, host, url.startswith("https"))


@pytest.mark.parametrize(
    "url",
    [
        "http://router.example/",
        "http://10.0.0.5/",
        "http://localhost.example/",
        "http://[fe80::1]/",
    ],
)
def test_plain_http_to_another_machine_must_be_meant(url: str) -> None:
    with pytest.raises(SlicewatchError, match="--insecure-http"):
        target(url)
    assert not target(url, insecure=True).tls


@pytest.mark.parametrize(
    "url",
    [
        "https://somebody:s3cret@router.example/",
        "https://s3cret@router.example/",
        "https://router.example/?token=s3cret",
        "https://router.example/#s3cret",
        "https://router.example/\ns3cret",
        "ftp://router.example/s3cret",
        "router.example/s3cret",
        "https://router.example:s3cret/",
        "https://router.example:99999/s3cret",
        "https:///s3cret",
        "",
    ],
)
def test_anything_else_is_refused_in_one_line_that_does_not_repeat_it(url: str) -> None:
    with pytest.raises(SlicewatchError) as refused:
        target(url)
    assert "--target" in str(refused.value)
    assert "s3cret" not in str(refused.value)
    assert "\n" not in str(refused.value)
