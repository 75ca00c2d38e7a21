"""Looking up and listing rows of the replicated tables, with a bound on the work of one request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from raftsched.api.auth.callers import check_permitted, permits, sees, within
from raftsched.api.context import ApiContext
from raftsched.api.http.problems import Problem
from raftsched.api.http.requests import Addressed, job_id_of
from raftsched.api.http.slices import Slices
from raftsched.api.ports import Peer
from raftsched.core.ids import instance_key, instance_text, parse_job, split_instance
from raftsched.core.model import Instance, InstanceState, Job, JobState, TriggerKind
from raftsched.core.rows import decode_instance, decode_job, decode_node_rule, decode_session
from raftsched.core.subjects.cluster import NodeRule, Session
from raftsched.core.tables import ReadView, Table, by_job_key, from_by_job, from_u64, name_key, u64

T = TypeVar("T")

_NO_RULE = NodeRule()


class JobHead(msgspec.Struct, array_like=True):
    """The first fields of a job's row: what is decoded where only its name is wanted."""

    id: int
    namespace: str
    name: str | None


decode_head = msgspec.msgpack.Decoder(JobHead).decode
SCAN_MAX = 2_000  # rows looked at for one page; then the page ends early and its cursor goes on


def get_job(view: ReadView, job_id: int) -> Job | None:
    """Returns the job; None also for a deleted one, and for one to which the caller may not do what they ask for."""
    job = _there(view, job_id)
    return job if job is not None and permits(job.namespace) else None


def _there(view: ReadView, job_id: int) -> Job | None:
    """Returns the job; None also for a deleted one."""
    raw = view.get(Table.JOBS, u64(job_id))
    job = None if raw is None else decode_job(raw)
    return None if job is None or job.state is JobState.DELETED else job


def meant_job(view: ReadView, job_id: int) -> Job | None:
    """Returns the one job that a request is about; None: it does not exist for the caller. Raises Problem forbidden:
    they see it, and may not do this to it."""
    job = _there(view, job_id)
    if job is None or not sees(job.namespace):
        return None
    check_permitted(job.namespace)
    return job


def get_named(view: ReadView, namespace: str, name: str) -> Job | None:
    """Returns the job of this name. Raises as meant_job does."""
    raw = view.get(Table.NAMES, name_key(namespace, name))
    return None if raw is None else meant_job(view, from_u64(raw))


def requested_job(view: ReadView, request: Addressed) -> Job:
    """Returns the job that the address names, by id or by namespace and name. Raises Problem not-found, forbidden."""
    if "name" in request.match_info:
        namespace, name = request.match_info["ns"], request.match_info["name"]
        job = get_named(view, namespace, name) if len(namespace) <= 64 and len(name) <= 128 else None
        if job is None:
            raise Problem("not-found", f'There is no job "{name[:128]}" in namespace "{namespace[:64]}".')
        return job
    job_id = job_id_of(request)
    job = meant_job(view, job_id)
    if job is None:
        raise Problem("not-found", f"There is no job {request.match_info['id']}.")
    return job


def referred_job(view: ReadView, text: str, namespace: str | None) -> Job | None:
    """Returns the job that a filter names: by id, as "namespace/name" or, with a namespace, by name. None: there is
    none. Raises as meant_job does."""
    within, slash, name = text.partition("/")
    if slash:
        if namespace not in (None, within) or not within or not name or len(within) > 64 or len(name) > 128:
            return None
        return get_named(view, within, name)
    job_id = parse_job(text)
    job = None if job_id is None else meant_job(view, job_id)
    if job is not None and namespace is not None and job.namespace != namespace:
        job = None
    if job is None and namespace is not None and len(namespace) <= 64 and len(text) <= 128:
        job = get_named(view, namespace, text)
    return job


def get_instance(view: ReadView, key: bytes) -> Instance | None:
    raw = view.get(Table.INSTANCES, key)
    return None if raw is None else decode_instance(raw)


def record_of(view: ReadView, key: bytes) -> Instance | None:
    """Returns the SKIPPED record that the due time of an instance is counted in: a run that did not start is no row of
    its own any more where the one beside it did not either. None: there is none."""
    nominal_at_ms, job_id, request = split_instance(key)
    if request:
        return None
    found = next(view.scan(Table.BY_JOB, u64(job_id), by_job_key(key), reverse=True), None)
    row = None if found is None else get_instance(view, from_by_job(found[0]))
    if row is None or row.state is not InstanceState.SKIPPED or (row.gap_until_ms or 0) < nominal_at_ms:
        return None
    return row


def requested_instance(view: ReadView, key: bytes) -> Instance:
    """Returns the instance, or the record that its due time is counted in. Raises Problem not-found, also when it does
    not exist for the caller; forbidden when they may only see it."""
    row = get_instance(view, key) or record_of(view, key)
    limited = within() is not None
    namespace = namespace_of(view, key) if limited else None
    if row is None or (limited and (namespace is None or not sees(namespace))):
        raise Problem("not-found", f"There is no instance {instance_text(key)}.")
    if namespace is not None:
        check_permitted(namespace)
    return row


def permitted_instance(view: ReadView, key: bytes) -> bool:
    """Returns whether the caller may do what they ask for to an instance, if there is one."""
    if within() is None:
        return True
    namespace = namespace_of(view, key)
    return namespace is not None and permits(namespace)


def namespace_of(view: ReadView, key: bytes) -> str | None:
    """Returns the namespace of an instance, which is that of its job, also of one that was deleted. None: nothing is
    known of that job."""
    raw = view.get(Table.JOBS, key[8:16])
    return None if raw is None else decode_head(raw).namespace


def get_session(view: ReadView, number: int) -> Session | None:
    raw = view.get(Table.SESSIONS, u64(number))
    return None if raw is None else decode_session(raw)


def newest_session(view: ReadView, node: str) -> Session | None:
    raw = view.get(Table.NODES, node.encode())
    return None if raw is None else get_session(view, from_u64(raw))


def address_of(view: ReadView, node: str, peers: Iterable[Peer]) -> str | None:
    """Returns where a node's API is: as it says while it is connected with this one, else as its newest session has it.
    None: that is not known."""
    said = next((peer.http for peer in peers if peer.node_id == node), None)
    session = None if said else newest_session(view, node)
    return said or (session.http if session is not None else None) or None


def node_rule(view: ReadView, node: str) -> NodeRule:
    """Returns the settings of a node; defaults where none were made."""
    raw = view.get(Table.NODE_RULES, node.encode())
    return _NO_RULE if raw is None else decode_node_rule(raw)


def page(
    rows: Iterable[tuple[bytes, bytes]], limit: int, take: Callable[[bytes, bytes], T | None]
) -> tuple[list[T], bytes | None]:
    """Returns the rows that `take` keeps, and the key of the last row looked at when there may be more."""
    items: list[T] = []
    last = None
    for seen, (key, value) in enumerate(rows):
        if len(items) >= limit or seen >= SCAN_MAX:
            return items, last
        item = take(key, value)
        if item is not None:
            items.append(item)
        last = key
    return items, None


async def paged(
    ctx: ApiContext,
    slices: Slices,
    rows: Callable[[ReadView, bytes | None], Iterable[tuple[bytes, bytes]]],
    limit: int,
    take: Callable[[ReadView, bytes, bytes], T | None],
    last: bytes | None = None,
) -> tuple[list[T], bytes | None]:
    """Returns the same as `page`, in slices of time, each with a view of its own. `rows`: those behind a key; None:
    from the first on. `last`: the key to begin behind."""
    items: list[T] = []
    looked = 0
    while True:
        with ctx.read() as view:
            for key, value in rows(view, last):
                if len(items) >= limit or looked >= SCAN_MAX:
                    return items, last
                looked += 1
                item = take(view, key, value)
                if item is not None:
                    items.append(item)
                last = key
                if slices.over:
                    break
            else:
                return items, None
        await slices.turn()


def following(key: bytes) -> bytes:
    """Returns the smallest key above this one."""
    return key + b"\0"


def instances_of(
    view: ReadView, job: Job, low_ms: int, high_ms: int, before: bytes | None
) -> Iterator[tuple[bytes, bytes]]:
    """Yields (instance key, row) of one job, newest first, from `low_ms` up to below `high_ms`, below the key `before`.

    The scheduled instance of a one-shot has no BY_JOB row: its key follows from the job."""
    extra = sorted((k for k in _own_keys(job) if low_ms <= from_u64(k[:8]) < high_ms), reverse=True)
    if before is not None:
        extra = [key for key in extra if key < before]
    prefix = u64(job.id)
    low = prefix + u64(low_ms)
    high = prefix + u64(high_ms) if before is None else min(prefix + u64(high_ms), by_job_key(before))
    for index_key, _ in view.scan(Table.BY_JOB, low, high, reverse=True):
        key = from_by_job(index_key)
        while extra and extra[0] >= key:
            own = extra.pop(0)
            if own != key:
                yield from _row(view, own)
        yield from _row(view, key)
    for own in extra:
        yield from _row(view, own)


def _row(view: ReadView, key: bytes) -> Iterator[tuple[bytes, bytes]]:
    raw = view.get(Table.INSTANCES, key)
    if raw is not None:
        yield key, raw


def _own_keys(job: Job) -> set[bytes]:
    trigger = job.policy.trigger
    if not trigger.once:
        return set()
    keys = {instance_key(trigger.at_ms, job.id)}
    if trigger.kind is TriggerKind.IN:
        keys = {instance_key(job.anchor_at_ms + trigger.period_ms, job.id)}
    if job.last_instance is not None:
        keys.add(job.last_instance)
    return keys
