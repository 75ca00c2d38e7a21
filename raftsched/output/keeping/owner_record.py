"""Writes and reads owner records: each precedes an output record and names its job, instance and namespace. Only nodes
that ship the output of runs write them.

The log says where an output lies, and not the other way round; and its rows may be gone before a receiver that was down
takes the output. So the run is named beside it, on the same disk with the same flush. A version without owner records
reads one as a record like any other, to which no place in the log refers.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from raftsched.core.ids import instance_text, job_text
from raftsched.core.rows import INSTANCES, JOBS
from raftsched.core.rules.executors import worker_name
from raftsched.core.tables import ReadView, Table, assigned_key
from raftsched.output.format.spool import HEAD

_KIND = 4  # beside the streams of frames
NAMED_MAX = 2_048  # bytes of such a record's body


class OutputOwner(msgspec.Struct, frozen=True, array_like=True):
    """Names the run that an output is of."""

    namespace: str
    job: str  # its name; its id when it has none
    instance: str
    attempt: int
    worker: str = ""  # the remote worker on which it ran; "": the node itself


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(OutputOwner).decode


def owner_of_run(view: ReadView, session: int, token: int) -> OutputOwner | None:
    """Returns the owner of the output of a live attempt of this session; None: it has no such attempt."""
    key = view.get(Table.ASSIGNED, assigned_key(session, token))
    instance = None if key is None else INSTANCES.get(view, key)
    attempt = None if instance is None else instance.live
    if instance is None or attempt is None or attempt.token != token:
        return None
    job = JOBS.get(view, instance.job_id)
    namespace, name = ("", None) if job is None else (job.namespace, job.name)
    worker = worker_name(attempt.node) or ""
    return OutputOwner(
        namespace, name or job_text(instance.job_id), instance_text(instance.key), attempt.number, worker
    )


def owner_of_local(namespace: str, run_env: Mapping[str, str]) -> OutputOwner | None:
    """Returns the owner of the output of a run on this node, from its variables (tasks.env_of); None: it has none."""
    if "RAFTSCHED_INSTANCE_ID" not in run_env:
        return None
    job = run_env["RAFTSCHED_JOB_NAME"] or run_env["RAFTSCHED_JOB_ID"]
    return OutputOwner(namespace, job, run_env["RAFTSCHED_INSTANCE_ID"], int(run_env["RAFTSCHED_ATTEMPT"]))


def body_of(owner: OutputOwner) -> bytes:
    """Returns the body of an owner record."""
    packed = _encode(owner)
    return HEAD.pack(_KIND, len(packed)) + packed


def read_body(body: bytes) -> OutputOwner | None:
    """Returns the owner that the body of a record names; None: it is the body of an output record."""
    if len(body) < HEAD.size or body[0] != _KIND:
        return None
    try:
        return _decode(body[HEAD.size :])
    except msgspec.DecodeError:
        return None
