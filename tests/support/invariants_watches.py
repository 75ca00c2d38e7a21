"""What holds of WATCHES, and of what is told while an instance goes on."""

from __future__ import annotations

from raftsched.core.apply.cluster.cluster_notices import ABOUT
from raftsched.core.model import FINAL, Instance, Job
from raftsched.core.rows import NOTED, decode_meta
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE, Event
from raftsched.core.subjects.watches import RECENT_MAX, not_run_at
from raftsched.core.tables import ReadView, Table, u64, watch_key
from tests.support.invariants_cluster import same


def watches_violations(view: ReadView, jobs: dict[int, Job], rows: dict[bytes, Instance], found: list[str]) -> None:
    watches: dict[bytes, bytes] = {}
    for job_id, job in jobs.items():
        if job.watch_at_ms is not None:
            watches[watch_key(job.watch_at_ms, u64(job_id))] = b""
        if job.watch_at_ms != not_run_at(job):
            found.append(f"job {job_id} is watched at {job.watch_at_ms}, and its limit is at {not_run_at(job)}")
        if len(job.recent_ms) > RECENT_MAX:
            found.append(f"job {job_id} keeps {len(job.recent_ms)} durations")
    for key, row in rows.items():
        what = f"instance {key.hex()} ({row.state.name})"
        if row.watch_at_ms is not None:
            watches[watch_key(row.watch_at_ms, key)] = b""
            if row.state in FINAL or row.parent is not None or jobs[row.job_id].namespace == SYSTEM_NAMESPACE:
                found.append(f"{what} is watched")
        if len(set(row.told)) < len(row.told):
            found.append(f"{what} says twice that it told {row.told}")
    nodes = {member.node for member in decode_meta(view.get(Table.META, b"meta")).members}
    for key, raw in view.scan(Table.NOTED):
        noted = NOTED.decode(raw)
        if noted.watch_at_ms is not None:
            watches[watch_key(noted.watch_at_ms, ABOUT + key)] = b""
        if (noted.left_out > 0) != (noted.watch_at_ms is not None):
            found.append(f"{noted.left_out} events of {key!r} were left out, and are told at {noted.watch_at_ms}")
        if key[1:].decode() not in nodes and key[0] != Event.LEADER_CHANGED:
            found.append(f"{key!r} is noted of a node that is no member")
    same(found, view, Table.WATCHES, watches)
