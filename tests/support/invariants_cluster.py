"""What holds in the tables of the cluster's own: keys, namespaces, changes, access, webhooks."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

import msgspec

from raftsched.bounds import MINUTE_MS
from raftsched.core.apply.cluster.membership import TERMS_MAX
from raftsched.core.apply.runs.minute_counts import OPEN_MAX
from raftsched.core.model import Instance, Job, JobState
from raftsched.core.rows import (
    MINUTES,
    OPEN_MINUTE,
    TERMS,
    ZONES,
    decode_access,
    decode_meta,
    decode_namespace,
    decode_queue,
    decode_secret,
    decode_token,
    decode_webhook,
)
from raftsched.core.subjects.access import ACCESS_KEY, Role, split_record
from raftsched.core.subjects.changes import PER_ROW, change_key, decode_row, row_head, split_change
from raftsched.core.subjects.keyed import KeyUse
from raftsched.core.subjects.minutes import ALL, LATE_MS, OPEN_KEY, Minute, add_up, minute_key
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE, SYSTEM_QUEUE, decode_notice, encode_notice
from raftsched.core.subjects.webhook import queue_of
from raftsched.core.subjects.zones import ZONES_KEY
from raftsched.core.tables import ReadView, Table, from_u64, name_key, u64


def cluster_violations(view: ReadView, jobs: dict[int, Job], rows: dict[bytes, Instance], found: list[str]) -> None:
    """Adds what does not hold to `found`."""
    _keys(view, found)
    _namespaces(view, jobs, found)
    _changes(view, found)
    _access(view, found)
    _webhooks(view, jobs, rows, found)
    _minutes(view, found)
    _terms(view, found)
    _zones(view, jobs, found)


def same(found: list[str], view: ReadView, table: Table, wanted: dict[bytes, bytes]) -> None:
    there = dict(view.scan(table))
    for key in there.keys() - wanted.keys():
        found.append(f"{table.name} row {key.hex()} belongs to nobody")
    for key in wanted.keys() - there.keys():
        found.append(f"{table.name} row {key.hex()} is missing")
    for key in there.keys() & wanted.keys():
        if there[key] != wanted[key]:
            found.append(f"{table.name} row {key.hex()} holds {there[key]!r} instead of {wanted[key]!r}")


def _keys(view: ReadView, found: list[str]) -> None:
    meta = decode_meta(view.get(Table.META, b"meta"))
    uses = {k: msgspec.msgpack.decode(v, type=KeyUse) for k, v in view.scan(Table.KEYS)}
    same(found, view, Table.KEY_TIMES, {u64(use.at_ms) + key: b"" for key, use in uses.items()})
    if meta.keys != len(uses):
        found.append(f"meta counts {meta.keys} keys; there are {len(uses)}")
    for key, use in uses.items():
        if len(key) != 32 or len(use.digest) != 32 or use.job_id > meta.last_id:
            found.append(f"key {key.hex()} holds {use}")
        places = [made.place + i for made in use.made for i in range(made.count)]
        ids = [made.job_id + made.count - 1 for made in use.made]
        if len(set(places)) != len(places) or (use.made and (use.job_id or max(ids) > meta.last_id)):
            found.append(f"key {key.hex()} of a batch holds {use}")


def _namespaces(view: ReadView, jobs: dict[int, Job], found: list[str]) -> None:
    """What is in them is counted; a row that says nothing and counts nothing is not there."""
    counted = Counter(job.namespace for job in jobs.values() if job.state is not JobState.DELETED)
    declared = 0
    secrets = {key: decode_secret(raw) for key, raw in view.scan(Table.SECRETS)}
    held = Counter(secret.namespace for secret in secrets.values())
    for key, secret in secrets.items():
        if key != name_key(secret.namespace, secret.name) or not secret.revision:
            found.append(f"SECRETS row {key.hex()} is of {secret}, at revision {secret.revision}")
    if decode_meta(view.get(Table.META, b"meta")).secrets != len(secrets):
        found.append(f"meta counts other secrets than there are: {len(secrets)}")
    rows = {key.decode(): decode_namespace(raw) for key, raw in view.scan(Table.NAMESPACES)}
    for name in rows.keys() | counted.keys() | held.keys():
        row = rows.get(name)
        if row is None:
            found.append(f"namespace {name} has no row, and {counted[name]} jobs")
            continue
        declared += row.revision > 0
        if row.name != name or not row.is_needed:
            found.append(f"NAMESPACES row {name} is of {row.name} and of no use")
        if row.secrets != held[name]:
            found.append(f"namespace {name} counts {row.secrets} secrets; there are {held[name]}")
        if row.jobs != counted[name]:
            found.append(f"namespace {name} counts {row.jobs} jobs; there are {counted[name]}")
        if not row.revision and (row.content or row.max_jobs is not None):
            found.append(f"namespace {name} is not declared, and something is said about it")
    if decode_meta(view.get(Table.META, b"meta")).namespaces != declared:
        found.append(f"meta counts other declared namespaces than there are: {declared}")


def _changes(view: ReadView, found: list[str]) -> None:
    """Events are counted, in order, and what is gone is older than all that is kept."""
    meta = decode_meta(view.get(Table.META, b"meta"))
    kept, following = 0, b""
    for key, raw in view.scan(Table.CHANGES):
        at_ms, changes = decode_row(raw)
        index, position = split_change(key)
        kept += len(changes)
        if row_head(raw) != (at_ms, len(changes)) or not 1 <= len(changes) <= PER_ROW:
            found.append(f"CHANGES row {key.hex()} says {row_head(raw)} and holds {len(changes)} of {at_ms}")
        if key < following or (following[:8] != key[:8] and position and not meta.changes_gone):
            found.append(f"CHANGES row {key.hex()} begins before {following.hex()}, or not with its entry")
        if key <= meta.changes_gone:
            found.append(f"CHANGES row {key.hex()} is kept; {meta.changes_gone.hex()} is gone")
        following = change_key(index, position + len(changes))
    if meta.changes != kept:
        found.append(f"meta counts {meta.changes} events; there are {kept}")


def _minutes(view: ReadView, found: list[str]) -> None:
    """The row of all namespaces adds up the others of its minute."""
    totals: dict[int, Minute] = {}
    sums: dict[int, Minute] = defaultdict(Minute)
    for key, raw in view.scan(Table.MINUTES):
        at_ms, namespace, row = from_u64(key[:8]), key[8:].decode(), MINUTES.decode(raw)
        if at_ms % MINUTE_MS or minute_key(at_ms, namespace) != key:
            found.append(f"MINUTES row {key.hex()} is of no minute")
        if namespace not in (ALL, SYSTEM_NAMESPACE):
            add_up(sums[at_ms], row)
        elif namespace == ALL:
            totals[at_ms] = row
        if row.late > row.started or (row.late_max_ms > LATE_MS) != (row.late > 0):
            found.append(f"MINUTES row {key.hex()} says {row}")
    now_ms = decode_meta(view.get(Table.META, b"meta")).now_ms
    going = OPEN_MINUTE.get(view, OPEN_KEY)
    if going is not None and (going.at_ms % MINUTE_MS or len(going.rows) > OPEN_MAX):
        found.append(f"the minute that goes on began at {going.at_ms} and has {len(going.rows)} namespaces")
    for at_ms in sorted(sums)[1:]:  # the oldest may have been dropped in part, and so may those ahead of time
        if at_ms > now_ms:
            break
        if totals.get(at_ms) != sums[at_ms]:
            found.append(f"the minute {at_ms} has {totals.get(at_ms)} in all, and {sums[at_ms]} in its namespaces")


def _zones(view: ReadView, jobs: dict[int, Job], found: list[str]) -> None:
    """Numbers of time zone data are no later than that of the present one."""
    number = decode_meta(view.get(Table.META, b"meta")).zones
    row = ZONES.get(view, ZONES_KEY)
    if (row is None) != (number == 0) or (row is not None and not (row.data and row.settled <= number)):
        found.append(f"the time zone data is {row}, and its number {number}")
    for job in jobs.values():
        if max(job.zones, *(state.zones for state in job.triggers), 0) > number:
            found.append(f"job {job.id} has a time by data that nobody used yet")


def _terms(view: ReadView, found: list[str]) -> None:
    """Each leadership began after the one before it; the newest is that of the counters."""
    meta = decode_meta(view.get(Table.META, b"meta"))
    terms = [(from_u64(key), TERMS.decode(raw)) for key, raw in view.scan(Table.TERMS)]
    if any(a.index > b.index for (_, a), (_, b) in pairwise(terms)) or len(terms) > TERMS_MAX:
        found.append(f"{len(terms)} leaderships are kept, or not in the order of the log")
    if terms and meta.leader and (terms[-1][0], terms[-1][1].leader) != (meta.epoch, meta.leader):
        found.append(f"the newest leadership is {terms[-1]}, and meta has {meta.epoch} of {meta.leader}")


def _access(view: ReadView, found: list[str]) -> None:
    raw = view.get(Table.ACCESS, ACCESS_KEY)
    access = decode_access(raw)
    tokens = {key: decode_token(value) for key, value in view.scan(Table.TOKENS)}
    same(found, view, Table.TOKEN_IDS, {u64(token.id): key for key, token in tokens.items()})
    for key, token in tokens.items():
        if token.digest != key:
            found.append(f"token {token.name} is stored under another secret")
    if len({token.name for token in tokens.values()}) != len(tokens) or len(tokens) != access.tokens:
        found.append(f"{len(tokens)} tokens, {access.tokens} counted; or two of one name")
    lasting = [t for t in tokens.values() if t.role is Role.ADMIN and t.revoked_at_ms is None and not t.expires_at_ms]
    if access.required and not lasting:
        found.append("tokens are required, and nobody can make one")
    if access.secret and not access.required:
        found.append("the secret of the nodes is there when it is not needed")
    notes = Counter(split_record(key)[0] for key, _ in view.scan(Table.AUDIT))
    if [notes[ring] for ring in range(len(access.notes))] != access.notes or len(notes) > len(access.notes):
        found.append(f"{notes} rows in AUDIT, {access.notes} counted")
    places = [key[1:] for key, _ in view.scan(Table.AUDIT)]
    if len(set(places)) != len(places):
        found.append("two notes have one place")


def _webhooks(view: ReadView, jobs: dict[int, Job], rows: dict[bytes, Instance], found: list[str]) -> None:
    """Each has its job, its queue and its secret; what is in their namespace is theirs; a delivery is of one of them,
    and all that are told of one end tell the same, each once."""
    meta = decode_meta(view.get(Table.META, b"meta"))
    hooks = {key.decode(): decode_webhook(raw) for key, raw in view.scan(Table.WEBHOOKS)}
    if meta.webhooks != len(hooks):
        found.append(f"meta counts {meta.webhooks} webhooks; there are {len(hooks)}")
    if [key.decode() for key, _ in view.scan(Table.WEBHOOK_SECRETS)] != sorted(hooks):
        found.append(f"there are not the secrets of {sorted(hooks)}")
    queues = {k.decode(): decode_queue(v) for k, v in view.scan(Table.QUEUES)}
    if {name for name in queues if name.startswith(SYSTEM_QUEUE)} != {queue_of(name) for name in hooks}:
        found.append(f"the queues {sorted(queues)} are not those of {sorted(hooks)}")
    for name, hook in hooks.items():
        job = jobs.get(hook.job_id)
        if hook.name != name or job is None or (job.namespace, job.name) != (SYSTEM_NAMESPACE, name):
            found.append(f"webhook {name} is named {hook.name} and has the job {job}")
        elif job.state is not JobState.SCHEDULED or job.policy.retry.delays_ms != hook.spec.delays_ms:
            found.append(f"webhook {name} has a job that is {job.state.name}, with {job.policy}")
        queue = queues.get(queue_of(name))
        if queue is None or (queue.max_running, queue.paused) != (hook.spec.max_running, not hook.spec.active):
            found.append(f"webhook {name}, {hook.spec}, has the queue {queue}")
    for job_id, job in jobs.items():
        own = job.name in hooks and hooks[job.name].job_id == job_id
        if (job.namespace == SYSTEM_NAMESPACE) != own and job.state is not JobState.DELETED:
            found.append(f"job {job_id} of {job.namespace} is that of a webhook: {own}")
    told: dict[int, set[bytes]] = defaultdict(set)
    for key, row in rows.items():
        job = jobs.get(row.job_id)
        if job is not None and (row.notice is not None) != (job.namespace == SYSTEM_NAMESPACE):
            found.append(f"instance {key.hex()} has the notice {row.notice!r}")
        if row.notice is None:
            continue
        notice = decode_notice(row.notice)
        if notice.id != row.request or notice.id > meta.last_id:
            found.append(f"instance {key.hex()} delivers the event {notice.id}")
        told[notice.id].add(encode_notice(msgspec.structs.replace(notice, event=None, left_out=0)))
    for number, events in told.items():
        if len(events) > 1:
            found.append(f"the event {number} says {events}")
