"""A task that is about to be started, held against what this node lets jobs touch.

The leader gives a node only what its announced rules allow; this is the check that counts, for a job may be older than
the rules, and only here links and names are resolved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec.structs import replace

from raftsched.core.model import GRACE_MS, Attempt, Instance, Job
from raftsched.core.rules.allowed import Allowed, run_error
from raftsched.core.rules.references import find_secret
from raftsched.core.tables import ReadView
from raftsched.run import REPORT_FILE
from raftsched.security.sealing import Sealer
from raftsched.system.clock import Clock
from raftsched.worker.processes.run_as import UnknownUser
from raftsched.worker.processes.runner import RunSpec
from raftsched.worker.processes.wire import Exec, Http, Mail, Python
from raftsched.worker.tasks.tasks import NODES_OWN, BadJob, Resolved, resolved, task_of
from raftsched.worker.tasks.webhook_deliveries import delivery_of

SHELL = "/bin/sh"
_OURS = ("RAFTSCHED_PARAMS", REPORT_FILE)  # of a command's variables, beside what it is told of itself


@dataclass(frozen=True, kw_only=True, slots=True)
class Permits:
    """Says what jobs may do on this machine. `calls`: its handlers by name, as "package.module:function", and
    `concurrent`, how many runs one process takes of them. `allowed`: what jobs may name here; None: anything.
    `closed`: see run_error. `run_as`: the user, from the namespace of a job and what it asks for; raises UnknownUser.
    `sealer`: opens secrets."""

    calls: Mapping[str, str] = field(default_factory=dict)
    concurrent: Mapping[str, int] = field(default_factory=dict)
    allowed: Allowed | None = None
    closed: bool = False
    run_as: Callable[[str, str], str] = NODES_OWN.of
    sealer: Sealer | None = None

    def handlers(self, kinds: Iterable[str]) -> tuple[str, ...]:
        """Returns what jobs are offered: kinds of handlers, and those by name."""
        return (*kinds, *(f"call:{name}" for name in sorted(self.calls)))

    def prepared(
        self, view: ReadView, job: Job, instance: Instance, attempt: Attempt, clock: Clock, output_max: int = 0
    ) -> RunSpec:
        """Makes the run of an attempt out of the tables. Raises BadJob."""
        if instance.notice is not None:
            return delivery_of(view, job, instance, attempt, clock.wall_ms(), self.sealer)
        return self.spec(
            resolved(job, instance, attempt, partial(find_secret, view), self.sealer),
            token=attempt.token,
            session=attempt.session,
            namespace=job.namespace,
            timeout_ms=job.policy.timeout_ms,
            grace_ms=GRACE_MS if job.policy.grace_ms is None else job.policy.grace_ms,
            stop_ms=job.policy.grace_ms,
            output_max=output_max,
        )

    def spec(self, found: Resolved, *, namespace: str, **about: Any) -> RunSpec:
        """Makes a run, and holds it against what is allowed. `about`: what else RunSpec says of it. Raises BadJob."""
        try:
            user = self.run_as(namespace, found.user)
        except UnknownUser as error:
            raise BadJob(str(error)) from None
        task = task_of(found, self.calls, self.concurrent)
        spec = RunSpec(namespace=namespace, user=user, task=task, run_env=found.env, **about)
        return permitted(spec, self.allowed, self.closed)


def permitted(spec: RunSpec, allowed: Allowed | None, closed: bool = False) -> RunSpec:
    """The run as the node starts it. Raises BadJob."""
    task = spec.task
    if allowed is None or isinstance(task, (Http, Mail)):  # where a request may go is decided when its host is resolved
        return spec
    if isinstance(task, Exec):
        shell = task.argv[0] == SHELL and len(task.argv) == 3 and task.argv[1] == "-c"
        kind, target = "shell" if shell and allowed.exec is None else "exec", task.argv[0]
    else:
        kind, target = "python", task.function
    env = sorted(name for name in task.env if name not in spec.run_env and name not in _OURS)
    wrong = run_error(allowed, kind, target, task.cwd or "", env, closed=closed)
    if wrong is not None:
        raise BadJob(f"this node {wrong}")
    if isinstance(task, Python) and allowed.python is not None:
        task = replace(task, allowed=allowed.python)  # only where its module is imported is seen what the name leads to
    if task.cwd is not None and allowed.cwd is not None:
        task = replace(task, within=allowed.cwd)
    return spec if task is spec.task else replace(spec, task=task)
