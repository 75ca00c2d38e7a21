"""--state takes one or several, however they are said, and refuses what is none."""

from __future__ import annotations

import pytest

from tests.support.stub_server import serve
from tests.unit.cli.house import asked, routes, run

EMPTY = {"items": [], "next": None}


@pytest.mark.parametrize(
    ("said", "sent"),
    [
        (["--state", "failed"], "FAILED"),
        (["--state", "failed", "--state", "killed"], "FAILED,KILLED"),
        (["--state", "FAILED,killed"], "FAILED,KILLED"),
        (["--state", "failed, killed", "--state", "failed"], "FAILED,KILLED"),
    ],
)
def test_several_instance_states(said: list[str], sent: str) -> None:
    path = f"/v1/instances?state={sent.replace(',', '%2C')}&limit=50"
    with serve(routes({f"GET {path}": EMPTY})) as stub:
        assert run("--server", stub.url, "instances", "list", *said).exit_code == 0, asked(stub)


def test_several_job_states() -> None:
    with serve(lambda _: (200, EMPTY)) as stub:
        assert run("--server", stub.url, "jobs", "list", "--state", "new", "--state", "expired").exit_code == 0
        assert "state=NEW%2CEXPIRED" in stub.requests[0].path


def test_a_finished_job_is_found_by_the_word_that_is_shown() -> None:
    with serve(lambda _: (200, EMPTY)) as stub:
        assert run("--server", stub.url, "jobs", "list", "--state", "finished,new").exit_code == 0
        assert "state=EXPIRED%2CNEW" in stub.requests[0].path
        refused = run("--server", stub.url, "jobs", "list", "--state", "ended")
    assert "use one or more of NEW, SCHEDULED, SUSPENDED, FINISHED" in " ".join(refused.stderr.split())


def test_several_states_of_an_action_on_many() -> None:
    counted = {"action": "pause", "matched": 0, "examined": 0, "complete": True, "sample": []}
    with serve(lambda _: (200, counted)) as stub:
        result = run("--server", stub.url, "jobs", "pause", "--state", "new,scheduled", "--dry-run")
        assert result.exit_code == 0, result.output
        assert stub.requests[0].json["filter"] == {"state": ["NEW", "SCHEDULED"]}


@pytest.mark.parametrize("said", ["nonsense", "failed,nonsense", ""])
def test_what_is_no_state_is_refused_with_those_there_are(said: str) -> None:
    result = run("instances", "list", "--state", said)
    assert result.exit_code == 2
    assert "is no state; use one or more of WAITING, LAUNCHED" in result.stderr
