"""What the end-to-end tests do again and again."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from raftsched.cli.main import cli
from tests.support.api_nodes import AnyCluster, ApiNode

FINAL = {"SUCCEEDED", "FAILED", "TIMED_OUT", "KILLED", "SKIPPED"}


def create(node: ApiNode, job: dict[str, Any]) -> dict[str, Any]:
    """POST /v1/jobs, which must be accepted."""
    reply = node.request("POST", "/v1/jobs", job)
    assert reply.status == 201, (reply.status, reply.body)
    assert reply.headers["location"] == f"/v1/jobs/{reply.json['id']}"
    made: dict[str, Any] = reply.json
    return made


def run(node: ApiNode, job_id: str, body: dict[str, Any] | None = None) -> str:
    """POST run, which must be accepted; the instance's id."""
    reply = node.request("POST", f"/v1/jobs/{job_id}/run", body or {})
    assert reply.status == 202, (reply.status, reply.body)
    return str(reply.json["id"])


def instances(node: ApiNode, job_id: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = node.get(f"/v1/jobs/{job_id}/instances?limit=1000")["items"]
    return items


def command(servers: str | None, *words: str, token: str | None = None, home: Path | None = None) -> Result:
    """The end of a command line in this process: `exit_code`, `stdout`, `stderr`. `home`: where its settings lie."""
    about = {"RAFTSCHED_SERVER": servers, "RAFTSCHED_TOKEN": token, "RAFTSCHED_CONTEXT": None}
    place = {} if home is None else {"XDG_CONFIG_HOME": str(home)}
    return CliRunner().invoke(cli, list(words), env={**about, **place})


def ask(node: ApiNode, *words: str) -> str:
    """What a command line prints that must succeed."""
    result = command(node.url, *words)
    assert result.exit_code == 0, (words, result.output)
    return result.output


def wait_final(cluster: AnyCluster, node: ApiNode, instance_id: str, timeout: float = 60) -> dict[str, Any]:
    def final() -> dict[str, Any] | None:
        row: dict[str, Any] = node.get(f"/v1/instances/{instance_id}")
        return row if row["state"] in FINAL else None

    row: dict[str, Any] = cluster.wait(f"{instance_id} to end", final, timeout)
    return row


def wait_instances(
    cluster: AnyCluster,
    node: ApiNode,
    job_id: str,
    count: int,
    state: str = "SUCCEEDED",
    timeout: float = 60,
) -> list[dict[str, Any]]:
    """At least `count` instances of the job in that state."""

    def enough() -> list[dict[str, Any]] | None:
        rows = [r for r in instances(node, job_id) if r["state"] == state]
        return rows if len(rows) >= count else None

    rows: list[dict[str, Any]] = cluster.wait(f"{count} x {state} of {job_id}", enough, timeout)
    return rows


def at(seconds: float) -> str:
    """RFC 3339, so many seconds from now."""
    return datetime.fromtimestamp(time.time() + seconds, UTC).isoformat().replace("+00:00", "Z")


def seconds(text: str) -> float:
    """Of an RFC 3339 time, since the epoch."""
    return datetime.fromisoformat(text).timestamp()
