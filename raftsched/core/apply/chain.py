"""Chains: a run that was started by the end of others takes along where it comes from, and their results."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from raftsched.core.apply.steps import add_step
from raftsched.core.apply.tx import Tx
from raftsched.core.limits import RUN_MAX
from raftsched.core.model import Instance, Job, StepKind

_json = msgspec.json.Encoder().encode


class Chain(NamedTuple):
    """The place of a run in its workflow."""

    root: bytes
    cause: bytes  # the end that came last
    joined: tuple[bytes, ...]  # all that it waited for, if these are several
    rerun_id: int
    passed: bytes | None = None  # their results
    left_out: int = 0  # bytes of results that were too large

    def note(self, tx: Tx, instance: Instance) -> None:
        """Notes it in an instance that was just made, or runs again."""
        instance.root, instance.cause, instance.joined = self.root, self.cause, self.joined
        instance.rerun_id, instance.passed = self.rerun_id, self.passed
        if self.left_out:
            add_step(tx, instance, StepKind.RESULT_LEFT_OUT, f"{self.left_out}")


def results(tx: Tx, job: Job, came: dict[str, bytes]) -> tuple[bytes | None, int]:
    """Returns the results of the runs that a run of the job was started by, as a JSON object with their jobs' names.
    None, and how many bytes they take, when that is more than params may be."""
    found: dict[str, msgspec.Raw] = {}
    for target, key in came.items():
        instance = tx.instance(key)
        last = instance.attempts[-1] if instance is not None and instance.attempts else None
        result = None if last is None else last.result
        found[target] = msgspec.Raw(b"null" if result is None else result)
    size = sum(len(bytes(one)) for one in found.values())
    limit = min(tx.meta.settings.params_max_bytes, RUN_MAX - len(job.body))
    passed = _json(found) if size <= limit else b""
    return (passed, 0) if 0 < len(passed) <= limit else (None, max(size, len(passed)))
