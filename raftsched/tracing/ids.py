"""Makes the ids of a run's trace. Every node derives the same ones, so that they need no place in the log."""

from __future__ import annotations

from hashlib import sha256

_PURPOSE = b"raftsched trace\0"


def trace_ids(cluster_id: bytes, instance: bytes, whole: bytes | None = None) -> tuple[int, int]:
    """Returns the id of the trace of an instance (by its row key), and the id of the span of its fire, which the spans
    of its attempts have as their parent. `whole`: of a part, the run that it is a part of: they share a trace. The
    cluster's id is in it, because a backup that is restored goes on with the same instances in another cluster."""
    of_trace = _digest(cluster_id, instance if whole is None else whole)
    of_span = of_trace if whole is None else _digest(cluster_id, instance)
    # W3C Trace Context, section 3.2: an id of zeros is none.
    return int.from_bytes(of_trace[:16]) or 1, int.from_bytes(of_span[16:24]) or 1


def _digest(cluster_id: bytes, instance: bytes) -> bytes:
    return sha256(_PURPOSE + cluster_id + b"\0" + instance).digest()
