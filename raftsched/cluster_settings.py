"""The settings of the cluster: one row each, of which core's checks, the API's description, docs/settings.md and the
page's groups are made (scripts/make-settings writes the last two).

A setting is added as the last field, with its default: logs and snapshots hold them as an array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, get_type_hints

import msgspec

from raftsched.bounds import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    OUTPUT_COPIES,
    OUTPUT_KEEP_MS,
    OUTPUT_MAX_BYTES,
    RATE_COUNT_MAX,
)
from raftsched.bounds import STORED_DURATION_MAX_MS as LONGEST

LOAD_AHEAD_MAX_MS = 16 * MINUTE_MS  # as far as the leader's timing wheel goes

# Those about the same stand together on the page.
RUNS, KEPT, ROOM = "Runs", "What is kept", "How much there may be"
REQUESTS, NODES, WORKERS = "Requests", "Nodes", "Remote workers"
GROUPS = (RUNS, KEPT, ROOM, REQUESTS, NODES, WORKERS)


@dataclass(frozen=True)
class Setting:
    """A row: its group on the page, the least and the most that may be set, and the text that says what it is for."""

    group: str
    least: int
    most: int
    text: str
    logged_least: int | None = None  # what logs may hold: less could once be set, and stays as it was
    level: int = 1  # that a cluster needs before it may be set (core.levels)
    shown_before: str = ""  # the field before which answers have it; "": after those that came earlier


class Settings(msgspec.Struct, array_like=True, frozen=True, kw_only=True, gc=False):
    """Replicated limits and defaults; apply and every node read them here, never from a node's own flags."""

    # A worker that misses the answer to one heartbeat keeps its runs: two heartbeats (h and a look at the clock each),
    # the age of the leader's newest round, and K, by which keepers kill before the end (docs/guarantees.md).
    session_ttl_ms: Annotated[
        int,
        Setting(
            NODES,
            2_000,
            10 * MINUTE_MS,
            "how long a worker may go unheard before its runs are given to others; for sessions that are opened "
            "from then on",
            logged_least=1_000,
        ),
    ] = 5_000
    timeout_ceiling_ms: Annotated[int, Setting(RUNS, 1, LONGEST, "the longest `timeout` of a job")] = DAY_MS
    body_max_bytes: Annotated[
        int,
        Setting(
            ROOM,
            0,
            16 * 2**20,
            "bytes of a job; its handler and params take 122,880 together at most, whatever this is",
        ),
    ] = 64 * 1024
    params_max_bytes: Annotated[int, Setting(ROOM, 0, 16 * 2**20, "bytes of the `params` of a job or of a run")] = (
        32 * 1024
    )
    start_deadline_ms: Annotated[
        int, Setting(RUNS, 1_000, LONGEST, "how long a recurring run waits for somebody to take it")
    ] = 15 * MINUTE_MS
    once_succeeded_keep_ms: Annotated[int, Setting(KEPT, 0, LONGEST, "how long a one-shot that succeeded is kept")] = (
        HOUR_MS
    )
    once_failed_keep_ms: Annotated[int, Setting(KEPT, 0, LONGEST, "how long a one-shot that failed is kept")] = (
        7 * DAY_MS
    )
    catch_up_max: Annotated[
        int, Setting(RUNS, 1, 10_000, "runs that are made up for after one gap, under the misfire policy `all`")
    ] = 100
    queue_all_max: Annotated[
        int, Setting(RUNS, 0, 10_000, "runs that wait for one job under the overlap policy `queue_all`")
    ] = 100
    attempts_kept: Annotated[int, Setting(KEPT, 1, 1_000, "how many attempts of one run are kept, the newest")] = 20
    active_max: Annotated[
        int, Setting(RUNS, 1, 100_000, "runs of one job that may be active at one time", shown_before="attempts_kept")
    ] = 10_000  # a bound on what deleting the job has to end
    idempotency_keep_ms: Annotated[
        int, Setting(KEPT, 0, 30 * DAY_MS, "how long an `Idempotency-Key` is remembered")
    ] = HOUR_MS
    idempotency_max: Annotated[
        int, Setting(KEPT, 0, 100_000_000, "how many keys are remembered; beyond that the oldest go early")
    ] = 2_000_000
    ageing_ms: Annotated[int, Setting(RUNS, 1, LONGEST, "how long a run waits to gain a level of priority")] = (
        MINUTE_MS  # a waiting instance gains a level of priority in each
    )
    dead_letter_keep_ms: Annotated[int, Setting(KEPT, 0, LONGEST, "how long a dead letter is kept")] = 14 * DAY_MS
    clock_limit_ms: Annotated[
        int, Setting(NODES, 50, HOUR_MS, "how far a leader's clock may be from the majority's")
    ] = 500  # a leader further from them gives leadership away
    condition_check_ms: Annotated[
        int, Setting(RUNS, 1_000, DAY_MS, "time between two looks at the conditions of a run")
    ] = 10_000
    backfill_max: Annotated[int, Setting(RUNS, 1, 10_000, "times that one backfill may name")] = 1_000
    queues_max: Annotated[int, Setting(ROOM, 0, 10_000, "how many queues with limits there may be")] = 1_000
    steps_kept: Annotated[int, Setting(KEPT, 4, 1_000, "how many steps of one run are kept for `explain`")] = 40
    events_max: Annotated[
        int, Setting(KEPT, 0, 100_000_000, "how many events are kept for `GET /v1/events`; 0: none are recorded")
    ] = 1_000_000
    events_keep_ms: Annotated[int, Setting(KEPT, 1_000, 30 * DAY_MS, "how long an event is kept at most")] = HOUR_MS
    audit_max: Annotated[
        int,
        Setting(KEPT, 1_000, 10_000_000, "how many notes are kept for `GET /v1/audit`, of each kind", logged_least=0),
    ] = 100_000
    audit_keep_ms: Annotated[
        int, Setting(KEPT, DAY_MS, 3_650 * DAY_MS, "how long a note of the audit is kept at most", logged_least=1_000)
    ] = 90 * DAY_MS
    namespaces_max: Annotated[int, Setting(ROOM, 0, 10_000, "how many namespaces may be declared")] = 1_000
    namespaces_strict: Annotated[
        int, Setting(ROOM, 0, 1, "1: new jobs and secrets only in namespaces that are declared, and in `default`")
    ] = 0
    secrets_max: Annotated[int, Setting(ROOM, 0, 100_000, "how many secrets there may be")] = 1_000
    load_ahead_ms: Annotated[
        int,
        Setting(
            NODES,
            1_000,
            LOAD_AHEAD_MAX_MS,
            "the leader has due times within this span in its memory, and later ones only on its disk",
        ),
    ] = 10 * MINUTE_MS
    rate_per_token: Annotated[
        int,
        Setting(
            REQUESTS,
            0,
            RATE_COUNT_MAX,
            "requests a second that each node accepts from a token without a rate of its own; 0: no limit",
        ),
    ] = 0
    burst_per_token: Annotated[
        int,
        Setting(REQUESTS, 0, RATE_COUNT_MAX, "of `rate_per_token`, requests at once; 0: twice as many as in a second"),
    ] = 0
    rate_per_address: Annotated[
        int,
        Setting(
            REQUESTS,
            0,
            RATE_COUNT_MAX,
            "where tokens are required: requests a second of one address that need none "
            "(`/docs`, `/openapi.json`, open `/metrics`); 0: as many as come",
        ),
    ] = 500
    burst_per_address: Annotated[
        int,
        Setting(
            REQUESTS, 0, RATE_COUNT_MAX, "of `rate_per_address`, requests at once; 0: twice as many as in a second"
        ),
    ] = 0
    failures_per_address: Annotated[
        int,
        Setting(
            REQUESTS, 1, RATE_COUNT_MAX, "refusals (401) a second of one address, and twice as many at once; then 429"
        ),
    ] = 100
    metrics_open: Annotated[int, Setting(REQUESTS, 0, 1, "1: `/metrics` needs no token")] = 0
    worker_ttl_ms: Annotated[
        int,
        Setting(
            WORKERS,
            2_000,
            10 * MINUTE_MS,
            "for how long a remote worker may run jobs after its last word; of sessions opened from then on",
        ),
    ] = 10_000  # the worker renews this lease four times as often
    workers_max: Annotated[int, Setting(WORKERS, 0, 10_000, "how many remote workers there may be at one time")] = 1_000
    output_max_bytes: Annotated[
        int,
        Setting(
            KEPT,
            *OUTPUT_MAX_BYTES,
            "bytes that are kept of the output of an attempt, its first and its last half; of attempts that "
            "start from then on",
        ),
    ] = 2**20
    output_keep_ms: Annotated[
        int,
        Setting(
            KEPT, *OUTPUT_KEEP_MS, "how long output is kept, however long its run is; each node looks once a minute"
        ),
    ] = 7 * DAY_MS
    upgrade_hold: Annotated[
        int,
        Setting(NODES, 0, 1, "1: the cluster goes on as with its oldest version, so that nodes can go back to that"),
    ] = 0
    output_copies: Annotated[
        int,
        Setting(
            KEPT, *OUTPUT_COPIES, "how many nodes have the output of a run that has ended: 2 for a second copy", level=5
        ),
    ] = 1


def _rows() -> dict[str, Setting]:
    hints = get_type_hints(Settings, include_extras=True)
    found: dict[str, Setting] = {name: hints[name].__metadata__[0] for name in Settings.__struct_fields__}
    shown = list(found)
    for name, row in found.items():
        if row.shown_before:
            shown.remove(name)
            shown.insert(shown.index(row.shown_before), name)
    return {name: found[name] for name in shown}


SETTINGS = _rows()  # by field, in the order of answers
