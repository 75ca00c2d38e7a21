"""Makes the data directory of a released version: `python -m tests.golden.record_data VERSION`. See README.md.

One node runs the version's own package, is given some of everything by its API, and is killed when it has done that, so
that its log goes on beyond its tables. What it answered, and the rows that this version finds in the directory, are
packed beside it. The cluster is paused, and what has ended is kept for ten years: a node that is started with it has
nothing to do, and nothing to take away.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from raftsched.core.tables import Table
from raftsched.store import Store
from tests.golden.releases import RELEASES, Release
from tests.support.cluster import Cluster, NodeProcess

ANSWERS, ROWS, KEY, DATA = "answers.json", "rows.msgpack", "cluster.key", "n1"
KEEP = "3650d"
LISTS = (
    *("/v1/jobs?limit=1000", "/v1/namespaces", "/v1/queues", "/v1/calendars", "/v1/webhooks", "/v1/tokens"),
    *("/v1/secrets", "/v1/cluster/settings"),
)
JOBS: tuple[dict[str, Any], ...] = (
    {"name": "says", "trigger": {"manual": True}, "handler": {"shell": "echo said; echo wrong >&2"}},
    {"name": "fails", "trigger": {"manual": True}, "handler": {"shell": "echo why; exit 3"}, "retry": {"delays": []}},
    {"name": "told", "trigger": {"manual": True}, "handler": {"exec": ["true"]}, "params": {"of": {"$secret": "word"}}},
    {"name": "yearly", "trigger": {"cron": "0 3 1 1 *", "timezone": "Europe/Madrid"}, "handler": {"shell": "true"}},
    {"name": "every", "trigger": {"every": "365d"}, "handler": {"http": {"url": "http://127.0.0.1:9/"}}},
    {"name": "ruled", "trigger": {"rrule": "FREQ=YEARLY;BYMONTH=2"}, "handler": {"shell": "true"}, "priority": 9},
    {"name": "worked", "trigger": {"cron": "0 3 1 1 *", "calendar": "days"}, "handler": {"shell": "true"}},
    {"name": "after", "trigger": {"after": {"job": "says"}}, "handler": {"shell": "true"}, "queue": "narrow"},
    {"name": "once", "trigger": {"at": "2098-12-31T23:59:59Z"}, "handler": {"python": "json:dumps"}},
    {"name": "paused", "trigger": {"every": "365d"}, "handler": {"shell": "true"}, "labels": {"some": "label"}},
)
RUN = {"says": "SUCCEEDED", "fails": "FAILED", "told": "SUCCEEDED"}


def main() -> int:
    parser = argparse.ArgumentParser(description="Makes the golden data directory of a released version.")
    parser.add_argument("version", choices=[release.version for release in RELEASES])
    (release,) = (one for one in RELEASES if one.version == parser.parse_args().version)
    if release.data.exists():
        print(f"{release.data} is there; such files are never made anew", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="raftsched-golden-") as directory:
        source = release.unpack_source(Path(directory) / "source")
        if source is None:
            print(f"this checkout has not the commit {release.commit}", file=sys.stderr)
            return 1
        answers = _live(source, Path(directory) / "cluster")
        _pack(release, Path(directory) / "cluster", answers)
    print(f"{release.data}: {release.data.stat().st_size:,} bytes")
    return 0


def _live(source: Path, directory: Path) -> dict[str, Any]:
    """Runs the version until it has some of everything, and kills it. Returns what it answered."""
    cluster = Cluster(1, directory=directory)
    (node,) = cluster.nodes
    node.source = source
    with cluster:
        cluster.wait("a leader", lambda: node.get("/v1/cluster")["leader"])
        _fill(cluster, node)
        answers = {path: node.get(path) for path in LISTS}
        answers["instances"] = instances = {name: node.get(f"/v1/jobs/{_id(node, name)}/instances") for name in RUN}
        answers["outputs"] = {
            run["id"]: node.request("GET", f"/v1/instances/{run['id']}/output").body.decode()
            for found in instances.values()
            for run in found["items"]
        }
        node.kill()
    return answers


def _fill(cluster: Cluster, node: NodeProcess) -> None:
    def ask(method: str, path: str, body: Any) -> Any:
        reply = node.request(method, path, body)
        assert reply.status < 300, (method, path, reply.status, reply.body)
        return reply.json if reply.body else None

    ask("PATCH", "/v1/cluster/settings", dict.fromkeys(("output_keep", "dead_letter_keep"), KEEP))
    ask("PUT", "/v1/namespaces/other", {"description": "of somebody else", "limits": {"max_jobs": 7}})
    ask("PUT", "/v1/namespaces/default/secrets/word", {"value": "mum"})
    ask("PUT", "/v1/queues/narrow", {"max_running": 1})
    ask("PUT", "/v1/calendars/days", {"weekdays": ["sat", "sun"], "dates": ["2030-01-01"]})
    ask("POST", "/v1/webhooks", {"name": "told", "url": "http://127.0.0.1:9/hook"})
    ask("POST", "/v1/tokens", {"name": "somebody", "role": "viewer"})
    for job in JOBS:
        ask("POST", "/v1/jobs", {"retention": {"max_age": KEEP}, **job})
    ask("POST", "/v1/jobs", {"name": "says", "namespace": "other", **{k: v for k, v in JOBS[3].items() if k != "name"}})
    for name, state in RUN.items():
        run = ask("POST", f"/v1/jobs/{_id(node, name)}/run", {})
        where = f"/v1/instances/{run['id']}"
        cluster.wait(f"{name} to end", lambda where=where, state=state: node.get(where)["state"] == state)
    after = f"/v1/jobs/{_id(node, 'after')}/instances"
    cluster.wait("what follows to end", lambda: [run["state"] for run in node.get(after)["items"]] == ["SUCCEEDED"])
    ask("POST", f"/v1/jobs/{_id(node, 'paused')}/pause", {})
    ask("PATCH", f"/v1/jobs/{_id(node, 'yearly')}", {"priority": 7})
    ask("POST", "/v1/cluster/pause", {})


def _id(node: NodeProcess, name: str) -> str:
    (found,) = node.get(f"/v1/jobs?name={name}&namespace=default")["items"]
    return str(found["id"])


def rows_of(directory: Path) -> list[tuple[int, bytes, bytes]]:
    """Returns the rows of all tables (table, key, value) as a store finds them when it is opened."""
    store = Store.open(directory)
    try:
        with store.read() as view:
            return [(int(table), bytes(key), bytes(value)) for table in Table for key, value in view.scan(table)]
    finally:
        store.close()


def _pack(release: Release, directory: Path, answers: dict[str, Any]) -> None:
    opened = directory / "opened"
    shutil.copytree(directory / DATA, opened, ignore=_sockets)
    with tarfile.open(release.data, "w:xz", preset=9) as tar:
        _put(tar, ANSWERS, json.dumps(answers, indent=1).encode())
        _put(tar, ROWS, msgspec.msgpack.encode(rows_of(opened / "store")))
        tar.add(directory / KEY, KEY, filter=_nobodys)
        tar.add(directory / DATA, DATA, filter=_nobodys)


def _sockets(directory: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if (Path(directory) / name).is_socket()]


def _put(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    about = tarfile.TarInfo(name)
    about.size = len(content)
    tar.addfile(about, io.BytesIO(content))


def _nobodys(about: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Without who made it, and without sockets."""
    about.uid = about.gid = 0
    about.uname = about.gname = ""
    return about if about.isfile() or about.isdir() else None


if __name__ == "__main__":
    sys.exit(main())
