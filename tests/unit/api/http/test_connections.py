"""Which connection goes when there is one more than there may be."""

from __future__ import annotations

import ipaddress
import logging

import pytest

from raftsched.api.http.connections import ASKING_S, SILENT_S, Connections, Place
from raftsched.config.bounds import SHARE, Bounds


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


def answered(connections: Connections, closed: list[Place], count: int, *, known: bool) -> list[Place]:
    places = [entered(connections, "127.0.0.1", closed) for _ in range(count)]
    for place in places:
        connections.asks(place)
        connections.answered(place, known=known)
    return places


@pytest.mark.parametrize("known", [False, True])
def test_the_one_that_was_answered_longest_ago_goes(*, known: bool) -> None:
    connections = Connections(Bounds(3), Now())
    closed: list[Place] = []
    first, second, third = answered(connections, closed, 3, known=known)
    connections.answered(first, known=known)
    new = entered(connections, "127.0.0.1", closed)
    assert closed == [second]
    assert len(connections) == 3
    connections.answered(new, known=known)
    third.has_answer_due = lambda: True
    entered(connections, "127.0.0.1", closed)
    assert closed == [second, first]
    assert connections.refused["idle"] == 2


def test_a_new_one_has_a_moment_for_its_first_request() -> None:
    now = Now()
    connections = Connections(Bounds(4), now)
    closed: list[Place] = []
    first, second, third, fourth = (entered(connections, "127.0.0.1", closed) for _ in range(4))
    connections.asks(second)
    connections.answered(third, known=True)
    connections.answered(fourth, known=True)
    assert connections.enter("127.0.0.1") is None
    assert connections.refused == {"node": 1}
    now.s += SILENT_S
    new = entered(connections, "127.0.0.1", closed)
    assert closed == [first]
    assert connections.enter("127.0.0.1") is None
    connections.asks(new)
    now.s += ASKING_S - SILENT_S
    entered(connections, "127.0.0.1", closed)
    assert closed == [first, second]
    assert connections.enter("127.0.0.1") is None


def test_a_crowd_that_comes_at_once_closes_nobody() -> None:
    """More clients than there may be, all of whom connect before the first of them is answered."""
    connections = Connections(Bounds(64), Now())
    closed: list[Place] = []
    places = []
    for _ in range(190):
        place = connections.enter("127.0.0.1")
        if place is not None:
            place.close = lambda place=place: closed.append(place)  # type: ignore[misc]
            places.append(place)
    assert (len(places), closed) == (64, [])
    for place in places[:8]:
        connections.answered(place, known=False)
    assert [connections.enter("127.0.0.1") is None for _ in range(9)] == 8 * [False] + [True]
    assert closed == places[:8]


def test_who_showed_a_good_token_keeps_its_place() -> None:
    now = Now()
    connections = Connections(Bounds(16), now)
    closed: list[Place] = []
    known = answered(connections, closed, 10, known=True)
    for _ in range(3):
        for _ in range(100):
            if (place := connections.enter("127.0.0.1")) is not None:
                place.close = lambda place=place: closed.append(place)  # type: ignore[misc]
        now.s += SILENT_S
    assert closed
    assert not set(known) & set(closed)


def test_who_is_new_may_become_known_where_all_places_are_taken() -> None:
    connections = Connections(Bounds(16), Now())
    closed: list[Place] = []
    known = answered(connections, closed, 16, known=True)
    for _ in range(4):
        entered(connections, "127.0.0.1", closed)
    assert closed == known[:4]
    assert connections.enter("127.0.0.1") is None
    assert connections.refused["node"] == 1


def test_a_token_counts_that_came_with_the_last_request() -> None:
    connections = Connections(Bounds(16), Now())
    closed: list[Place] = []
    known = answered(connections, closed, 16, known=True)
    connections.answered(known[7], known=False)
    entered(connections, "127.0.0.1", closed)
    assert closed == [known[7]]


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
    now = Now()
    connections = Connections(Bounds(8 * SHARE), now)
    closed: list[Place] = []
    other = entered(connections, "10.0.0.9", closed)
    own = [entered(connections, "10.0.0.1", closed) for _ in range(connections.each)]
    assert connections.enter("10.0.0.1") is None
    assert connections.refused == {"address": 1}
    now.s += SILENT_S
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
    for _ in range(connections.size_max):
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
    now = Now()
    connections = Connections(Bounds(1), now)
    entered(connections, "127.0.0.1", [])
    now.s += SILENT_S
    entered(connections, "127.0.0.1", [])
    samples = {(s.name, s.labels.get("why")): s.value for m in connections.collect() for s in m.samples}
    assert samples["raftsched_http_connections", None] == 1
    assert samples["raftsched_http_connections_refused_total", "idle"] == 1
