"""What is said about nodes, pausing the cluster, and changes that are refused when something else changed meanwhile."""

from __future__ import annotations

import msgspec
import pytest

from raftsched.cluster_settings import Settings
from raftsched.core import commands as c
from raftsched.core.actions import ClusterPaused, NodeRuleChanged, QueueChanged, SettingsChanged
from raftsched.core.model import InstanceState as I
from raftsched.core.rows import decode_node_rule
from raftsched.core.subjects.cluster import NodeRule
from raftsched.core.subjects.queue import QueueLimits
from raftsched.core.tables import Table
from tests.support.memory_view import World, every


def rule(world: World, node: str) -> NodeRule | None:
    raw = world.view.get(Table.NODE_RULES, node.encode())
    return None if raw is None else msgspec.structs.replace(decode_node_rule(raw), revision=0)


def revision(world: World, node: str) -> int:
    raw = world.view.get(Table.NODE_RULES, node.encode())
    return 0 if raw is None else decode_node_rule(raw).revision


class TestRules:
    def test_the_newest_holds_and_one_of_defaults_is_none(self) -> None:
        world = World()
        world.ok(c.PutNodeRule("n2", drained=True))
        assert rule(world, "n2") == NodeRule(drained=True)
        assert world.actions == [NodeRuleChanged("n2")]
        world.ok(c.PutNodeRule("n2", slots=3, labels=(("zone", "b"), ("disk", "ssd"))))
        assert rule(world, "n2") == NodeRule(slots=3, labels=(("disk", "ssd"), ("zone", "b")))
        world.ok(c.PutNodeRule("n2"))
        assert rule(world, "n2") is None
        assert world.actions == [NodeRuleChanged("n2")]

    def test_a_revision_is_met_or_the_change_refused(self) -> None:
        world = World()
        assert world.refused(c.PutNodeRule("n2", True, if_revision=1)) == "stale-revision"
        world.ok(c.PutNodeRule("n2", True, if_revision=0))
        first = revision(world, "n2")
        assert world.refused(c.PutNodeRule("n2", slots=2, if_revision=0)) == "stale-revision"
        world.ok(c.PutNodeRule("n2", True, if_revision=first))  # no change: the revision stays
        assert revision(world, "n2") == first
        world.ok(c.PutNodeRule("n2", if_revision=first))
        assert revision(world, "n2") == 0
        world.ok(c.PutNodeRule("n2", True))
        assert revision(world, "n2") > first

    def test_no_labels_are_other_than_those_of_the_node(self) -> None:
        world = World()
        world.ok(c.PutNodeRule("n2", labels=()))
        assert rule(world, "n2") == NodeRule(labels=())

    def test_a_repeat_changes_nothing(self) -> None:
        world = World()
        labels = (("zone", "b"), ("disk", "ssd"))
        world.ok(c.PutNodeRule("n2", True, labels=labels))
        world.ok(c.PutNodeRule("n2", True, labels=labels[::-1]))
        assert world.actions == []
        world.ok(c.PutNodeRule("n1"))
        assert world.actions == []

    @pytest.mark.parametrize(
        "bad",
        [
            c.PutNodeRule("n2", slots=0),
            c.PutNodeRule("n2", slots=10_001),
            c.PutNodeRule("n2", slots=-(2**63)),
            c.PutNodeRule("n2", labels=(("", "x"),)),
            c.PutNodeRule("n2", labels=(("x" * 129, "x"),)),
            c.PutNodeRule("n2", labels=(("x", "x" * 257),)),
            c.PutNodeRule("n2", labels=(("x", "1"), ("x", "2"))),
            c.PutNodeRule("n2", labels=tuple((str(i), "") for i in range(33))),
        ],
    )
    def test_beyond_the_limits(self, bad: c.PutNodeRule) -> None:
        assert World().refused(bad) == "invalid-parameter"

    @pytest.mark.parametrize("name", ["n4", "", "N2", "n" * 600])
    def test_of_no_member(self, name: str) -> None:
        assert World().refused(c.PutNodeRule(name, drained=True)) == "no-such-member"

    def test_a_member_that_goes_takes_its_rule_along(self) -> None:
        world = World()
        world.ok(c.PutNodeRule("n2", drained=True))
        world.ok(c.PutNodeRule("n3", drained=True))
        actions = world.members("n1 n2").actions
        assert NodeRuleChanged("n3") in actions
        assert NodeRuleChanged("n2") not in actions
        assert (rule(world, "n2"), rule(world, "n3")) == (NodeRule(drained=True), None)
        world.members("n1 n2 n3")
        assert rule(world, "n3") is None

    def test_another_disk_does_not_undo_it(self) -> None:
        world = World()
        world.ok(c.PutNodeRule("n3", drained=True))
        world.members("n1 n2", "n3")
        assert rule(world, "n3") == NodeRule(drained=True)

    def test_what_was_read_has_to_hold_still(self) -> None:
        world = World()
        world.ok(c.PutNodeRule("n2", True, was=NodeRule()))
        assert world.refused(c.PutNodeRule("n2", True, 5, was=NodeRule())) == "stale"
        world.ok(c.PutNodeRule("n2", True, 5, was=NodeRule(drained=True)))
        assert rule(world, "n2") == NodeRule(drained=True, slots=5)


class TestPause:
    def test_nothing_is_fired_nor_assigned_and_what_runs_goes_on(self) -> None:
        world = World()
        session = world.session()
        first = world.run_now(world.create())
        job = world.create(every(1_000))
        world.assign(first, session)
        second = world.run_now(world.create())
        world.ok(c.PauseCluster(True))
        assert world.actions == [ClusterPaused(True)]
        assert world.meta.paused
        world.forward(1_000)
        assert job.nominal_at_ms is not None
        assert world.refused(c.Fire(job.id, 1, job.nominal_at_ms)) == "cluster-paused"
        assert world.refused(c.Assign(second, session)) == "cluster-paused"
        assert world.end(first).state is I.SUCCEEDED
        third = world.run_now(world.create())
        assert world.instance(third).state is I.WAITING
        world.ok(c.PauseCluster(False))
        assert world.actions == [ClusterPaused(False)]
        world.assign(second, session)
        world.fire(job)

    def test_a_repeat_changes_nothing(self) -> None:
        world = World()
        world.ok(c.PauseCluster(False))
        assert world.actions == []
        world.ok(c.PauseCluster(True))
        world.ok(c.PauseCluster(True))
        assert world.actions == []


def test_settings_that_were_changed_meanwhile() -> None:
    world = World()
    was = world.meta.settings
    more = msgspec.structs.replace(was, catch_up_max=7)
    world.ok(c.PutSettings(more, was))
    assert world.refused(c.PutSettings(Settings(catch_up_max=8), was)) == "stale"
    world.ok(c.PutSettings(Settings(catch_up_max=8), more))
    assert world.meta.settings.catch_up_max == 8
    assert world.actions == [SettingsChanged(Settings(catch_up_max=8))]


def test_a_queue_that_was_changed_meanwhile() -> None:
    world = World()
    assert world.refused(c.PutQueue("q", 1, was=QueueLimits())) == "stale"  # it is gone
    world.ok(c.PutQueue("q", 1, 5, 1_000))
    world.ok(c.PutQueue("q", 1, 5, 1_000, True, was=QueueLimits(1, 5, 1_000)))
    assert world.actions == [QueueChanged("q")]
    assert world.refused(c.PutQueue("q", 2, was=QueueLimits(1, 5, 1_000))) == "stale"
    world.ok(c.PutQueue("q", 2, was=QueueLimits(1, 5, 1_000, True)))
    assert world.refused(c.PutQueue("q", 2, if_none=True)) == "exists"
    world.ok(c.PutQueue("r", 2, if_none=True))
