"""Workflows: the runs that were started by the end of others, from the first of them, their root, on.

A job with a trigger of the kind AFTER follows other jobs. It runs once for each root: the key of its run is made of the
root's, so that no end can start it twice. A job that waits for several is about one scheduled time: runs that were
due at the same time belong together, whatever started them, and a run that somebody asked for belongs to none but its
own.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

import msgspec

from raftsched.core.ids import BACKFILL, instance_key, split_instance
from raftsched.core.limits import KEY_SIZE
from raftsched.core.model import FINAL, After, AfterOn, Instance, InstanceState
from raftsched.core.subjects.command import Command
from raftsched.core.tables import ReadView, Table, after, u64

JOIN_KEEP_MS = 7 * 86_400_000  # how long a job waits for the second of two ends, and so on
KILL_STEP = 100  # runs that one command kills


class Workflow(msgspec.Struct, array_like=True, kw_only=True):
    """A row for all runs of one root."""

    created_at_ms: int
    killed_at_ms: int | None = None  # since then no end starts anything more of it
    reruns: int = 0  # how often it was rerun from somewhere on


class Join(msgspec.Struct, array_like=True, kw_only=True):
    """The ends that have come, of those that a job waits for."""

    at_ms: int  # when one came last
    root: bytes  # of the first that came
    came: dict[str, bytes] = {}  # namespace/name -> the key of the instance
    rerun_id: int = 0  # the highest of these


class KillWorkflow(Command, frozen=True, tag=122):
    """Ends runs of a workflow, up to KILL_STEP behind `after`, and lets nothing more of it start. `namespaces`: where
    the caller may end runs; None: in all."""

    root: bytes
    after: bytes = b""
    namespaces: tuple[str, ...] | None = None


_BITS = {AfterOn.SUCCEEDED: 1, AfterOn.FAILED: 2, AfterOn.ENDED: 4}
_FAILED = (InstanceState.FAILED, InstanceState.TIMED_OUT)
_OWN_TIME = (0, BACKFILL)  # requests of runs whose time follows from a trigger


def bit(on: AfterOn) -> int:
    """Returns the bit of Instance.followed that stands for such ends."""
    return _BITS[on]


def wanted(on: AfterOn, state: InstanceState) -> bool:
    """Returns whether a final state is such an end."""
    if on is AfterOn.SUCCEEDED:
        return state is InstanceState.SUCCEEDED
    return on is AfterOn.ENDED or state in _FAILED


def ends_of(state: InstanceState) -> int:
    """Returns the bits of all ends that a final state is."""
    return sum(number for on, number in _BITS.items() if wanted(on, state))


def waits_for_all(trigger: After) -> bool:
    """Returns whether the job waits for several ends."""
    return len(trigger.jobs) > 1 and not trigger.any_of


def scope_of(root: bytes) -> bytes:
    """Returns what the roots have in common whose runs a job waits for together: their time, if it follows from their
    triggers. Else a root is by itself."""
    nominal_at_ms, _, request = split_instance(root)
    return instance_key(nominal_at_ms, 0, request) if request in _OWN_TIME else root


def run_key(trigger: After, job_id: int, root: bytes) -> bytes:
    """Returns the key of the run of a job that follows, in the workflow of this root."""
    nominal_at_ms, _, request = split_instance(root)
    if request != BACKFILL:  # backfilled runs have a number of their own, by which retention knows them
        source = scope_of(root) if waits_for_all(trigger) else root
        request = int.from_bytes(blake2b(source, digest_size=8).digest(), "big") or 1
    return instance_key(nominal_at_ms, job_id, request)


def join_key(scope: bytes, job_id: int) -> bytes:
    return scope + u64(job_id)


def member_key(root: bytes, instance: bytes) -> bytes:
    """Returns the key of an instance's row in WORKFLOWS."""
    return root + instance


def member_value(instance: Instance) -> bytes:
    """Returns its value. All that are not at their end are alike: a run that starts is not written here. Nor is one at
    its end while it has jobs to start: the workflow goes on."""
    over = instance.state in FINAL and instance.telling is None
    return bytes((instance.state if over else InstanceState.WAITING,))


def roots(view: ReadView, low: bytes, high: bytes) -> Iterator[bytes]:
    """Yields the roots of workflows from `low` up to below `high`, those of the newest scheduled time first."""
    while (row := next(view.scan(Table.WORKFLOWS, low, high, reverse=True), None)) is not None:
        high = row[0][:KEY_SIZE]
        yield high


def members(view: ReadView, root: bytes, behind: bytes = b"") -> Iterator[tuple[bytes, InstanceState]]:
    """Yields the keys of a workflow's instances, in order of their keys, and their states: final ones, or WAITING."""
    low = root + b"\0" if not behind else root + behind + b"\0"
    for key, value in view.scan(Table.WORKFLOWS, low, after(root)):
        yield key[KEY_SIZE:], InstanceState(value[0])
