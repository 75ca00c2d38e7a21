"""A majority is lost when those with their disks can be none any more; who has most is known then."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.lost_majority import Has, lost_majority, no_majority

WENT_BACK, OTHER = "disk-went-back", "other-disk"


def view(node: str, applied: int | None, leader: str | None = None, **waiting: str) -> dict[str, Any]:
    rows = [
        {"id": name, "voter": True, "http": f"{name}:7401", "raft": f"{name}:7501",
         "applied_index": applied if name == node else None}
        for name in ("n1", "n2", "n3")
    ]  # fmt: skip
    asking = [{"id": name, "why": why.replace("_", "-")} for name, why in waiting.items()]
    return {"node": node, "leader": leader, "formed": True, "nodes": rows, "waiting": asking}


@pytest.mark.parametrize(
    "voters, unfit, lost",
    [
        ("abc", "", False),
        ("abc", "a", False),
        ("abc", "ab", True),
        ("abc", "ad", False),
        ("ab", "a", True),
        ("a", "", False),
        ("abcde", "ab", False),
        ("abcde", "abc", True),
        ("abcd", "ab", True),
        ("", "", False),
    ],
)
def test_half_of_the_voters_are_no_majority(voters: str, unfit: str, lost: bool) -> None:
    assert no_majority(voters, unfit) is lost


def test_the_node_that_has_most_is_named_with_what_saves_it() -> None:
    lost = lost_majority([view("n1", 12), view("n2", 13), view("n3", 17, n1=WENT_BACK, n2=OTHER)])
    assert lost is not None
    assert lost.says.startswith("the disks of n1, n2 are lost, or went back to an earlier state: no majority of")
    assert lost.most == "n3 has most, up to entry 17 (n1 12, n2 13)"
    commands = [line.strip() for line in lost.steps() if line.startswith("  ")]
    assert commands[0] == "raftsched --server n3:7401 cluster backup --local raftsched.backup"
    assert commands[2].endswith("--log OLD --data DIR --id n3 --raft n3:7501")
    assert [line.split()[-2] for line in commands[3:]] == ["n1", "n2"]


def test_who_went_back_may_have_most() -> None:
    """The one whose disk is as it was had been down for a day."""
    lost = lost_majority([view("n3", 5, n1=WENT_BACK, n2=WENT_BACK), view("n1", 12)])
    assert lost is not None
    assert lost.most == "n1 has most, up to entry 12 (n3 5); what n2 has is not known"
    assert lost_majority([view("n3", 9, n1=OTHER, n2=OTHER)], {"n1": Has(9)}).best == "n3"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "others, best, says",
    [
        ({"n4": (100, 105, 4), "n5": (100, 101, 4)}, "n4", "n4 has most, up to entry 105 (n5 101)"),
        ({"n4": (99, 110, 4), "n5": (100, 105, 4)}, "n4", "n4 has most, up to entry 110 (n5 105)"),
        ({"n4": (99, 101, 5), "n5": (99, 105, 4)}, "n4", "n4 has most, up to entry 101 of term 5 (n5 105 of term 4)"),
        ({"n4": (99, 0, 0), "n5": (100, 105, 4)}, "n5", "n5 has most, up to entry 100 (n4 99)"),  # of two versions
    ],
)
def test_the_log_may_have_what_is_not_applied_yet(
    others: dict[str, tuple[int, int, int]], best: str, says: str
) -> None:
    """Three of five lost their disks with the power: what was acknowledged with one of the two that are left is in its
    log, and it had not heard of the commit."""
    names = ["n1", "n2", "n3", "n4", "n5"]
    lost = [{"id": name, "why": OTHER} for name in names[:3]]
    views = []
    for node, (applied, index, term) in others.items():
        rows: list[dict[str, Any]] = [{"id": name, "voter": True, "http": f"{name}:7401"} for name in names]
        own = rows[names.index(node)]
        own.update(applied_index=applied, **({"log_index": index, "log_term": term} if index else {}))
        views.append({"node": node, "leader": None, "formed": True, "nodes": rows, "waiting": lost})
    found = lost_majority(views)
    assert found is not None
    assert (found.best, found.most.split(";")[0]) == (best, says)
    known = {node: Has(*has) for node, has in others.items()}
    for view in views:
        assert lost_majority([view], known).best == best  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "views",
    [
        [],
        [view("n3", 17)],
        [view("n3", 17, n1=WENT_BACK)],
        [view("n3", 17, n4="new", n5="new")],
        [view("n3", 17, n1=OTHER, n2=OTHER, leader="n3")],
        [view("n3", 17, n1=OTHER, n2=OTHER), view("n1", 12, leader="n1")],
        [view("n3", 17, n1=WENT_BACK), view("n1", 12, n3=OTHER)],  # of the time before n3 got another disk
    ],
)
def test_nothing_is_said_where_a_leader_may_come(views: list[dict[str, Any]]) -> None:
    assert lost_majority(views) is None


def test_an_empty_disk_has_nothing() -> None:
    empty = {**view("n1", 0), "formed": False}
    lost = lost_majority([empty, view("n3", 17, n1=OTHER, n2=OTHER)])
    assert lost is not None
    assert set(lost.has) == {"n3"}
