"""Chains: a run that was started by the end of others takes along where it comes from, and their results."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from raftsched.core.apply.steps import add_step
from raftsched.core.apply.tx import Tx
from raftsched.core.levels import DROPPED_IS_TOLD
from raftsched.core.limits import RUN_MAX
from raftsched.core.model import Instance, Job, StepKind
from raftsched.core.rules.results import why_dropped

NAMED_MAX = 5  # jobs whose results were dropped, in the step that says so

_json = msgspec.json.Encoder().encode


class Chain(NamedTuple):
    """The place of a run in its workflow."""

    root: bytes
    cause: bytes  # the end that came last
    joined: tuple[bytes, ...]  # all that it waited for, if these are several
    rerun_id: int
    passed: bytes | None = None  # their results
    left_out: int = 0  # bytes of results that were too large
    dropped: tuple[str, ...] = ()  # jobs whose results were dropped

    def note(self, tx: Tx, instance: Instance) -> None:
        """Notes it in an instance that was just made, or runs again."""
        instance.root, instance.cause, instance.joined = self.root, self.cause, self.joined
        instance.rerun_id, instance.passed = self.rerun_id, self.passed
        if self.left_out:
            add_step(tx, instance, StepKind.RESULT_LEFT_OUT, f"{self.left_out}")
        if self.dropped:
            add_step(tx, instance, StepKind.RESULT_DROPPED, _named(self.dropped))


class Results(NamedTuple):
    """The results of runs, for the one that follows them."""

    passed: bytes | None = None  # a JSON object with the names of their jobs
    left_out: int = 0  # bytes that they take, when that is more than params may be
    dropped: tuple[str, ...] = ()  # jobs whose results were dropped; why is in their places


def results(tx: Tx, job: Job, came: dict[str, bytes]) -> Results:
    """Returns the results of the runs that a run of the job was started by."""
    found: dict[str, msgspec.Raw] = {}
    dropped: list[str] = []
    tells = tx.meta.level >= DROPPED_IS_TOLD
    for target, key in came.items():
        instance = tx.instance(key)
        last = instance.attempts[-1] if instance is not None and instance.attempts else None
        result = None if last is None else last.result
        why = why_dropped(last) if tells and last is not None else None
        if why is not None:
            dropped.append(target)
            result = _json({"dropped": why})
        found[target] = msgspec.Raw(b"null" if result is None else result)
    size = sum(len(bytes(one)) for one in found.values())
    limit = min(tx.meta.settings.params_max_bytes, RUN_MAX - len(job.body))
    passed = _json(found) if size <= limit else b""
    fits = 0 < len(passed) <= limit
    return Results(passed if fits else None, 0 if fits else max(size, len(passed)), tuple(dropped))


def _named(jobs: tuple[str, ...]) -> str:
    """Returns the first of these jobs by name, and how many there are more."""
    more = len(jobs) - NAMED_MAX
    return ", ".join(jobs[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
