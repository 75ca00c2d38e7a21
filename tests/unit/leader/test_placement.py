"""Who gets a run."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from raftsched.core.model import Policy, Trigger, TriggerKind
from raftsched.core.subjects.cluster import NodeRule, Session
from raftsched.leader.dispatch.placement import NodeLoad
from tests.unit.leader.house import place

ANY = Policy(trigger=Trigger(kind=TriggerKind.MANUAL))


def node(name: str, running: int = 0, slots: int = 10, **fields: Any) -> NodeLoad:
    load = {key: fields.pop(key) for key in ("scheduled", "leader", "rule") if key in fields}
    session = Session(
        id=ord(name[0]), node=name, boot_id="", nonce=b"", ttl_ms=5000, opened_at_ms=0, slots=slots, **fields
    )
    return NodeLoad(session, running, **load)


def placed(*nodes: NodeLoad, policy: Policy = ANY) -> str | None:
    found = place(nodes, policy)
    return None if found is None else found.session.node


def test_least_load_per_slot() -> None:
    assert placed(node("a", 2, 4), node("b", 3, 10)) == "b"


def test_ties_go_to_the_least_scheduled() -> None:
    assert placed(node("a", 1, scheduled=7), node("b", 1, scheduled=6)) == "b"


def test_above_twice_the_minimum_gets_nothing() -> None:
    """Though it has the least load per slot: what one may have more than others is bounded."""
    assert placed(node("a", 1, 4), node("b", 17, 100)) == "a"
    assert placed(node("a", 1, 4), node("b", 15, 100)) == "b"


def test_the_minimum_counts_as_one_at_least() -> None:
    assert placed(node("a", 0, 1), node("b", 2, 1000)) == "a"


def test_large_nodes_beside_many_small_workers_are_filled_alike() -> None:
    workers = [node(f"w{i}", 0, 8) for i in range(20)]
    large = [node(f"n{i}", 0, 32) for i in range(3)]
    for _ in range((20 * 8 + 3 * 32) // 2):
        found = place([*workers, *large], ANY)
        assert found is not None
        found.running += 1
        found.scheduled += 1
    assert {load.running for load in workers} == {4}
    assert {load.running for load in large} == {16}


def test_a_weighted_slot_counts_for_several() -> None:
    assert placed(node("a", 3, 10, weight=4), node("b", 1, 10)) == "a"
    assert placed(node("a", 5, 10, weight=4), node("b", 1, 10)) == "b"


SSD, FAST = ("disk", "ssd"), ("net", "fast")
PICKY = Policy(trigger=ANY.trigger, prefer=(SSD, FAST))


def test_who_carries_most_of_the_preferred_labels_comes_first() -> None:
    both, one, none = node("b", 9, labels=(SSD, FAST)), node("o", 5, labels=(SSD,)), node("n", 0)
    assert placed(none, one, both, policy=PICKY) == "b"
    assert placed(none, one, policy=PICKY) == "o"
    assert placed(node("x", 3, labels=(SSD,)), one, policy=PICKY) == "x"


def test_a_preference_is_no_reason_to_wait() -> None:
    assert placed(node("b", 10, labels=(SSD, FAST)), node("n", 9), policy=PICKY) == "n"
    assert placed(node("n", 9), policy=PICKY) == "n"


def test_who_only_votes_is_given_nothing() -> None:
    votes = node("v", 0, 0, rule=NodeRule(slots=4))
    assert placed(votes) is None
    assert placed(votes, node("a", 9, leader=True)) == "a"


def test_who_is_full_sets_no_limit_for_others() -> None:
    assert placed(node("a", 1, 1), node("b", 5, 100)) == "b"


def test_nobody_has_a_free_slot() -> None:
    assert placed(node("a", 1, 1), node("b", 4, 4), node("c", 0, 0), node("d", 5, 4)) is None


def test_the_leader_only_when_nobody_else_can() -> None:
    assert placed(node("a", leader=True), node("b", 9, 10)) == "b"
    assert placed(node("a", leader=True), node("b", 10, 10)) is None  # it can, it is only busy
    assert placed(node("a", leader=True)) == "a"
    exec_only = Policy(trigger=ANY.trigger, required_capability="exec")
    assert placed(node("a", leader=True, handlers=("exec",)), node("b"), policy=exec_only) == "a"


def test_handlers_and_labels() -> None:
    needy = Policy(trigger=ANY.trigger, required_capability="call:mail", node_labels=(("disk", "ssd"), ("zone", "b")))
    right = node("r", 9, 10, handlers=("exec", "call:mail"), labels=(("zone", "b"), ("disk", "ssd"), ("x", "y")))
    assert placed(node("a"), node("b", handlers=("call:mail",), labels=(("disk", "ssd"),)), right, policy=needy) == "r"
    assert placed(node("a"), policy=needy) is None


def test_what_is_said_about_a_node_goes_before_what_it_says() -> None:
    drained, plain = node("d", rule=NodeRule(drained=True)), node("p", 9)
    assert placed(drained, plain) == "p"
    assert placed(drained) is None
    assert placed(node("a", 3, 4, rule=NodeRule(slots=3)), node("b", 5, 10)) == "b"
    ssd = Policy(trigger=ANY.trigger, node_labels=(("disk", "ssd"),))
    given_it = node("g", rule=NodeRule(labels=(("disk", "ssd"),)))
    taken_from = node("t", labels=(("disk", "ssd"),), rule=NodeRule(labels=()))
    assert placed(given_it, taken_from, policy=ssd) == "g"


def test_the_leader_takes_over_from_who_is_drained() -> None:
    assert placed(node("a", leader=True), node("b", rule=NodeRule(drained=True))) == "a"


class TestAfterAFailure:
    def placed(self, *nodes: NodeLoad) -> str:
        found = place(nodes, ANY, avoid="b")
        assert found is not None
        return found.node

    def test_another_node_is_preferred(self) -> None:
        assert self.placed(node("a", 5), node("b", 0)) == "a"

    def test_though_it_has_twice_the_load(self) -> None:
        """A node on which everything fails at once is the least loaded one."""
        assert self.placed(node("a", 9), node("b", 0), node("c", 3)) == "c"
        assert self.placed(node("a", 9), node("b", 0)) == "a"

    def test_never_at_the_price_of_waiting(self) -> None:
        assert self.placed(node("a", 10), node("b", 0)) == "b"
        assert self.placed(node("b", 0)) == "b"

    def test_nor_is_the_leader_another_node_while_a_follower_can(self) -> None:
        assert self.placed(node("a", leader=True), node("b", 0)) == "b"


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(0, 5), st.booleans()), max_size=8))
def test_somebody_free_is_found(rows: list[tuple[int, int, int, bool]]) -> None:
    nodes = [node(chr(97 + i), running, slots, scheduled=s, leader=l) for i, (running, slots, s, l) in enumerate(rows)]
    found = place(nodes, ANY)
    candidates = [n for n in nodes if not n.leader and n.slots] or nodes
    free = [n for n in candidates if n.free > 0]
    assert (found is not None) == bool(free)
    if found is not None:
        assert found in free
        share = {n.node: n.running / min(8, n.slots / min(m.slots for m in free)) for n in free}
        assert share[found.node] <= 2 * max(1, min(share.values()))
