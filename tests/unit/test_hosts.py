"""The names by which hosts are asked for."""

from __future__ import annotations

import pytest

from raftsched.hosts import asked_for, rule_asked_for, url_asked_for


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("API.Example", "API.Example"),
        ("b\u00fccher.example", "xn--bcher-kva.example"),
        ("vau\u00adlt.corp.example", "vault.corp.example"),
        ("\uff56ault\u3002corp.example", "vault.corp.example"),
        ("\u00fc..example", "\u00fc..example"),  # none in the DNS
    ],
)
def test_a_host(host: str, name: str) -> None:
    assert asked_for(host) == name


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("*.Corp.example:81", "*.Corp.example:81"),
        ("*.b\u00fccher.*", "*.xn--bcher-kva.*"),
        ("b\u00fccher.example:8080", "xn--bcher-kva.example:8080"),
    ],
)
def test_a_rule(rule: str, expected: str) -> None:
    assert rule_asked_for(rule) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://a.example/\u00fc", "https://a.example/\u00fc"),
        (
            "https://B\u00dcCHER.example:81/\u00fc?q=\u00fc#\u00fc",
            "https://xn--bcher-kva.example:81/\u00fc?q=\u00fc#\u00fc",
        ),
        ("http://u:p@b\u00fccher.example?x", "http://u:p@xn--bcher-kva.example?x"),
        ("http://[::1]:80/\u00fc", "http://[::1]:80/\u00fc"),
    ],
)
def test_an_address(url: str, expected: str) -> None:
    assert url_asked_for(url) == expected
