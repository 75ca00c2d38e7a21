"""The spans of fires: from when an instance was due, as the leader saw it, until a worker was given it.

What made an instance (its job's time, a request, the end of another run) is of no account: it has a span when it is
assigned for the first time. A new leader knows nothing of what the one before it saw, and takes the time from the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from raftsched.core.actions import Action, AttemptAssigned, InstanceReady
from raftsched.core.commands import Command, Fire
from raftsched.core.ids import instance_key, instance_text, job_text, split_instance
from raftsched.core.model import Instance
from raftsched.core.rows import decode_instance
from raftsched.core.rules.executors import worker_name
from raftsched.core.tables import ReadView, Table

if TYPE_CHECKING:
    from raftsched.tracing.tracer import Tracer

SEEN_MAX = 20_000  # instances that are due and not assigned; of more, those that wait for longest are forgotten


class FireTraces:
    """The fires that this node sees as the leader."""

    def __init__(self, tracer: Tracer, read: Callable[[], AbstractContextManager[ReadView]]) -> None:
        self._tracer = tracer
        self._read = read
        # by instance: when its fire was proposed, and applied (ns), and with how many commands
        self._seen: dict[bytes, tuple[int, int, int]] = {}

    def proposed(self, batch: Sequence[Command]) -> None:
        """Notes the fires among commands that are proposed now."""
        now = self._tracer.now_ns()
        for command in batch:
            if isinstance(command, Fire):
                key = instance_key(command.nominal_at_ms, command.job_id)
                if self._tracer.fire_context(key).trace_flags.sampled:
                    self._note(key, (now, 0, len(batch)))

    def _note(self, key: bytes, times: tuple[int, int, int]) -> None:
        while len(self._seen) >= SEEN_MAX:
            del self._seen[next(iter(self._seen))]
        self._seen[key] = times

    def applied(self, actions: Iterable[Action]) -> None:
        """Follows what an applied entry has brought about: records the fires of what is given to workers."""
        now = 0
        for action in actions:
            if isinstance(action, AttemptAssigned):
                now = now or self._tracer.now_ns()
                self._assigned(action, now)
            elif isinstance(action, InstanceReady) and action.instance in self._seen:
                now = now or self._tracer.now_ns()
                proposed, applied, commands = self._seen[action.instance]
                self._seen[action.instance] = (proposed, applied or now, commands)

    def forget(self) -> None:
        """This node does not lead any more."""
        self._seen.clear()

    def _assigned(self, action: AttemptAssigned, now: int) -> None:
        key = action.instance
        proposed, applied, commands = self._seen.pop(key, (0, 0, 0))
        scheduled = split_instance(key)[2] == 0  # it is no part then, and its key tells whether it is sampled
        if scheduled and not self._tracer.fire_context(key).trace_flags.sampled:
            return
        with self._read() as view:
            raw = view.get(Table.INSTANCES, key)
        instance = None if raw is None else decode_instance(raw)
        if instance is None or not instance.attempts or instance.attempts[-1].number != 1:
            return  # it is over, or has a span
        began = proposed or min(now, instance.created_at_ms * 1_000_000)
        span = self._tracer.start_fire(key, instance.parent, _about(instance, action.node), began)
        if proposed:
            self._tracer.log_entry(span.get_span_context(), commands, proposed).end(applied or now)
        span.end(now)


def _about(instance: Instance, executor: str) -> dict[str, str | int]:
    return {
        "raftsched.job.id": job_text(instance.job_id),
        "raftsched.instance.id": instance_text(instance.key),
        "raftsched.late_ms": max(0, instance.created_at_ms - instance.due_at_ms),
        "raftsched.worker": worker_name(executor) or executor,
    }
