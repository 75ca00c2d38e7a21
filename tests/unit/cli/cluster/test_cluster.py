"""`raftsched cluster` against a stub of the API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from raftsched.cli.cluster import members
from raftsched.cli.main import cli
from raftsched.lost_majority import ELSE
from tests.support.stub_server import Reply, Request, problem, serve

MEMBERS = "/v1/cluster/members"
NEW = {"id": "n4", "raft": "10.0.0.4:7501", "http": "10.0.0.4:7401", "store": "4a" * 16, "why": "new"}
OTHER_DISK = {"id": "n3", "raft": "10.0.0.3:7501", "http": "10.0.0.3:7401", "store": "3b" * 16, "why": "other-disk"}


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, args)


def node(name: str, **changes: Any) -> dict[str, Any]:
    known = {"id": name, "role": "follower", "voter": True, "raft": f"127.0.0.1:750{name[1:]}", "alive": True,
             "http": f"127.0.0.1:740{name[1:]}", "applied_index": 5, "commit_index": None, "lag": 0,
             "clock_offset_ms": None, "running": 1, "slots": 8, "version": "0.1.0"}  # fmt: skip
    return {**known, **changes}


def page(*nodes: dict[str, Any], leader: str | None = "n1", **changes: Any) -> dict[str, Any]:
    known = {"node": "n1", "leader": leader, "term": 3, "waits_for": None, "nodes": list(nodes), "waiting": []}
    return {**known, **changes}


def listed(*nodes: dict[str, Any]) -> dict[str, Any]:
    return {"items": list(nodes), "waiting": [], "next": None}


def test_status() -> None:
    three = page(node("n1", commit_index=5, role="leader"), node("n2"), node("n3", voter=False), waiting=[NEW])
    with serve(lambda r: (200, three)) as stub:
        result = run("--server", stub.url, "cluster", "status")
    lines = result.output.splitlines()
    assert lines[0] == "n1 leads, term 3, 5 entries committed, 2 voting, 1 catching up"
    assert "1/8" in result.output
    assert [line.split()[2] for line in lines[2:5]] == ["yes", "yes", "no"]
    assert "store 4a4a4a4a" in lines[-1]
    assert lines[-1].endswith("raftsched cluster members add n4")


def test_status_without_a_leader() -> None:
    alone = page(node("n1", http=None), leader=None, waits_for="n1 was removed from the cluster. Stop it.")
    with serve(lambda r: (200, alone)) as stub:
        lines = run("--server", stub.url, "cluster", "status").output.splitlines()
    assert lines[:2] == ["no leader at the moment", "n1 says: n1 was removed from the cluster. Stop it."]


def test_how_much_room_the_disks_have() -> None:
    disk = {"free": 3 << 30, "total": 9 << 30, "store": 1, "output": 1}
    with serve(lambda r: (200, page(node("n1", role="leader", commit_index=1, disk=disk), node("n2")))) as stub:
        lines = run("--server", stub.url, "cluster", "status").output.splitlines()
    assert [("3.2 GB" in line, line.split()[-2]) for line in lines[2:]] == [(True, "GB"), (False, "-")]


def test_terms() -> None:
    items = [{"term": 7, "leader": "n2", "at": "2030-01-01T00:00:00Z", "index": 12}]
    with serve(lambda r: (200, {"items": items, "next": None})) as stub:
        result = run("--server", stub.url, "cluster", "terms")
        assert stub.requests[0].path == "/v1/cluster/terms"
        assert run("--server", stub.url, "cluster", "terms", "-o", "name").output == "7\n"
    assert result.output.splitlines()[1].split() == ["7", "n2", "2030-01-01T00:00:00Z", "12"]


@pytest.mark.parametrize("words", [["members"], ["members", "list"]])
def test_members_are_listed(words: list[str]) -> None:
    answer = {**listed(node("n1"), node("n3", voter=False, lag=17)), "waiting": [OTHER_DISK]}
    with serve(lambda r: (200, answer)) as stub:
        result = run("--server", stub.url, "cluster", *words)
        assert result.output.splitlines()[2].split() == [*("n3", "no", "127.0.0.1:7503", "127.0.0.1:7403", "yes", "17")]
        assert result.output.splitlines()[-1].endswith("raftsched cluster members replace n3")
        assert json.loads(run("--server", stub.url, "cluster", *words, "-o", "json").output) == answer
        assert run("--server", stub.url, "cluster", *words, "-o", "name").output == "n1\nn3\n"


def test_a_member_that_moved_is_shown_with_both_addresses() -> None:
    nodes = [
        node("n1", role="leader", commit_index=5),
        node("n3", raft="10.0.0.3:7501", raft_announced="10.0.0.9:7501"),
    ]
    for words, answer in ((["cluster", "members"], listed(*nodes)), (["cluster", "status"], page(*nodes))):
        with serve(lambda r, answer=answer: (200, answer)) as stub:  # type: ignore[misc]
            said = run("--server", stub.url, *words).output
        assert "n3 says that its Raft port is at 10.0.0.9:7501" in said
        assert "10.0.0.3:7501. The leader takes that over" in said
        assert "'raftsched doctor --only moved' says what may be wrong" in said


def test_a_member_whose_disk_went_back_is_told_with_what_to_do() -> None:
    answer = {**listed(node("n1")), "waiting": [{**OTHER_DISK, "why": "disk-went-back"}]}
    with serve(lambda r: (200, answer)) as stub:
        lines = run("--server", stub.url, "cluster", "members").output.splitlines()
    assert "disk went back to an earlier state" in lines[-3]
    assert "empty data directory" in lines[-2]
    assert lines[-2].endswith("raftsched cluster members replace n3")
    assert lines[-1].strip() == f"That needs a majority of the members. {ELSE}"


def lost(*unfit: str) -> dict[str, Any]:
    """What n1 says, which alone has its disk."""
    waiting = [{**OTHER_DISK, "id": name} for name in unfit]
    rows = [node("n1", http=None), *(node(name, http=None, alive=False, applied_index=None) for name in unfit)]
    return page(*rows, leader=None, waits_for="No leader, and none can come.", waiting=waiting)


def test_where_a_majority_is_lost_no_change_of_the_members_is_asked_for_again() -> None:
    def answer(request: Request) -> Reply:
        if request.method == "GET":
            return 200, lost("n2", "n3")
        return problem(503, "no-leader", "No leader at the moment.")

    for words in (["replace", "n2", "--wait"], ["remove", "n2"]):
        with serve(answer) as stub:
            result = run("--server", stub.url, "cluster", "members", *words)
        assert result.exit_code == 6
        assert "the disks of n2, n3 are lost" in result.stderr
        assert "n1 has most, up to entry 5; what n2, n3 has is not known" in result.stderr
        assert "  raftsched cluster members add n2 --wait" in result.stderr
    with serve(answer) as stub:
        said = run("--server", stub.url, "cluster", "status").output
    assert "cluster backup --local" in said
    assert "members replace" not in said


def test_what_is_the_same_is_said_again_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "_LOOK_S", 0)
    monkeypatch.setattr(members, "_SAY_AGAIN_S", 0)
    with serve(lambda r: problem(409, "not-waiting", "No node 'n4' asks to be let in.")) as stub:
        result = run("--server", stub.url, "cluster", "members", "add", "n4", "--wait", "--timeout", "0.3")
    assert result.stdout.splitlines().count("No node 'n4' asks to be let in.") > 1


def test_add_and_replace_say_what_they_ask_for() -> None:
    with serve(lambda r: (202, node("n4", voter=False))) as stub:
        result = run("--server", stub.url, "cluster", "members", "add", "n4")
        assert result.output == "n4 is let in; it catches up, and votes by itself then\n"
        run("--server", stub.url, "cluster", "members", "replace", "n3", "--store", "3b" * 16)
        assert [(r.method, r.path, r.json) for r in stub.requests] == [
            ("POST", MEMBERS, {"id": "n4"}),
            ("POST", MEMBERS, {"id": "n3", "replace": True, "store": "3b" * 16}),
        ]
    with serve(lambda r: (202, node("n4"))) as stub:
        assert run("--server", stub.url, "cluster", "members", "add", "n4").output == "n4 votes\n"


def script(*answers: Reply) -> Iterator[Reply]:
    yield from answers
    raise AssertionError("asked too often")


def test_wait_goes_on_until_it_votes_and_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "_LOOK_S", 0)
    monkeypatch.setattr(members, "_SAY_S", 0)
    answers = script(
        problem(409, "not-waiting", "No node 'n4' asks to be let in."),
        problem(409, "membership-busy", "n5 is still catching up."),
        problem(503, "no-leader", "No leader at the moment."),
        (202, node("n4", voter=False)),
        (200, listed(node("n1"))),
        (200, listed(node("n4", voter=False, alive=False, lag=900))),
        (200, listed(node("n4", voter=False, lag=900))),
        (200, listed(node("n4", voter=False, lag=900))),
        problem(503, "no-leader", "No leader at the moment."),
        (200, listed(node("n4", voter=False, lag=3))),
        (200, listed(node("n4"))),
    )
    status = page(node("n1", http=None), leader=None)
    with serve(lambda r: (200, status) if r.path == "/v1/cluster" else next(answers)) as stub:
        result = run("--server", stub.url, "cluster", "members", "add", "n4", "--wait")
        assert [r.method for r in stub.requests if r.path != "/v1/cluster"] == ["POST"] * 4 + ["GET"] * 7
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "No node 'n4' asks to be let in.",
        "n5 is still catching up.",
        "No leader at the moment.",
        "n4 is not seen among the members yet",
        "n4 is let in, but not connected; is it running?",
        "n4 catches up: 900 entries behind",
        "No leader at the moment.",
        "n4 catches up: 3 entries behind",
        "n4 votes",
    ]


def test_wait_ends_where_waiting_does_not_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "_LOOK_S", 0)
    with serve(lambda r: problem(409, "not-possible", "n3 is a member with another disk; replace it instead.")) as stub:
        result = run("--server", stub.url, "cluster", "members", "add", "n3", "--wait")
        assert (result.exit_code, len(stub.requests)) == (4, 1)
        assert "replace it instead" in result.stderr

    def never(request: Request) -> Reply:
        return problem(409, "not-waiting", "No node 'n4' asks to be let in.")

    with serve(never) as stub:
        result = run("--server", stub.url, "cluster", "members", "add", "n4", "--wait", "--timeout", "0.1")
    assert result.exit_code == 7
    assert "n4 does not vote after 0.1 s: No node 'n4' asks to be let in." in result.stderr


def test_remove_and_transfer() -> None:
    def answer(request: Request) -> Reply:
        return (204, None) if request.method == "DELETE" else (200, {"leader": "n2", "term": 4})

    with serve(answer) as stub:
        assert run("--server", stub.url, "cluster", "members", "remove", "n4").output.startswith("n4 is no member")
        assert run("--server", stub.url, "cluster", "transfer").output == "n2 leads, term 4\n"
        assert run("--server", stub.url, "cluster", "transfer", "--to", "n2").output == "n2 leads, term 4\n"
        assert [(r.method, r.path) for r in stub.requests] == [
            ("DELETE", f"{MEMBERS}/n4"),
            ("POST", "/v1/cluster/leader"),
            ("POST", "/v1/cluster/leader"),
        ]
        assert [r.json for r in stub.requests[1:]] == [{}, {"to": "n2"}]


@pytest.mark.parametrize(
    "words", [["add", "N4"], ["remove", "../leader"], ["replace", "n3", "--store", "3b3b"], ["add"]]
)
def test_what_is_no_node_is_not_asked_for(words: list[str]) -> None:
    with serve(lambda r: (200, {})) as stub:
        assert run("--server", stub.url, "cluster", "members", *words).exit_code == 2
        assert not stub.requests


@pytest.mark.parametrize(
    ("levels", "held", "words"),
    [
        ((4, 4, 4), False, "of level 4: the newest of all nodes."),
        ((4, 4, None), False, "of level 4: no node knows a later one. Not heard: n3"),
        ((5, 4, None), False, "it rises when all nodes know more. Until then nodes can go back. Missing: n2, n3"),
        ((5, 5, 5), True, "it is held, and nodes can go back. It rises after: raftsched cluster upgrade --no-hold"),
        ((5, 5, 6), False, "it rises now, and no node can go back from then on."),
    ],
)
def test_how_far_an_upgrade_is(levels: tuple[int | None, ...], held: bool, words: str) -> None:
    nodes = [node(f"n{i}", level=level) for i, level in enumerate(levels, 1)]
    with serve(lambda r: (200, page(*nodes, level=4, level_held=held))) as stub:
        result = run("--server", stub.url, "cluster", "upgrade")
    assert result.output.splitlines()[-1].endswith(words)
    assert [line.split()[2] for line in result.output.splitlines()[1:4]] == [str(n or "-") for n in levels]


def test_a_node_of_an_earlier_version_knows_of_no_levels() -> None:
    with serve(lambda r: (200, page(node("n1")))) as stub:
        result = run("--server", stub.url, "cluster", "upgrade")
    assert result.exit_code == 0
    assert result.output.splitlines()[-1].startswith("n1 has a version that knows of no levels")


def test_an_upgrade_is_held_and_let_go() -> None:
    asked: list[Request] = []

    def answer(request: Request) -> Reply:
        asked.append(request)
        return 200, page(node("n1", level=4), level=4, level_held=True)

    with serve(answer) as stub:
        for flag in ("--hold", "--no-hold"):
            assert run("--server", stub.url, "cluster", "upgrade", flag).exit_code == 0
    changes = [(r.method, r.path, json.loads(r.body)) for r in asked if r.method == "PATCH"]
    assert changes == [("PATCH", "/v1/cluster/settings", {"upgrade_hold": held}) for held in (1, 0)]
