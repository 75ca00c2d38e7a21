"""Tells what a job asks for that nobody offers now. It is made all the same: a node, a handler or a queue may come
later.

Creates are asked this each time, so what was found for one need is remembered for FRESH_S, and so are those who could
be given runs. Nobody knows which modules nodes can import, or which directories they have: that shows when it runs.
"""

from __future__ import annotations

import msgspec

from raftsched.api.context import FRESH_S, ApiContext, meta
from raftsched.api.runs.waiting import Candidate, candidates, nobody_takes
from raftsched.core.model import Policy
from raftsched.core.rows import QUEUES
from raftsched.core.rules.eligibility import need_of
from raftsched.core.tables import ReadView
from raftsched.surface.job_shapes import WarningOut

_FOUND_MAX = 1_000  # needs that are remembered
_DEFAULT_QUEUE = "default"  # it has no limits, and is always there
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[WarningOut]).decode


def warned(ctx: ApiContext, body: bytes, policy: Policy, namespace: str) -> bytes:
    """Returns the answer with the warnings about the job in it, where it has any."""
    found = found_as_json(ctx, policy, namespace)
    return body[:-1] + b',"warnings":' + found + b"}" if found else body


def warnings_now(ctx: ApiContext, policy: Policy, namespace: str) -> list[WarningOut]:
    """Returns the warnings, as of a moment ago."""
    found = found_as_json(ctx, policy, namespace)
    return _decode(found) if found else []


def found_as_json(ctx: ApiContext, policy: Policy, namespace: str) -> bytes:
    """Returns the warnings as a JSON array; empty: there is none."""
    seen, now = ctx.warnings_seen, ctx.clock.monotonic()
    need = need_of(policy, namespace)
    if now - seen.at > FRESH_S or len(seen.found) >= _FOUND_MAX:
        seen.found.clear()
        seen.at = now
        with ctx.read() as view:
            seen.nodes = list(candidates(view, meta(view)))
    found = seen.found.get(need)
    if found is None:
        with ctx.read() as view:
            told = warnings_of(view, seen.nodes, policy, namespace)
        found = seen.found[need] = _encode(told) if told else b""
    return found


def warnings_of(view: ReadView, among: list[Candidate], policy: Policy, namespace: str) -> list[WarningOut]:
    """Returns the warnings about a job. `among`: who could be given runs."""
    found: list[WarningOut] = []
    if not among:  # a cluster that has only just started: nobody has said yet what it offers
        return found
    why = nobody_takes(among, policy, namespace)
    if why is not None:
        found.append(WarningOut("no-executor", _field(policy), f"{why} Its runs wait until one can take them."))
    queue = policy.queue
    if queue != _DEFAULT_QUEUE and QUEUES.get(view, queue) is None and not _is_served(among, queue):
        detail = f'There is no queue "{queue}": its runs have no limits in common until somebody makes it.'
        found.append(WarningOut("no-queue", "queue", detail))
    return found


def _is_served(among: list[Candidate], queue: str) -> bool:
    """Returns whether a node or worker names the queue as one that it takes runs of."""
    return any(queue in (one.offer.queues or ()) for one in among)


def _field(policy: Policy) -> str:
    return "placement" if policy.node_labels else "handler"
