"""Addresses that handlers, conditions and webhooks may name."""

from __future__ import annotations

import pytest

from raftsched.api.jobs.handlers import url_error


@pytest.mark.parametrize(
    "address", ["http://ana:pw@host/hook", "https://token@host", "http://:pw@127.0.0.1:8080/", "http://@host/"]
)
def test_no_password_where_everybody_reads_it(address: str) -> None:
    assert "user or password" in str(url_error(address))


@pytest.mark.parametrize("address", ["http://host/a@b", "https://host:8443/?to=ana@example.org", "http://[::1]:80/"])
def test_an_at_elsewhere_is_none(address: str) -> None:
    assert url_error(address) is None
