"""Says whose an output is, in a record of its own before that of the output, on nodes that ship what runs print.

The log says where an output lies, and not the other way round; and its rows may be gone before a receiver that was down
takes the output. So the run is named beside it, on the same disk with the same flush. To a version that knows nothing
of this it is a record like any other, which no place in the log refers to.
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


class Whose(msgspec.Struct, frozen=True, array_like=True):
    """The run that an output is of."""

    namespace: str
    job: str  # its name; its id when it has none
    instance: str
    attempt: int
    worker: str = ""  # the remote worker on which it ran; "": the node itself


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Whose).decode


def whose_of(view: ReadView, session: int, token: int) -> Whose | None:
    """Returns whose a live attempt of this session is; None: it has no such attempt."""
    key = view.get(Table.ASSIGNED, assigned_key(session, token))
    instance = None if key is None else INSTANCES.get(view, key)
    attempt = None if instance is None else instance.live
    if instance is None or attempt is None or attempt.token != token:
        return None
    job = JOBS.get(view, instance.job_id)
    namespace, name = ("", None) if job is None else (job.namespace, job.name)
    worker = worker_name(attempt.node) or ""
    return Whose(namespace, name or job_text(instance.job_id), instance_text(instance.key), attempt.number, worker)


def whose_was_told(namespace: str, told: Mapping[str, str]) -> Whose | None:
    """Returns the same of what the run of a node was told of itself (tasks.told_of); None: it was told nothing."""
    if "RAFTSCHED_INSTANCE_ID" not in told:
        return None
    job = told["RAFTSCHED_JOB_NAME"] or told["RAFTSCHED_JOB_ID"]
    return Whose(namespace, job, told["RAFTSCHED_INSTANCE_ID"], int(told["RAFTSCHED_ATTEMPT"]))


def body_of(whose: Whose) -> bytes:
    """Returns the body of the record that says it."""
    packed = _encode(whose)
    return HEAD.pack(_KIND, len(packed)) + packed


def read_body(body: bytes) -> Whose | None:
    """Returns what the body of a record says; None: it is that of an output."""
    if len(body) < HEAD.size or body[0] != _KIND:
        return None
    try:
        return _decode(body[HEAD.size :])
    except msgspec.DecodeError:
        return None
