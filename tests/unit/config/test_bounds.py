"""What callers may hold, and what of the descriptors is kept back from them."""

from __future__ import annotations

import ipaddress
import subprocess
import sys

import pytest

from raftsched.config.bounds import RESERVE, Bounds, bounds
from raftsched.config.values import ConfigError


@pytest.mark.parametrize("descriptors", [64, 256, 1_024, 4_096, 20_000, 1 << 20])
@pytest.mark.parametrize("slots", [1, 64, 10_000])
def test_descriptors_are_kept_back(descriptors: int, slots: int) -> None:
    found = Bounds().within(descriptors, slots)
    assert 16 <= found.connections <= 10_000
    if descriptors >= 1_024:
        assert found.connections + RESERVE <= descriptors
    assert Bounds(connections=50).within(descriptors, slots).connections <= 50


def test_they_are_read() -> None:
    found = bounds({"connections_max": "500", "streams_max": 50, "proxies": "10.0.0.1, 2001:db8::/32"})
    networks = (ipaddress.ip_network("10.0.0.1/32"), ipaddress.ip_network("2001:db8::/32"))
    assert found == Bounds(500, 50, 20, networks)
    assert found.address_connections == 125
    assert bounds({"proxies": ["10.0.0.0/8"]}).proxies == (ipaddress.ip_network("10.0.0.0/8"),)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"connections_max": "15"}, "connections_max must be a whole number from 16"),
        ({"streams_max": "many"}, "streams_max must be a whole number"),
        ({"proxies": "proxy.example"}, "is no IP address and no network"),
        ({"proxies": "10.0.0.1/8"}, "is no IP address and no network"),
    ],
)
def test_what_is_wrong_is_said(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        bounds(settings)


LIMITS = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200))
from raftsched.system import descriptors
print(descriptors.given(), descriptors.raise_limit(), descriptors.limit())
descriptors.give_back(descriptors.given())
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_the_limit_is_raised_and_given_back() -> None:
    said = subprocess.run([sys.executable, "-c", LIMITS], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["100", "200", "200", "100", "200"]
