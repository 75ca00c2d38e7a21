"""What somebody on call asks on the command line: which jobs fail or are late, and when a job is due that is paused."""

from __future__ import annotations

import pytest

from tests.support.stub_server import serve
from tests.unit.cli.house import ID, JOB, asked, run


@pytest.mark.parametrize(
    ("words", "query"),
    [
        (["jobs", "list", "--failing"], "/v1/jobs?failing=true&limit=100"),
        (["jobs", "list", "--late", "-N", "billing"], "/v1/jobs?namespace=billing&late=true&limit=100"),
        (["instances", "list", "--late"], "/v1/instances?late=true&limit=50"),
    ],
)
def test_lists_of_what_is_wrong(words: list[str], query: str) -> None:
    with serve(lambda request: (200, {"items": [], "next": None})) as stub:
        result = run("--server", stub.url, *words)
    assert result.exit_code == 0
    assert asked(stub)[0].startswith(f"GET {query.partition('limit=')[0]}")


@pytest.mark.parametrize(
    ("state", "says"), [("SUSPENDED", "it is suspended"), ("NEW", "it is suspended"), ("EXPIRED", "never again")]
)
def test_a_job_without_a_next_time(state: str, says: str) -> None:
    job = {**JOB, "state": state}
    with serve(
        lambda r: (200, {"description": "", "next": []} if r.path.startswith(f"/v1/jobs/{ID}/next") else job)
    ) as s:
        assert says in run("--server", s.url, "jobs", "next", ID).output
