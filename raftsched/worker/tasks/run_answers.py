"""Checks the answers of processes for python: the code of jobs runs in there, so it
may be anything. What passes is passed on as it is, under the name of that run and no other.
"""

from __future__ import annotations

import msgspec

from raftsched.run import STATE_MAX, TEXT_MAX
from raftsched.system.nesting import json_nests_deeper
from raftsched.worker.executors.returned import RESULT_MAX
from raftsched.worker.processes import wire

_OUTCOMES = (wire.SUCCEEDED, wire.FAILED)
_TIME_MAX = 1 << 53
_VERDICT_MAX = 5  # of core.model.Verdict, which the supervisor does not load
FORGED = "its process said what no run says of itself"


def said_by(token: int, message: bytes) -> wire.Finished | None:
    """The end of the run of this token; None when it is anything else."""
    done = _decoded(message)
    if not isinstance(done, wire.Finished) or done.token != token or done.outcome not in _OUTCOMES:
        return None
    if done.frames or done.spooled or done.truncated or not done.begun or done.alone:
        return None  # that is its keeper's to say
    if done.started_at_ms is None or not 0 <= done.started_at_ms <= done.ended_at_ms <= _TIME_MAX:
        return None
    if done.exit_code is not None and not 0 <= done.exit_code <= 255:
        return None
    if done.said is not None and not _may_be_reported(done.said):
        return None
    if done.error is not None and len(done.error.encode("utf-8", "replace")) > wire.ERROR_MAX:
        return None
    return done if done.result is None or _is_result(done.result) else None


def is_self_report(token: int, message: bytes) -> bool:
    """Returns whether it says something that the run of this token may say while it runs."""
    said = _decoded(message)
    return isinstance(said, wire.Progress) and said.token == token and _may_be_reported(said.said)


def _may_be_reported(said: wire.SelfReport) -> bool:
    if said.percent is not None and not 0 <= said.percent <= 100:
        return False
    if not 0 <= said.verdict <= _VERDICT_MAX or not 0 <= (said.delay_ms or 0) <= _TIME_MAX:
        return False
    if said.text is not None and len(said.text) > TEXT_MAX:
        return False
    return said.kept is None or (len(said.kept) <= STATE_MAX and _is_result(said.kept))


def is_stale(token: int, message: bytes) -> bool:
    """Returns whether it says that it ran nothing of the run of this token."""
    done = _decoded(message)
    return isinstance(done, wire.Finished) and done.token == token


def _decoded(message: bytes) -> object:
    """Returns the message; None: it is none."""
    try:
        return wire.decode_up(message)
    except (ValueError, RecursionError):
        return None


def _is_result(raw: bytes) -> bool:
    """Returns whether the process for python could have made it of what a function returned."""
    if len(raw) > RESULT_MAX:
        return False
    try:
        if json_nests_deeper(raw):
            return False
        msgspec.json.decode(raw)
    except (ValueError, RecursionError):
        return False
    return True
