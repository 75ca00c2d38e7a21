"""The word of a run about itself: how far it is, what it keeps, and what its end comes to. For that its own word goes
first, then its job's `outcomes`, then success or failure as it was reported."""

from __future__ import annotations

import re

import msgspec

from raftsched.bounds import PROGRESS_TEXT_MAX
from raftsched.core.apply.tx import Tx
from raftsched.core.commands import SelfReport
from raftsched.core.limits import RETRY_AFTER_MAX_MS, STATE_MAX
from raftsched.core.model import Attempt, Instance, Mapped, Outcome, Policy, Progress, Verdict

_ASKS_TO_WAIT = (429, 503)  # statuses whose Retry-After lengthens the delay of a retry (RFC 9110, RFC 6585)
_OUTCOMES = {
    Verdict.SUCCEED: Outcome.SUCCEEDED,
    Verdict.RETRY: Outcome.FAILED,
    Verdict.FAIL: Outcome.FAILED,
    Verdict.CANCEL: Outcome.CANCELLED,
    Verdict.SNOOZE: Outcome.SNOOZED,
}


class _Answer(msgspec.Struct, gc=False):
    """The result of an http run, as its worker reports it."""

    status: int = 0


_decode = msgspec.json.Decoder(_Answer).decode
_DEPTH_MAX = 500  # of lists and objects: far above what workers report, far below what any decoder takes
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NULL = b"null"


def judged(
    policy: Policy, attempt: Attempt, outcome: Outcome, verdict: Verdict | None, delay_ms: int | None
) -> tuple[Outcome, Verdict | None, int | None]:
    """Returns how an attempt ended that was not ended by anybody, what is to become of the instance, and the delay that
    goes with that: of a snooze, or before a retry; None: nobody says. `verdict`, `delay_ms`: as in EndedWithReport."""
    if verdict is not None:
        return _OUTCOMES[verdict], verdict, delay_ms if verdict is Verdict.SNOOZE else None
    if policy.outcomes is None and delay_ms is None:
        return outcome, None, None  # nearly all
    if delay_ms is not None:
        delay_ms = max(0, min(delay_ms, RETRY_AFTER_MAX_MS))
    status = _status(policy, attempt)
    mapped = _mapped(policy, attempt.exit_code, status)
    if mapped is None:
        return outcome, None, delay_ms if status in _ASKS_TO_WAIT else None
    if mapped.verdict is Verdict.SNOOZE:
        delay_ms = mapped.delay_ms or delay_ms
    return _OUTCOMES[mapped.verdict], mapped.verdict, delay_ms


def _mapped(policy: Policy, exit_code: int | None, status: int | None) -> Mapped | None:
    outcomes = policy.outcomes
    if outcomes is None:
        return None
    code, entries = (exit_code, outcomes.exit) if status is None else (status, outcomes.status)
    if code is None:
        return None
    return next((one for one in entries if one.first <= code <= one.last), None)


def _status(policy: Policy, attempt: Attempt) -> int | None:
    """Returns the status of the answer that an http run got; None: of other runs, and where there was none."""
    if policy.required_capability != "http" or attempt.result is None or _nests_deeper(attempt.result):
        return None
    try:
        return _decode(attempt.result).status or None
    except msgspec.DecodeError:
        return None


def _nests_deeper(raw: bytes) -> bool:
    """Returns whether JSON nests deeper than _DEPTH_MAX. Told by its brackets: how deep a decoder gets depends on how
    much of the stack is taken already, which is not the same on all nodes."""
    if raw.count(b"[") + raw.count(b"{") <= _DEPTH_MAX:
        return False  # nearly always
    depth = 0
    for byte in _STRING.sub(b"", raw):
        depth += (byte in b"[{") - (byte in b"]}")
        if depth > _DEPTH_MAX:
            return True
    return False


def note_self_report(tx: Tx, instance: Instance, said: SelfReport) -> None:
    """Notes what a run says of itself. What is too large of it is cut, or left as it was. The caller stores it."""
    if said.percent is not None or said.text is not None:
        percent = None if said.percent is None else max(0, min(said.percent, 100))
        instance.progress = Progress(percent, (said.text or "")[:PROGRESS_TEXT_MAX], tx.now)
    if said.kept is not None and len(said.kept) <= STATE_MAX:
        instance.kept = None if said.kept == _NULL else said.kept
