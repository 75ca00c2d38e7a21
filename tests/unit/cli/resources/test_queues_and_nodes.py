"""`raftsched queues`, `nodes`, and the parts of `cluster` that hold for all of it, against a stub of the API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from raftsched.cli.main import cli
from raftsched.cli.resources import nodes
from tests.support.stub_server import Reply, Request, Stub, problem, serve

QUEUE = {"name": "reports", "max_running": 3, "rate": {"count": 10, "per": "1m"}, "paused": False, "running": 3,
         "waiting": 10_000, "waiting_exact": False, "shut": "full", "created_at": "2026-11-20T11:00:00Z",
         "modified_at": "2026-11-20T11:00:00Z"}  # fmt: skip
FREE = {**QUEUE, "name": "mails", "max_running": None, "rate": None, "running": 0, "waiting": 0, "waiting_exact": True,
        "shut": None}  # fmt: skip
NODE = {"id": "n2", "role": "follower", "voter": True, "alive": True, "http": "10.0.0.2:7401", "raft": "10.0.0.2:7501",
        "version": "0.1.0", "drained": False, "running": 1, "slots": 4, "own_slots": 8, "labels": {"zone": "b"},
        "own_labels": {}, "handlers": ["exec", "http"],
        "session": {"id": 7, "open": True, "opened_at": "2026-11-20T11:00:00Z"},
        "last_heartbeat_at": "2026-11-20T12:00:00Z"}  # fmt: skip
SETTINGS = {"session_ttl": "5s", "timeout_ceiling": "1d", "backfill_max": 1_000}
GONE = problem(404, "not-found", 'The queue "mails" has no limits; PUT to it to give it some.')


def run(stub: Stub | None, *args: str) -> Result:
    return CliRunner().invoke(cli, [*(("--server", stub.url) if stub else ()), *args])


def sent(stub: Stub) -> list[tuple[str, str, Any]]:
    return [(r.method, r.path, r.json if r.body else None) for r in stub.requests]


class TestQueues:
    def test_list(self) -> None:
        with serve(lambda r: (200, {"items": [QUEUE, FREE], "next": None})) as stub:
            lines = run(stub, "queues", "list").output.splitlines()
            assert run(stub, "queues", "list", "-o", "name").output == "reports\nmails\n"
            assert json.loads(run(stub, "queues", "list", "-o", "json").output) == {
                "items": [QUEUE, FREE],
                "next": None,
            }
        assert lines[1].split() == ["reports", "3", "at", "one", "time,", "10/1m", "no", "3", "10000+", "full"]
        assert lines[2].split() == ["mails", "-", "no", "0", "0", "-"]
        with serve(lambda r: (200, {"items": [], "next": None})) as stub:
            result = run(stub, "queues", "list")
        assert (result.stdout, result.stderr) == ("", "no queue has limits\n")

    def test_get(self) -> None:
        with serve(lambda r: (200, QUEUE)) as stub:
            lines = run(stub, "queues", "get", "reports").output.splitlines()
            assert json.loads(run(stub, "queues", "get", "reports", "-o", "json").output) == QUEUE
        assert ["rate", "10/1m"] in [line.split() for line in lines]
        assert ["waiting", "10000+"] in [line.split() for line in lines]
        with serve(lambda r: GONE) as stub:
            assert run(stub, "queues", "get", "mails").exit_code == 3

    @pytest.mark.parametrize(
        ("options", "change"),
        [
            (["--max-running", "3"], {"max_running": 3}),
            (["--rate", "10/1m"], {"rate": {"count": 10, "per": "1m"}}),
            (["--rate", "10/m"], {"rate": {"count": 10, "per": "1m"}}),
            (["--rate", "10/PT1H"], {"rate": {"count": 10, "per": "PT1H"}}),
            (["--rate", "none", "--max-running", "none"], {"max_running": None, "rate": None}),
        ],
    )
    def test_set_changes_what_is_named(self, options: list[str], change: dict[str, Any]) -> None:
        with serve(lambda r: (200, QUEUE)) as stub:
            result = run(stub, "queues", "set", "reports", *options)
        assert (result.exit_code, result.output) == (0, "reports: 3 at one time, 10/1m\n")
        assert sent(stub) == [("PATCH", "/v1/queues/reports", change)]

    def test_set_and_pause_make_the_queue_when_there_is_none(self) -> None:
        made = {**FREE, "paused": True}
        with serve(lambda r: GONE if r.method == "PATCH" else (201, made)) as stub:
            assert run(stub, "queues", "set", "mails", "--rate", "5/1s").exit_code == 0
            assert run(stub, "queues", "pause", "mails").output == "paused: mails\n"
            result = run(stub, "queues", "resume", "mails")
            assert (result.exit_code, "has no limits" in result.stderr) == (3, True)
        assert sent(stub)[1:4:2] == [
            ("PUT", "/v1/queues/mails", {"rate": {"count": 5, "per": "1s"}}),
            ("PUT", "/v1/queues/mails", {"paused": True}),
        ]

    def test_a_queue_that_somebody_made_meanwhile_is_changed(self) -> None:
        exists = problem(412, "exists", "The queue mails has limits already.")
        answers = iter([GONE, exists, (200, FREE)])
        with serve(lambda r: next(answers)) as stub:
            assert run(stub, "queues", "set", "mails", "--max-running", "none").output == "mails: no limits\n"
        assert [r.method for r in stub.requests] == ["PATCH", "PUT", "PATCH"]
        assert stub.requests[1].headers["if-none-match"] == "*"
        answers = iter([GONE, exists] * 3)
        with serve(lambda r: next(answers)) as stub:
            assert run(stub, "queues", "pause", "mails").exit_code == 4

    def test_several(self) -> None:
        def answer(request: Request) -> Reply:
            if request.path.endswith("/mails"):
                return GONE
            return (204, None) if request.method == "DELETE" else (200, QUEUE)

        with serve(answer) as stub:
            result = run(stub, "queues", "delete", "mails", "reports")
            assert (result.exit_code, result.stdout) == (3, "without limits: reports\n")
            assert run(stub, "queues", "resume", "reports").output == "resumed: reports\n"
        assert sent(stub)[-1] == ("PATCH", "/v1/queues/reports", {"paused": False})

    @pytest.mark.parametrize(
        "words",
        [
            ["set", "reports"],
            ["set", "reports", "--max-running", "many"],
            ["set", "reports", "--rate", "10"],
            ["set", "reports", "--rate", "/1m"],
            ["set", "Reports", "--max-running", "1"],
            ["delete", "../jobs"],
            ["pause"],
        ],
    )
    def test_what_makes_no_sense_is_not_asked_for(self, words: list[str]) -> None:
        with serve(lambda r: (200, QUEUE)) as stub:
            assert run(stub, "queues", *words).exit_code == 2
            assert not stub.requests


class TestNodes:
    def test_list_and_get(self) -> None:
        first = {**NODE, "id": "n1", "role": "leader", "drained": True, "labels": {}, "handlers": [], "session": None}
        with serve(lambda r: (200, {"items": [first, NODE], "next": None})) as stub:
            lines = run(stub, "nodes", "list").output.splitlines()
            assert run(stub, "nodes", "list", "-o", "name").output == "n1\nn2\n"
        assert lines[1].split() == ["n1", "leader", "yes", "yes", "1/4", "-", "-", "2026-11-20T12:00:00Z", "0.1.0", "-"]
        assert lines[2].split() == [
            "n2",
            "follower",
            "yes",
            "no",
            "1/4",
            "zone=b",
            "exec,http",
            "2026-11-20T12:00:00Z",
            "0.1.0",
            "-",
        ]
        with serve(lambda r: (200, NODE)) as stub:
            fields = run(stub, "nodes", "get", "n2").output
            assert json.loads(run(stub, "nodes", "get", "n2", "-o", "json").output) == NODE
        assert "7, open, since 2026-11-20T11:00:00Z" in fields
        with serve(lambda r: problem(404, "no-such-member", "There is no member 'n9'.")) as stub:
            assert run(stub, "nodes", "get", "n9").exit_code == 3

    def test_drain_and_undrain(self) -> None:
        with serve(lambda r: (200, NODE)) as stub:
            assert run(stub, "nodes", "drain", "n2").output == "drained: n2, 1 run still under way\n"
            assert run(stub, "nodes", "undrain", "n2", "n3").output == "undrained: n2\nundrained: n3\n"
        assert [(m, p) for m, p, _ in sent(stub)] == [
            ("POST", "/v1/nodes/n2/drain"),
            ("POST", "/v1/nodes/n2/undrain"),
            ("POST", "/v1/nodes/n3/undrain"),
        ]

    def test_drain_waits_until_nothing_runs_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(nodes, "_LOOK_S", 0)
        answers = iter([
            (200, {**NODE, "running": 2}),
            (200, {**NODE, "running": 2}),
            problem(503, "no-leader", "No leader."),
            (200, NODE),
            (200, {**NODE, "running": 0}),
        ])  # fmt: skip
        with serve(lambda r: next(answers)) as stub:
            result = run(stub, "nodes", "drain", "n2", "--wait")
        assert result.output.splitlines() == [
            "n2 is drained, 2 runs still under way",
            "n2 is drained, 1 run still under way",
            "drained: n2, nothing runs there",
        ]
        with serve(lambda r: (200, NODE)) as stub:
            result = run(stub, "nodes", "drain", "n2", "--wait", "--timeout", "0.1")
        assert (result.exit_code, "1 run still under way after 0.1 s" in result.stderr) == (7, True)

    def test_labels_and_slots(self) -> None:
        with serve(lambda r: (200, NODE)) as stub:
            assert run(stub, "nodes", "label", "n2", "disk=a=b", "zone-", "gpu=").output == "n2: zone=b\n"
            run(stub, "nodes", "label", "n2", "--reset")
            assert run(stub, "nodes", "slots", "n2", "4").output == "n2: 4 slots\n"
            run(stub, "nodes", "slots", "n2", "--reset")
        assert sent(stub) == [
            ("PATCH", "/v1/nodes/n2", {"labels": {"disk": "a=b", "zone": None, "gpu": ""}}),
            ("PATCH", "/v1/nodes/n2", {"labels": None}),
            ("PATCH", "/v1/nodes/n2", {"slots": 4}),
            ("PATCH", "/v1/nodes/n2", {"slots": None}),
        ]

    @pytest.mark.parametrize(
        "words",
        [
            ["label", "n2"],
            ["label", "n2", "disk"],
            ["label", "n2", "=ssd"],
            ["label", "n2", "disk=a", "disk-"],
            ["label", "n2", "disk=a", "--reset"],
            ["slots", "n2"],
            ["slots", "n2", "0"],
            ["slots", "n2", "3", "--reset"],
            ["drain", "N2"],
            ["undrain", ".."],
        ],
    )
    def test_what_makes_no_sense_is_not_asked_for(self, words: list[str]) -> None:
        with serve(lambda r: (200, NODE)) as stub:
            assert run(stub, "nodes", *words).exit_code == 2
            assert not stub.requests


class TestCluster:
    def test_pause_and_resume(self) -> None:
        with serve(lambda r: (200, {"paused": r.path.endswith("pause")})) as stub:
            assert run(stub, "cluster", "pause").output.startswith("paused")
            assert run(stub, "cluster", "resume").output == "resumed\n"
        assert [(m, p) for m, p, _ in sent(stub)] == [
            ("POST", "/v1/cluster/pause"),
            ("POST", "/v1/cluster/resume"),
        ]

    def test_status_says_that_it_is_paused_and_who_is_drained(self) -> None:
        page = {"node": "n1", "leader": "n2", "term": 3, "waits_for": None, "waiting": [], "paused": True,
                "nodes": [{**NODE, "drained": True}, {**NODE, "id": "n3"}]}  # fmt: skip
        with serve(lambda r: (200, page)) as stub:
            lines = run(stub, "cluster", "status").output.splitlines()
            page["paused"], page["nodes"] = False, [NODE]
            quiet = run(stub, "cluster", "status").output
        assert "raftsched cluster resume" in lines[1]
        assert lines[-1].startswith("nothing new is given to: n2;")
        assert "paused" not in quiet
        assert "nothing new" not in quiet

    def test_settings_are_listed_and_read(self) -> None:
        with serve(lambda r: (200, SETTINGS)) as stub:
            for words in (["settings"], ["settings", "list"]):
                lines = run(stub, "cluster", *words).output.splitlines()
                assert lines[1].split() == ["session_ttl", "5s"]
                assert json.loads(run(stub, "cluster", *words, "-o", "json").output) == SETTINGS
            assert run(stub, "cluster", "settings", "get", "backfill_max").output == "1000\n"
            assert run(stub, "cluster", "settings", "get", "colour").exit_code == 3

    def test_settings_are_changed_together(self) -> None:
        changed = {**SETTINGS, "timeout_ceiling": "2h"}
        with serve(lambda r: (200, changed)) as stub:
            words = ["timeout_ceiling=2h", "backfill_max=500", "session_ttl=default"]
            result = run(stub, "cluster", "settings", "set", *words)
        assert result.output == "timeout_ceiling=2h\nbackfill_max=1000\nsession_ttl=5s\n"
        assert sent(stub) == [
            ("PATCH", "/v1/cluster/settings", {"timeout_ceiling": "2h", "backfill_max": 500, "session_ttl": None})
        ]
        with serve(lambda r: (200, {**SETTINGS, "output_max_bytes": 8 << 20})) as stub:
            run(stub, "cluster", "settings", "set", "output_max_bytes=8MiB", "body_max_bytes=65536")
        assert sent(stub)[0][2] == {"output_max_bytes": 8 << 20, "body_max_bytes": 65_536}
        refusal = problem(422, "invalid-body", "/backfill_max is -1.", ("/backfill_max", "is -1"), ("/x", "is not"))
        with serve(lambda r: refusal) as stub:
            result = run(stub, "cluster", "settings", "set", "backfill_max=-1", "x=1")
        assert (result.exit_code, "/x: is not" in result.stderr) == (1, True)

    @pytest.mark.parametrize(
        "words", [["set"], ["set", "a"], ["set", "a="], ["set", "a=1", "a=2"], ["set", "a_bytes=b"], ["get"]]
    )
    def test_what_makes_no_sense_is_not_asked_for(self, words: list[str]) -> None:
        with serve(lambda r: (200, SETTINGS)) as stub:
            assert run(stub, "cluster", "settings", *words).exit_code == 2
            assert not stub.requests
