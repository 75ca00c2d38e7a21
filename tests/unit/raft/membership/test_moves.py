"""Members that are elsewhere than the configuration has them: who says so, who believes it, what becomes of it."""

from __future__ import annotations

import logging
import random
from pathlib import Path

import msgspec
import pytest

from raftsched.core.entry import encode_configuration
from raftsched.core.subjects.cluster import Member, Meta
from raftsched.raft import codec
from raftsched.raft.guards import ALL
from raftsched.raft.membership.configuration import Members
from raftsched.raft.membership.formation import Formation
from raftsched.raft.membership.moves import Moves, moved
from tests.support.raft_replica import Solo, disk, hello
from tests.unit.raft.house import Leader, members

DISKS = {name: disk(name) for name in "abc"}
ELSEWHERE = "127.0.0.1:9001"


def address(node: str) -> str:
    return f"127.0.0.1:{4000 + ord(node)}"


def at(members: Members, node: str) -> str:
    return next(member.raft for member in members if member.node == node)


def moves(own: str = address("b"), **told: str) -> Moves:
    made = Moves("b", {"b": own, **told})
    made.begin(1)
    made.follow(members("abc"))
    return made


def says(node: str, raft: str, start: int = 1, **changes: object) -> codec.Hello:
    base = {"formed": True, "remembered": DISKS, "raft": raft, "incarnation": start}
    return hello(node, **{**base, **changes})


# ---------------------------------------------------------------- announcements


def test_a_member_says_itself_where_it_is() -> None:
    b = moves()
    assert not b.heard(says("a", address("a")), DISKS) or b.of("a") is None
    assert b.heard(says("a", ELSEWHERE, 2), DISKS)
    assert b.of("a") == ELSEWHERE
    assert not b.heard(says("a", ELSEWHERE, 2), DISKS), "no news"
    assert b.announced()["a"] == (2, ELSEWHERE)
    b.follow((Member("a", ELSEWHERE, disk("a")), *members("bc")))
    assert b.of("a") is None


def test_where_a_member_is_goes_on_to_those_whose_configuration_does_not_say_so() -> None:
    b = moves()
    b.heard(says("a", ELSEWHERE, 2), DISKS)
    b.follow((Member("a", ELSEWHERE, disk("a")), *members("bc")))
    assert b.announced() == {"a": (2, ELSEWHERE), "b": (1, address("b"))}, "another member may be behind"


def test_a_member_that_has_not_applied_the_formation_yet_is_believed() -> None:
    b = moves()
    assert b.heard(says("a", ELSEWHERE, 2, formed=False, moved={"c": (3, "127.0.0.1:9002")}), DISKS)
    assert (b.of("a"), b.of("c")) == (ELSEWHERE, "127.0.0.1:9002")


def test_others_pass_on_where_a_member_is_and_its_latest_start_counts() -> None:
    b = moves()
    assert b.heard(says("a", address("a"), moved={"c": (5, ELSEWHERE)}), DISKS)
    assert b.of("c") == ELSEWHERE
    b.heard(says("a", address("a"), moved={"c": (4, "127.0.0.1:9002")}), DISKS)
    assert b.of("c") == ELSEWHERE, "of an earlier start"
    b.heard(says("c", address("c"), 6), DISKS)
    assert b.of("c") is None, "it is back"
    b.heard(says("a", address("a"), moved={"c": (5, ELSEWHERE)}), DISKS)
    assert b.of("c") is None


@pytest.mark.parametrize(
    "told",
    [
        says("a", ELSEWHERE, store_id=b"another disk of a"),
        says("a", address("a"), moved={"c": (5, ELSEWHERE)}, remembered={**DISKS, "c": b"another disk of c"}),
        says("a", address("a"), moved={"b": (5, ELSEWHERE)}),
        says("a", address("a"), moved={"x": (5, ELSEWHERE)}),
        says("a", address("a"), moved={"c": (5, "no address")}),
        says("a", address("a"), moved={f"c{n}": (5, ELSEWHERE) for n in range(100)} | {"c": (5, ELSEWHERE)}),
        says("x", ELSEWHERE),
    ],
    ids=["another disk", "of another disk", "this node", "no member", "no address", "too many", "a stranger"],
)
def test_what_is_not_believed(told: codec.Hello) -> None:
    b = moves()
    b.heard(told, DISKS)
    assert [node for node in ("a", "b", "c", "x") if b.of(node)] == []
    assert ELSEWHERE not in [raft for _, raft in b.announced().values()]


def test_another_disk_under_the_name_is_where_the_configuration_has_it() -> None:
    b = moves()
    b.heard(says("a", ELSEWHERE), DISKS)
    b.follow((Member("a", address("a"), b"another disk of a"), *members("bc")))
    assert b.of("a") is None


def test_a_member_is_looked_for_where_it_is_said_to_be_and_where_this_node_was_told() -> None:
    b = moves(a="10.0.0.1:7501", c=address("c"))
    b.heard(says("a", address("a"), moved={"c": (2, ELSEWHERE)}), DISKS)
    wanted = {"a": address("a"), "c": address("c")}
    assert b.elsewhere(wanted) == [("a", "10.0.0.1:7501"), ("c", ELSEWHERE)]


def test_a_node_says_where_it_is_and_what_to_do() -> None:
    assert moves().advice is None
    says = moves(ELSEWHERE).advice
    assert says is not None
    assert ELSEWHERE in says
    assert address("b") in says
    assert "--peers" in says
    beyond = Moves("b", {"b": ELSEWHERE})
    beyond.follow(tuple(Member(n, f"10.0.0.{ord(n)}:7501", disk(n)) for n in "abc"))
    says = beyond.advice
    assert says is not None
    assert "--advertise-raft" in says


# ---------------------------------------------------------------- the configuration


def test_only_an_address_changes() -> None:
    before = members("ab", "c")
    after = moved(before, [("a", address("a")), ("c", ELSEWHERE), ("b", "127.0.0.1:9002")])
    assert after is not None
    assert [(m.node, m.store_id, m.voter) for m in after] == [(m.node, m.store_id, m.voter) for m in before]
    assert [m.raft for m in after] == [address("a"), address("b"), ELSEWHERE], "one at a time"
    assert moved(before, [("x", ELSEWHERE), ("a", ""), ("b", address("b"))]) is None


def test_the_address_of_another_member_is_taken_only_when_that_one_is_not_there() -> None:
    before = members("abc")
    a, b, c = (address(node) for node in "abc")
    assert moved(before, [("a", a), ("b", c), ("c", c)]) is None, "a mistake"
    assert moved(before, [("c", c), ("b", c)]) is None
    after = moved(before, [("a", a), ("b", c)])
    assert after is not None
    assert at(after, "b") == c, "c may never come back"
    after = moved(before, [("a", a), ("b", c), ("c", b)])
    assert after is not None
    assert at(after, "b") == c
    after = moved(after, [("a", a), ("b", c), ("c", b)])
    assert after is not None
    assert (at(after, "b"), at(after, "c")) == (c, b), "they have changed places"
    said = moves(c).advice
    assert said is not None
    assert "they have c" in said


def test_an_address_that_only_its_own_machine_reaches_is_not_taken() -> None:
    apart = tuple(Member(n, f"10.0.0.{ord(n)}:7501", disk(n)) for n in "abc")
    assert moved(apart, [("a", "127.0.0.1:7501")]) is None
    assert moved(apart, [("a", "localhost:7501")]) is None
    assert moved(apart, [("a", "n1.example:7501")]) is not None
    assert moved(apart[:1], [("a", "127.0.0.1:7501")]) is not None, "nobody else is there"


def here(b: Leader, node: str) -> str:
    return at(b.engine.membership.current, node)


def test_a_leader_notes_where_members_are_one_after_the_other(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    last = b.journal.last_index
    b.replica.connected(says("a", ELSEWHERE), 1)
    b.replica.connected(says("c", "127.0.0.1:9002"), 1)
    b.pass_time(0.1)
    assert here(b, "a") == ELSEWHERE
    assert here(b, "c") != "127.0.0.1:9002", "the first one is not committed"
    b.acknowledge("a")
    b.pass_time(0.1)
    b.acknowledge("c")
    b.pass_time(0.1)
    assert here(b, "c") == "127.0.0.1:9002"
    assert b.voters == "abc"
    assert b.journal.last_index == last + 2, "and nothing more"
    assert not b.engine.membership.pending


def test_a_new_leader_waits_for_its_opening_entry(tmp_path: Path) -> None:
    b = Leader(tmp_path)
    b.replica.connected(says("a", ELSEWHERE), 1)
    b.pass_time(0.1)
    assert here(b, "a") != ELSEWHERE
    b.acknowledge("a")
    b.pass_time(0.1)
    assert here(b, "a") == ELSEWHERE


def test_a_leader_notes_where_it_is_itself(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    own = b.replica.formation.moves.own
    before = b.engine.membership.current
    b.engine.append(encode_configuration(1, moved(before, [("b", ELSEWHERE)]) or ()))
    b.acknowledge("a")
    assert here(b, "b") == ELSEWHERE
    b.pass_time(0.1)
    assert here(b, "b") == own


def test_who_is_no_member_with_its_disk_changes_no_address(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    before = b.engine.membership.current
    b.replica.connected(says("a", ELSEWHERE, store_id=b"another disk of a"), 1)
    b.pass_time(0.1)
    assert b.engine.membership.current == before


def test_what_came_to_nothing_is_noted_by_the_next_leader(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    b.replica.connected(says("a", ELSEWHERE), 1)
    b.pass_time(0.1)
    assert b.replica.formation.addresses["a"] == ELSEWHERE
    b.engine.membership.truncated(b.journal.last_index)
    assert b.replica.formation.addresses["a"] == address("a")
    assert b.replica.formation.moves.of("a") == ELSEWHERE


# ---------------------------------------------------------------- who tells whom


def test_news_goes_to_all_that_are_connected(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    b.replica.connected(hello("c"), 1)
    b.settle()
    b.take(codec.Hello)
    b.replica.connected(says("a", ELSEWHERE, 3), 1)
    b.settle()
    told = b.take(codec.Hello)
    assert told
    assert all(frame.moved["a"] == (3, ELSEWHERE) for frame in told)
    b.feed("a", says("a", ELSEWHERE, 3))
    assert b.take(codec.Hello) == [], "no news"


def test_a_node_that_has_not_applied_the_formation_yet_passes_news_on(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    assert not b.replica.formation.formed
    b.take(codec.Hello)
    b.replica.connected(says("a", ELSEWHERE, 3), 2)
    b.settle()
    assert [frame.moved["a"] for frame in b.take(codec.Hello, "c")] == [(3, ELSEWHERE)]
    assert b.replica.formation.moves.of("a") == ELSEWHERE


def test_a_node_that_forms_a_cluster_passes_on_where_the_others_are(tmp_path: Path) -> None:
    b = Solo(tmp_path, is_member=False)
    b.replica.connected(hello("a", raft=ELSEWHERE), 1)
    b.replica.connected(hello("c", raft=address("c")), 1)
    b.settle()
    assert b.replica.formation.is_member
    assert b.take(codec.Hello, "c")[0].moved["a"] == (1, ELSEWHERE)
    assert b.replica.formation.moves.of("a") == ELSEWHERE


def test_what_a_node_cannot_judge_yet_is_passed_on_once_the_log_lets_it(tmp_path: Path) -> None:
    """Whose disk it is a configuration says that comes later than the hello."""
    b = Solo(tmp_path, node="d", peers="abcd", is_member=False)
    for peer in "ac":
        b.replica.connected(says(peer, address(peer)), 1)
    b.feed("a", says("a", address("a"), moved={"c": (3, ELSEWHERE)}))
    b.take(codec.Hello)
    b.engine.membership.appended(1, (*members("abc"), Member("d", address("d"), b.replica.formation.store_id)))
    assert b.sent == [], "it is in the midst of an append"
    b.settle()
    assert [frame.moved["c"] for frame in b.take(codec.Hello, "c")] == [(3, ELSEWHERE)]


def test_a_node_says_at_its_start_that_it_was_moved(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    apart = Formation("b", {**{n: address(n) for n in "ac"}, "b": ELSEWHERE}, "", random.Random(), ALL)
    own = {"store_id": disk("b"), "remembered": msgspec.msgpack.encode(DISKS), "node_id": b"b"}
    apart.load(own.get, Meta(cluster_id=b"1" * 16, members=members("abc")))
    apart.follow(members("abc"), 1)
    said = apart.hello(False)
    assert said.raft == ELSEWHERE
    assert said.moved["b"] == (1, ELSEWHERE)
    assert said.addresses["b"] == address("b")
    b = Leader(tmp_path).opened()
    with caplog.at_level(logging.WARNING):
        Solo(tmp_path, store=b.store, at=address("b"))
        assert caplog.messages == [], "it is where it is known to be"
        Solo(tmp_path, store=b.store, at=ELSEWHERE)
    assert [text for text in caplog.messages if ELSEWHERE in text and address("b") in text] == caplog.messages != []


# ---------------------------------------------------------------- the times of elections


def test_a_node_says_when_another_one_begins_elections_at_another_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    b = Solo(tmp_path)
    own = b.replica.options.election_min_ms
    assert b.replica.hello().election_ms == own
    with caplog.at_level(logging.WARNING):
        for told in (0, own):
            b.replica.connected(hello("a", election_ms=told), 1)
        assert caplog.messages == []
        for _ in range(2):
            b.replica.connected(hello("a", election_ms=2_000), 1)
    assert len(caplog.messages) == 1
    assert "a was started with --election-timeout 2s, and b with 300ms" in caplog.messages[0]
