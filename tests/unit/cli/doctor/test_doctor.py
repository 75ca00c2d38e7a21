"""`raftsched doctor`: what one node knows, whether each answers from here, and what is on this machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from click.testing import Result

from raftsched.cli.doctor.whole_cluster import _unanswered
from raftsched.client.errors import ClientError
from tests.support.stub_server import Request, problem, serve
from tests.unit.cli.house import run

WELL = {"check": "leader", "state": "ok", "detail": "n1, term 3", "do": None, "nodes": ["n1"], "why": "w", "see": "s"}
MACHINE = {"open-files", "time-zones", "control-groups"}  # and clock-service, where the kernel may be asked


class Cluster:
    """A node that answers what it found, and says where the others are."""

    def __init__(self, *items: dict[str, Any], elsewhere: Sequence[str] = ()) -> None:
        self.items = [WELL, *items, {**WELL, "check": "reachable", "state": "fail"}]
        self.elsewhere = elsewhere
        self.url = ""
        self.refused: dict[str, tuple[int, Any]] = {}

    def __call__(self, request: Request) -> tuple[int, Any]:
        path = request.path.partition("?")[0]
        if path in self.refused:
            return self.refused[path]
        if path == "/v1/cluster":
            own = self.url.removeprefix("http://")
            return 200, {"nodes": [{"id": f"n{n}", "http": http} for n, http in enumerate((own, *self.elsewhere), 1)]}
        if path == "/v1/cluster/doctor":
            return 200, {"state": "ok", "node": "n1", "items": self.items}
        return (200, {"alive": True}) if path == "/livez" else problem(404, "not-found", path)


def examine(cluster: Cluster, *words: str) -> Result:
    with serve(cluster) as stub:
        cluster.url = stub.url
        return run("--server", stub.url, "doctor", *words)


def states(result: Result) -> dict[str, tuple[str, str, str | None]]:
    items = [item for item in json.loads(result.stdout)["items"] if item["check"] != "clock-service"]
    return {i["check"]: (i["state"], i["detail"], i["do"]) for i in items}


def finding(check: str, state: str, **fields: Any) -> dict[str, Any]:
    return {**WELL, "check": check, "state": state, "detail": "so it is", "do": "mend it", **fields}


def test_what_the_node_found_and_whether_all_answer_from_here() -> None:
    result = examine(Cluster(finding("disk", "warn")), "-o", "json")
    assert result.exit_code == 0
    page = json.loads(result.stdout)
    assert page["state"] == "warn"
    assert page["items"][0] == finding("disk", "warn"), "what is not well comes first"
    assert WELL in page["items"]
    found = states(result)
    assert found["reachable"] == ("ok", "the node answers", None), "as this machine sees it"
    assert set(found) == {"leader", "disk", "reachable", *MACHINE}


def test_a_check_that_fails_is_exit_code_1() -> None:
    assert examine(Cluster(finding("disk", "fail"))).exit_code == 1
    assert examine(Cluster(finding("disk", "fail")), "--skip", "disk").exit_code == 0
    assert examine(Cluster(finding("disk", "fail")), "--only", "leader").exit_code == 0
    wrong = examine(Cluster(), "--only", "nothing-such")
    assert (wrong.exit_code, "dead-letters" in wrong.stderr) == (2, True)


def test_it_says_what_to_do_why_and_where_more_is() -> None:
    cluster = Cluster(finding("disk", "warn"), finding("of-tomorrow", "warn", why="it matters", see="docs/x.md"))
    table = examine(cluster).output
    assert "\ndisk: mend it\n  why: w\n  see: s\n" in table
    assert "\nof-tomorrow: mend it\n  why: it matters\n  see: docs/x.md\n" in table
    assert "leader: " not in table
    names = examine(Cluster(finding("disk", "warn"), finding("disk", "fail")), "-o", "name").output.splitlines()
    assert names[:1] == ["disk"]
    assert names.count("disk") == 1


def test_some_checks_only() -> None:
    found = states(examine(Cluster(finding("disk", "warn")), "--only", "disk", "--only", "open-files", "-o", "json"))
    assert set(found) == {"disk", "open-files"}
    found = states(examine(Cluster(finding("disk", "warn")), "--skip", "disk", "-o", "json"))
    assert set(found) == {"leader", "reachable", *MACHINE}


def test_nodes_that_do_not_answer_from_here() -> None:
    found = states(examine(Cluster(elsewhere=["127.0.0.1:1", "", "no address"]), "-o", "json"))
    assert found["reachable"][:2] == (
        "warn",
        "1 of 4 nodes answer, not n2 (127.0.0.1:1), n3 (address unknown), n4 (no address)",
    )
    refusing = Cluster()
    refusing.refused["/livez"] = problem(503, "overloaded", "Too many.")
    assert states(examine(refusing, "-o", "json"))["reachable"][0] == "ok", "an answer all the same"


def test_the_node_that_is_asked_answers_though_nobody_knows_its_address() -> None:
    """As before the cluster is formed: a node announces its address with its first session."""
    cluster = Cluster()
    nodes = [{"id": name, "http": None} for name in ("n1", "n2", "n3")]
    cluster.refused["/v1/cluster"] = 200, {"node": "n1", "nodes": nodes}
    says = "1 of 3 nodes answer, not n2 (address unknown), n3 (address unknown)"
    assert states(examine(cluster, "-o", "json"))["reachable"][:2] == ("warn", says)
    cluster.refused["/v1/cluster"] = 200, {"node": "n1", "nodes": nodes[:1]}
    assert states(examine(cluster, "-o", "json"))["reachable"][:2] == ("ok", "the node answers")


def test_no_node_at_all_and_one_that_lost_its_leader_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run("--server", "http://127.0.0.1:1", "doctor", "-o", "json")
    assert (result.exit_code, states(result)["reachable"][0]) == (1, "fail")
    assert "--local" in (states(result)["reachable"][2] or "")
    assert set(states(result)) > MACHINE
    for status, code, do in ((503, "no-leader", "run it again"), (403, "forbidden", "token of a viewer")):
        cluster = Cluster()
        cluster.refused["/v1/cluster/doctor"] = problem(status, code, "Not now.")
        found = states(examine(cluster, "-o", "json"))
        assert found["answers"][:2] == ("warn", "Not now.")
        assert do in (found["answers"][2] or "")
        assert found["reachable"][0] == "ok"


def test_who_may_ask() -> None:
    with serve(lambda r: problem(401, "locked", "This node is locked.")) as stub:
        result = run("--server", stub.url, "doctor", "-o", "json")
    assert "tokens bootstrap --data DIR" in (states(result)["access"][2] or "")
    with serve(lambda r: problem(401, "unauthorized", "This cluster wants a token.")) as stub:
        result = run("--server", stub.url, "doctor", "-o", "json")
    assert result.exit_code == 1
    assert states(result)["access"][:2] == ("fail", "This cluster wants a token.")
    assert "RAFTSCHED_TOKEN" in (states(result)["access"][2] or "")


@pytest.mark.parametrize(
    ("error", "do"),
    [
        (("unreachable", "https://a:1 is not trusted: its certificate has expired, on 2024-01-31; it needs a new one"),
         "put a new certificate there"),
        (("unreachable", "https://a:1 is not trusted: its certificate is of an unknown authority; say --ca-file FILE"),
         "say --ca-file FILE"),
        (("untrusted", "the CA file x cannot be used: it is not PEM"), "say --ca-file FILE"),
        (("unreachable", "https://a:1 is not trusted: its certificate is not for a"), "compare the certificate"),
        (("unreachable", "https://a:1 does not speak TLS; say http://"), "say --server with http:// or https://"),
        (("not-raftsched", "http://a:1 speaks TLS; say https://"), "say --server with http:// or https://"),
        (("not-raftsched", "http://a:1 is not raftsched (answers as nginx with 404)"), "something else listens there"),
        (("redirected", "http://a:1 redirects to https://a:2"), "something else listens there"),
        (("unreachable", "http://a:1 name or service not known"), "is the name right"),
        (("unreachable", "http://a:1 does not respond"), "does that machine run"),
        (("unreachable", "http://a:1 refuses connections"), "is a node running?"),
    ],
)  # fmt: skip
def test_what_to_do_goes_by_why_nobody_answers(error: tuple[str, str], do: str) -> None:
    found = _unanswered(ClientError(*error))
    assert (found.check, found.state, found.detail) == ("reachable", "fail", error[1])
    assert found.do.startswith(do)


def test_who_is_no_node_is_found_to_be_none() -> None:
    with serve(lambda request: (404, b"<html>")) as stub:
        result = run("--server", stub.url, "doctor", "-o", "json")
    state, detail, do = states(result)["reachable"]
    assert (result.exit_code, state) == (1, "fail")
    assert f"{stub.url} is not raftsched" in detail
    assert do is not None
    assert do.startswith("something else listens there")


def test_what_is_well_is_counted() -> None:
    cluster = Cluster(finding("disk", "fail"), finding("tokens", "warn"))
    machine = [word for check in (*MACHINE, "clock-service", "log-lines") for word in ("--skip", check)]
    lines = examine(cluster, *machine).output.splitlines()
    assert [line.split()[:2] for line in lines[1:3]] == [["fail", "disk"], ["warn", "tokens"]]
    assert lines[3] == "2 other checks are ok; --all shows what they found"
    whole = examine(cluster, "--all").output
    assert "leader" in whole
    assert "--all" not in whole
    assert "leader" in examine(cluster, "--only", "leader").output


def test_documents_are_linked_where_the_node_serves_them() -> None:
    cluster = Cluster(finding("disk", "warn", see="docs/runbook.md#disks-that-fill-up"))
    assert "  see: docs/runbook.md#disks-that-fill-up\n" in examine(cluster).output
    cluster.refused["/ui/docs/"] = (200, '<!doctype html><title>raftsched</title><script src="/ui/assets/1/app.js">')
    assert "  see: docs/runbook.md#disks-that-fill-up\n" in examine(cluster).output  # the page of an earlier node
    cluster.refused["/ui/docs/"] = (200, '<!doctype html><link rel="icon" href="/ui/docs/assets/1/icon.svg">')
    table = examine(cluster).output
    assert f"  see: {cluster.url}/ui/docs/runbook/#disks-that-fill-up\n" in table


def test_the_section_is_that_of_the_cause() -> None:
    found = _unanswered(ClientError("untrusted", "its certificate has expired, on 2024-01-31; it needs a new one"))
    assert found.see == "docs/runbook.md#certificates-that-expire"
    assert "certs node" in found.do
    found = _unanswered(ClientError("unreachable", "Connection refused"))
    assert found.see == "docs/runbook.md#members-and-leader"
