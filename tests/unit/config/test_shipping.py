"""The settings of shipping: what is taken, and what is said of the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raftsched.config.addresses import Address
from raftsched.config.shipping import build_shipping, read_credentials
from raftsched.config.values import ConfigError, Unprotected

LOKI = {"output_ship": "loki+https://logs.example.com"}


@pytest.mark.parametrize(
    ("to", "kind", "where"),
    [
        ("stdout", "stdout", None),
        ("loki+https://logs.example.com", "loki", "https://logs.example.com/loki/api/v1/push"),
        ("loki+http://127.0.0.1:3100/", "loki", "http://127.0.0.1:3100/loki/api/v1/push"),
        ("loki+https://gw.example.com/tenants/a", "loki", "https://gw.example.com/tenants/a/loki/api/v1/push"),
        ("loki+https://gw/loki/api/v1/push", "loki", "https://gw/loki/api/v1/push"),
        ("syslog+udp://logs.example.com", "udp", Address("logs.example.com", 514)),
        ("syslog+udp://[::1]:1514", "udp", Address("::1", 1514)),
        ("syslog+tcp://10.0.0.9:601", "tcp", Address("10.0.0.9", 601)),
        ("syslog+tcp://10.0.0.9", "tcp", Address("10.0.0.9", 514)),
        ("syslog+tls://logs.example.com", "tls", Address("logs.example.com", 6514)),
        ("syslog+unix:///dev/log", "unix", "/dev/log"),
    ],
)
def test_places(to: str, kind: str, where: Any) -> None:
    config = build_shipping({"output_ship": to})
    assert config is not None
    assert (config.to, config.kind) == (to, kind)
    assert {config.url or None, config.address, config.path or None} - {None} == ({where} if where else set())


def test_nothing_is_shipped_unless_it_is_said() -> None:
    assert build_shipping({}) is None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"output_ship": "loki"}, "'loki' is no place; write stdout, loki+https"),
        ({"output_ship": "https://logs.example.com"}, "is no place"),
        ({"output_ship": "STDOUT"}, "is no place"),
        ({"output_ship": "loki+https://logs:99999"}, "is no place"),
        ({"output_ship": "loki+https:///nowhere"}, "is no place"),
        ({"output_ship": "loki+https://logs?x=1"}, "is no place"),
        ({"output_ship": "syslog+udp://a_b%"}, "is no place"),
        ({"output_ship": "syslog+tcp://logs:601/path"}, "has a path"),
        ({"output_ship": "syslog+unix://dev/log"}, "three slashes"),
        ({"output_ship": "syslog+unix:///" + "x" * 200}, "107 bytes at most"),
        ({"output_ship": "loki+https://me:secret@logs"}, "must not hold credentials"),
        ({"output_ship": 7}, "must be text"),
        ({"output_ship_tenant": "a"}, "output_ship, which is missing"),
        ({**LOKI, "output_ship_namespaces": "UPPER"}, "'UPPER' is no namespace"),
        ({**LOKI, "output_ship_namespaces": ","}, "names 0; name 1 to 1000"),
        ({**LOKI, "output_ship_tenant": "a\nb"}, "printable characters of ASCII"),
        ({**LOKI, "output_ship_credentials": "/nowhere"}, "cannot be read"),
        ({**LOKI, "output_ship_ca": "/nowhere"}, "output_ship_ca /nowhere cannot be read"),
        ({"output_ship": "loki+http://127.0.0.1", "output_ship_ca": "/dev/null"}, "is about TLS"),
        ({"output_ship": "syslog+tcp://logs", "output_ship_ca": "/dev/null"}, "is about TLS"),
        ({"output_ship": "stdout", "output_ship_tenant": "a"}, "output_ship_tenant is for Loki"),
        ({"output_ship": "stdout", "output_ship_credentials": "/dev/null"}, "output_ship_credentials is for Loki"),
    ],
)
def test_what_is_wrong_is_said(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build_shipping(settings)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


def test_namespaces_and_credentials(tmp_path: Path) -> None:
    file = tmp_path / "loki"
    file.write_text(" user:pass word \n")
    file.chmod(0o640)
    config = build_shipping(
        {**LOKI, "output_ship_namespaces": "billing, hr,billing", "output_ship_credentials": str(file)}
    )
    assert config is not None
    assert config.namespaces == ("billing", "hr")
    assert config.credentials == file
    assert read_credentials(file) == "user:pass word"


def test_credentials_that_others_may_read_or_that_would_travel_in_clear(tmp_path: Path) -> None:
    file = tmp_path / "loki"
    file.write_text("user:password")
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="every user; say chmod o="):
        build_shipping({**LOKI, "output_ship_credentials": str(file)})
    file.chmod(0o600)
    with pytest.raises(Unprotected, match="in clear"):
        build_shipping({"output_ship": "loki+http://10.0.0.9:3100", "output_ship_credentials": str(file)})
    assert build_shipping({"output_ship": "loki+http://localhost:3100", "output_ship_credentials": str(file)})
    for wrong in (b"", b"a\nb", b"\xff"):
        file.write_bytes(wrong)
        with pytest.raises(ConfigError, match="USER:PASSWORD or a token"):
            build_shipping({**LOKI, "output_ship_credentials": str(file)})
