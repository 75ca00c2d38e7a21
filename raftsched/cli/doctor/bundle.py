"""`raftsched doctor --bundle`: what somebody needs who is to help from afar, in one file, without secrets.

Each file of it goes through hiding.py, whatever it is. What jobs are called and do is left out unless it is
asked for; what they are given (environment, params, what they run) is left out in any case.
"""

from __future__ import annotations

import io
import json
import os
import platform
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raftsched.cli.doctor.hiding import hidden_in, lines_without_secrets, without_secrets
from raftsched.cli.failures import Failure
from raftsched.errors import Exit
from raftsched.security.shown import HIDDEN
from raftsched.surface import PREFIX
from raftsched.surface.plain import cluster, health, jobs, nodes, queues, settings, workers
from raftsched.system.clock import SystemClock
from raftsched.version import __version__

if TYPE_CHECKING:
    from raftsched.client.http import Client

WAIT_S = 5.0  # for each answer
FILE_MAX = 8 << 20  # bytes
JOBS_MAX = 1_000
_ASKED = (
    *(cluster.STATUS, settings.GET, cluster.TERMS, cluster.MEMBERS),
    *(nodes.LIST, workers.LIST, queues.LIST),
)
# of a job: nothing that it runs, is given, or printed
_JOB_FIELDS = ",".join((
    *("id", "name", "namespace", "state", "queue", "triggers", "next_fire_at", "last_start_at", "last_end_at"),
    *("running", "active", "runs", "failures_in_a_row", "last_state", "last_duration_ms"),
))  # fmt: skip


def write_bundle(
    file: Path,
    findings: Sequence[Mapping[str, Any]],
    lines: Sequence[str] | None,
    client: Client | None,
    settings: Mapping[str, Any] | None,
    *,
    with_jobs: bool,
) -> int:
    """Writes the bundle, for its owner alone, and returns its bytes. `lines`: the last ones of a node's log; `client`:
    None where no node is asked; `settings`: of the node on this machine. Raises Failure where the file is there."""
    parts: dict[str, str] = {
        "doctor.json": _json(findings),
        "versions.json": _json(
            {"command": __version__, "python": platform.python_version(), "on": platform.platform()}
        ),
    }
    if settings is not None:
        parts["node-settings.json"] = _json(settings)
    if lines is not None:
        parts["log.txt"] = lines_without_secrets(lines)
    if client is not None:
        parts |= dict(_of_cluster(client, with_jobs))
    jobs = "Jobs are in it, without what they run and are given." if with_jobs else "What jobs are called is left out."
    about = (
        f"Made by raftsched {__version__} with 'raftsched doctor --bundle'.\n"
        f"Tokens, keys, passwords and queries of addresses are shown as {HIDDEN}.\n{jobs}\n"
        "Nodes, workers, queues, namespaces, webhooks and addresses of machines are named.\n"
    )
    raw = _packed({"README.txt": about} | parts)
    try:
        _write_new(file, raw)
    except FileExistsError:
        raise Failure(f"{file} is there already and is not overwritten", Exit.CONFLICT) from None
    except OSError as error:
        raise Failure(f"cannot write {file}: {(error.strerror or str(error)).lower()}") from None
    return len(raw)


def _write_new(file: Path, raw: bytes) -> None:
    """Writes a file that is not there yet, whole or not at all. Raises OSError."""
    new = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(new, "wb") as opened:
            opened.write(raw)
    except BaseException:  # a part of it is of no use, and keeps the next try from writing
        file.unlink(missing_ok=True)
        raise


def _packed(parts: Mapping[str, str]) -> bytes:
    now_s = SystemClock().wall_ms() // 1000
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in parts.items():
            raw = text.encode("utf-8", "replace")[:FILE_MAX]
            about = tarfile.TarInfo(f"raftsched/{name}")
            about.size, about.mtime, about.mode = len(raw), now_s, 0o600
            archive.addfile(about, io.BytesIO(raw))
    return packed.getvalue()


def _of_cluster(client: Client, with_jobs: bool) -> Iterator[tuple[str, str]]:
    """Gives names and texts, without secrets. What cannot be had says why."""
    from raftsched.client.http import Client as Http
    from raftsched.client.servers import parse_servers

    one = Http(client.servers, timeout=WAIT_S, token=client.token, trust=client.trust)
    known: list[dict[str, Any]] = []
    for path in _ASKED:
        found = _answer(lambda path=path: one.get(path))  # type: ignore[misc]
        known = found.get("nodes", known) if path == cluster.STATUS else known
        yield f"{path.removeprefix(PREFIX).replace('/', '-')}.json", _json(found)
    if with_jobs:
        query = {"fields": _JOB_FIELDS, "limit": JOBS_MAX}
        yield "jobs.json", _json(_answer(lambda: one.get(jobs.LIST, query)))
    for node in known:

        def metrics(http: str = node.get("http") or "") -> str:
            asked = Http(parse_servers(http), timeout=WAIT_S, token=client.token, trust=client.trust)
            return asked.request("GET", health.METRICS).body.decode("utf-8", "replace")

        told = _answer(metrics)
        yield f"metrics/{node['id']}.txt", without_secrets(told) if isinstance(told, str) else _json(told)


def _answer(ask: Callable[[], Any]) -> Any:
    from raftsched.client.errors import ClientError

    try:
        return ask()
    except (ClientError, ValueError) as error:
        return {"unanswered": str(error)}


def _json(value: Any) -> str:
    """Returns the value as text, with what looks like a secret hidden."""
    return json.dumps(hidden_in(value), indent=1, ensure_ascii=False, default=str) + "\n"
