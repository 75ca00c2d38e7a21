"""The settings as the API describes them: what each is for, its default and its bounds."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from raftsched.api.jobs.schema import Duration
from raftsched.core.limits import SETTINGS
from raftsched.core.subjects.cluster import Settings
from raftsched.quantities import format_duration

_NO_RATE = "0: as many as come"


def _burst(rate: str) -> str:
    return f"of `{rate}`, requests at once; 0: twice as many as in a second"


TEXTS = {
    "session_ttl": "how long a worker may go unheard before its runs are given to others; for sessions that are opened "
    "from then on",
    "timeout_ceiling": "the longest `timeout` of a job",
    "body_max_bytes": "bytes of a job; its handler and params take 122,880 together at most, whatever this is",
    "params_max_bytes": "bytes of the `params` of a job or of a run",
    "start_deadline": "how long a recurring run waits for somebody to take it",
    "once_succeeded_keep": "how long a one-shot that succeeded is kept",
    "once_failed_keep": "how long a one-shot that failed is kept",
    "catch_up_max": "runs that are made up for after one gap, under the misfire policy `all`",
    "queue_all_max": "runs that wait for one job under the overlap policy `queue_all`",
    "active_max": "runs of one job that may be active at one time",
    "attempts_kept": "how many attempts of one run are kept, the newest",
    "idempotency_keep": "how long an `Idempotency-Key` is remembered",
    "idempotency_max": "how many keys are remembered; beyond that the oldest go early",
    "ageing": "waiting that is worth a level of priority",
    "dead_letter_keep": "how long a dead letter is kept",
    "clock_limit": "how far a leader's clock may be from the majority's",
    "condition_check": "time between two looks at the conditions of a run",
    "backfill_max": "times that one backfill may name",
    "queues_max": "how many queues with limits there may be",
    "steps_kept": "how many steps of one run are kept for `explain`",
    "events_max": "how many events are kept for `GET /v1/events`; 0: none are recorded",
    "events_keep": "how long an event is kept at most",
    "audit_max": "how many notes are kept for `GET /v1/audit`, of each kind",
    "audit_keep": "how long a note of the audit is kept at most",
    "namespaces_max": "how many namespaces may be declared",
    "namespaces_strict": "1: new jobs and secrets only in namespaces that are declared, and in `default`",
    "secrets_max": "how many secrets there may be",
    "load_ahead": "what is due within this time is in the leader's memory, what is due later on its disk alone",
    "rate_per_token": f"requests a second that each node takes of a token which has no rate of its own; {_NO_RATE}",
    "burst_per_token": _burst("rate_per_token"),
    "rate_per_address": "where tokens are required: requests a second of one address that need none (`/docs`, "
    f"`/openapi.json`, open `/metrics`); {_NO_RATE}",
    "burst_per_address": _burst("rate_per_address"),
    "failures_per_address": "refusals (401) a second of one address, and twice as many at once; then 429",
    "metrics_open": "1: `/metrics` needs no token",
    "worker_ttl": "for how long a remote worker may run jobs after its last word; of sessions opened from then on",
    "workers_max": "how many remote workers there may be at one time",
    "output_max_bytes": "bytes that are kept of the output of an attempt, its first and its last half; of attempts "
    "that start from then on",
    "output_keep": "how long output is kept, however long its run is; each node looks once a minute",
    "output_copies": "nodes that have what a run printed, once it has ended: 2 for a second copy",
    "upgrade_hold": "1: the cluster goes on as with its oldest version, so that nodes can go back to that",
}


def setting_name(field: str) -> str:
    """Returns the API's name for a field of core.subjects.cluster.Settings: durations are text there."""
    return field.removesuffix("_ms")


def is_duration(field: str) -> bool:
    return field.endswith("_ms")


def _given(field: str) -> tuple[str, Any, Any]:
    least, most = SETTINGS[field]
    kind: Any = Duration if is_duration(field) else _integer(least, most)
    return setting_name(field), kind | None | UnsetType, UNSET


def _integer(least: int, most: int) -> Any:
    return Annotated[int, Meta(ge=least, le=most, description=f"an integer from {least:,} to {most:,}")]


def _shown(field: str) -> tuple[str, Any]:
    """Says what the setting is for, its default and, under x-bounds, the least and the most that it may be."""
    name, default, bounds = setting_name(field), getattr(Settings(), field), SETTINGS[field]
    kind: Any = int
    extra: dict[str, Any] = {"default": default, "x-bounds": list(bounds)}
    if is_duration(field):
        kind, extra = Duration, {"default": format_duration(default), "x-bounds": [*map(format_duration, bounds)]}
    return name, Annotated[kind, Meta(description=TEXTS[name], extra_json_schema=extra)]


SettingsOut = msgspec.defstruct(
    "SettingsOut",
    [_shown(field) for field in SETTINGS],
    namespace={"__doc__": "All settings, as they are."},
)
SettingsIn = msgspec.defstruct(
    "SettingsIn",
    [_given(field) for field in SETTINGS],
    forbid_unknown_fields=True,
    namespace={"__doc__": "A change of the settings; null: the default."},
)
