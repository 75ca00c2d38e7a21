"""Hosts and addresses as rules read them."""

from __future__ import annotations

import ipaddress

import pytest
from msgspec.structs import replace

from raftsched.core.levels import HOSTS_ARE_ASCII
from raftsched.core.model import Policy, Trigger, TriggerKind
from raftsched.core.rules.allowed import Allowed, Destinations, rules_error, wrong_in_target, wrong_in_url
from raftsched.core.rules.eligibility import offer
from raftsched.core.rules.hosts import is_public, literal, target_of_url
from raftsched.core.rules.unicode_hosts import UNICODE
from raftsched.core.subjects.cluster import NodeRule, OpenWorker, Session
from raftsched.core.subjects.webhook import PutWebhook, WebhookSpec
from tests.support.memory_view import World

SECRET = b"x" * 32
UMLAUT = "https://\u00c4B.Example/hook"


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "169.254.1.1", "172.31.0.1", "192.0.0.8", "192.0.2.1"),
        *("192.168.0.1", "198.19.0.1", "198.51.100.7", "203.0.113.9", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
        *("::", "::1", "100::1", "2001:2::1", "2001:db8::1", "2002::1", "3fff::1", "5f00::1", "64:ff9b:1::1"),
        *("fc00::1", "fe80::1", "fec0::1", "ff02::1", "4000::1"),
    ],
)
def test_an_address_that_is_not_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        *("1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.0.1", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.0.0.9"),
        *("192.0.0.10", "192.0.1.1", "198.17.0.1", "198.20.0.1", "223.255.255.255"),
        *("2000::1", "2001:1::1", "2001:1::3", "2001:3::1", "2001:4:112::1", "2001:20::1", "2001:30::1", "2001:200::1"),
        *("2606:4700::1111", "3ffe::1"),
    ],
)
def test_an_address_that_is_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


def test_only_letters_of_ascii_are_folded() -> None:
    assert target_of_url(UMLAUT) == "\u00c4b.example:443"
    assert target_of_url("HTTP://API.Example:8080/x") == "api.example:8080"
    assert target_of_url(UMLAUT, UNICODE) == "\u00e4b.example:443"


@pytest.mark.parametrize("host", ["\uff11\uff12\uff17.1", "127.\u0661", "0x\u0661"])
def test_only_digits_of_ascii_make_an_address(host: str) -> None:
    assert literal(host) is None


def test_a_rule_names_hosts_in_ascii() -> None:
    with pytest.raises(ValueError, match="not in ASCII; write the name as it is in the DNS"):
        Destinations(("b\u00fccher.example",), ())
    assert "not in ASCII" in (rules_error(Allowed(http=("b\u00fccher.example",))) or "")
    allowed = Allowed(http_deny=("xn--bcher-kva.example",))
    assert wrong_in_url(allowed, "http://XN--Bcher-KVA.example/") is not None
    assert wrong_in_target(allowed, "xn--bcher-kva.example:80") is not None


# ---------------------------------------------------------------- as apply reads them, by the level of the cluster


@pytest.mark.parametrize(
    ("level", "target"), [(HOSTS_ARE_ASCII - 1, "\u00e4b.example:443"), (HOSTS_ARE_ASCII, "\u00c4b.example:443")]
)
def test_where_a_webhook_goes(level: int, target: str) -> None:
    world = World(level=level)
    made = world.ok(PutWebhook("ops", WebhookSpec(url=UMLAUT), SECRET)).job
    assert made is not None
    assert made.policy.target == target


def test_what_a_remote_worker_says_of_hosts() -> None:
    opened = OpenWorker("worker/w", 0, b"n", 1, handlers=("http",), allowed=Allowed(http=("b\u00fccher.example",)))
    World(level=HOSTS_ARE_ASCII - 1).ok(opened)
    assert World().refused(opened) == "invalid-parameter"


def test_which_node_takes_a_request() -> None:
    """A node denies a name that a job spells otherwise: below the level apply finds the rule by this node's Unicode."""
    denied = Allowed(http_deny=("\u00e4b.example",))
    session = Session(
        id=1, node="n2", boot_id="b", nonce=b"", ttl_ms=1, opened_at_ms=1, slots=1, handlers=("http",), allowed=denied
    )
    policy = Policy(trigger=Trigger(kind=TriggerKind.MANUAL), required_capability="http", target="\u00c4B.example:443")
    assert not offer(session, NodeRule(), reading=UNICODE).can(policy, "default")
    assert offer(session, NodeRule()).can(policy, "default"), "the rule cannot be read: the node decides"
    named = replace(session, allowed=Allowed(http_deny=("xn--b-zfa.example",)))
    assert not offer(named, NodeRule()).can(replace(policy, target="XN--B-zfa.example:443"), "default")
