"""`raftsched jobs minutes` against a stub of the API."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlsplit

from tests.support.stub_server import serve
from tests.unit.cli.house import run

COUNTS = ("started", "restarted", "succeeded", "failed", "killed", "skipped", "late", "late_max_ms")
FOUND = {
    "from": "2030-01-01T00:00:00Z",
    "to": "2030-01-01T03:00:00Z",
    "step": "1h",
    **{name: [0, 0, 0] for name in COUNTS},
    "started": [2, 0, 1],
    "late_max_ms": [7, 0, 0],
}


def test_a_line_for_each_step_in_which_something_ran() -> None:
    with serve(lambda r: (200, FOUND)) as stub:
        result = run("--server", stub.url, "jobs", "minutes", "-N", "fin", "--from", "2030-01-01T00:00:00Z")
        asked = parse_qs(urlsplit(stub.requests[0].path).query)
        assert asked == {"step": ["1h"], "namespace": ["fin"], "from": ["2030-01-01T00:00:00Z"]}
        assert json.loads(run("--server", stub.url, "jobs", "minutes", "-o", "json").output) == FOUND
    assert [line.split() for line in result.output.splitlines()[1:]] == [
        ["2030-01-01T00:00:00Z", "2", "0", "0", "0", "0", "0", "0", "7", "ms"],
        ["2030-01-01T02:00:00Z", "1", "0", "0", "0", "0", "0", "0", "0", "ms"],
    ]
