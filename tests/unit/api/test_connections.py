"""Which connection goes when there is one more than there may be."""

from __future__ import annotations

import ipaddress
import logging

import pytest

from raftsched.api.connections import Connections, Place
from raftsched.bounds import SHARE, Bounds


class Now:
    def __init__(self) -> None:
        self.s = 1_000.0

    def __call__(self) -> float:
        return self.s


def entered(connections: Connections, host: str, closed: list[Place]) -> Place:
    place = connections.enter(host)
    assert place is not None
    place.close = lambda: closed.append(place)
    return place


def test_the_one_that_was_answered_longest_ago_goes() -> None:
    connections = Connections(Bounds(3), Now())
    closed: list[Place] = []
    first, second, third = (entered(connections, "127.0.0.1", closed) for _ in range(3))
    connections.answered(first)
    entered(connections, "127.0.0.1", closed)
    assert closed == [second]
    assert len(connections) == 3
    third.has_answer_due = lambda: True
    entered(connections, "127.0.0.1", closed)
    assert closed == [second, first]
    assert connections.refused["idle"] == 2


def test_one_is_refused_when_all_have_an_answer_due() -> None:
    connections = Connections(Bounds(2), Now())
    closed: list[Place] = []
    places = [entered(connections, "127.0.0.1", closed) for _ in range(2)]
    for place in places:
        place.has_answer_due = lambda: True
    assert connections.enter("127.0.0.1") is None
    assert connections.refused["node"] == 1
    connections.leave(places[0])
    connections.leave(places[0])
    assert len(connections) == 1
    assert connections.enter("127.0.0.1") is not None
    assert not closed


def test_one_address_has_a_share_and_gives_up_its_own() -> None:
    connections = Connections(Bounds(8 * SHARE), Now())
    closed: list[Place] = []
    other = entered(connections, "10.0.0.9", closed)
    own = [entered(connections, "10.0.0.1", closed) for _ in range(connections.each)]
    entered(connections, "10.0.0.1", closed)
    assert closed == [own[0]]
    for place in own:
        place.has_answer_due = lambda: True
    more = [entered(connections, "10.0.0.2", closed) for _ in range(connections.each)]
    assert other not in closed
    assert not set(more) & set(closed)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "10.7.0.1", "::ffff:10.7.0.1"])
def test_own_machine_and_proxies_have_no_share(host: str) -> None:
    connections = Connections(Bounds(4 * SHARE, proxies=(ipaddress.ip_network("10.7.0.0/16"),)), Now())
    for _ in range(connections.most):
        entered(connections, host, [])
    assert not connections.refused


def test_a_network_of_ipv6_is_one_address() -> None:
    connections = Connections(Bounds(2 * SHARE), Now())
    places = [entered(connections, f"2001:db8::{n}", []) for n in range(1, 3)]
    for place in places:
        place.has_answer_due = lambda: True
    assert connections.enter("2001:db8:0:0:ffff::1") is None
    assert connections.enter("2001:db8:0:1::1") is not None


def test_refusals_are_said_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = Now()
    connections = Connections(Bounds(1), now)
    entered(connections, "127.0.0.1", []).has_answer_due = lambda: True
    with caplog.at_level(logging.WARNING):
        for _ in range(1_000):
            assert connections.enter("127.0.0.1") is None
        assert len(caplog.records) == 1
        now.s += 61
        assert connections.enter("127.0.0.1") is None
    assert [record.message.split(" since")[0] for record in caplog.records] == [
        "HTTP connections are refused or closed (node: 1",
        "HTTP connections are refused or closed (node: 1000",
    ]


def test_metrics_count_them() -> None:
    connections = Connections(Bounds(1), Now())
    entered(connections, "127.0.0.1", [])
    entered(connections, "127.0.0.1", [])
    samples = {(s.name, s.labels.get("why")): s.value for m in connections.collect() for s in m.samples}
    assert samples["raftsched_http_connections", None] == 1
    assert samples["raftsched_http_connections_refused_total", "idle"] == 1
