"""The processes that really run, and where: the one place that nothing in the cluster can see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from raftsched.core.ids import instance_text
from raftsched.core.model import Outcome

if TYPE_CHECKING:
    from tests.sim.jobs.world import JobsWorld

# what a violation says
TWO_OF_AN_INSTANCE = "beside attempt"
OLDER_AFTER_NEWER = "after attempt"
FORBIDDEN_OVERLAP = "beside other runs of its job"
TOO_MANY_OF_A_KEY = "beside others of the key"
STARTED_TWICE = "is started again"
ENDED_ALIVE = "has ended by the log, and runs"
STARTED_OVER = "starts, and has ended by the log"


@dataclass(slots=True)
class Run:
    """The processes of one attempt."""

    token: int
    session: int
    node: str
    instance: bytes
    started_s: float
    ended_s: float | None = None
    outcome: Outcome | None = None

    @property
    def job_id(self) -> int:
        return int.from_bytes(self.instance[8:16], "big")

    def __str__(self) -> str:
        return f"attempt {self.token} of {instance_text(self.instance)} on {self.node} (session {self.session})"


class Truth:
    def __init__(self, world: JobsWorld) -> None:
        self.runs: dict[int, Run] = {}  # by token
        self.alive: dict[int, Run] = {}
        self._world = world
        self._newest: dict[bytes, Run] = {}  # of an instance: the run with the highest token that was started
        self._jobs: dict[int, dict[int, Run]] = {}  # job id -> what is alive of it
        self._over: set[int] = set()  # tokens that have ended by the log

    def starts(self, run: Run) -> None:
        """Its first process is there."""
        fail, now = self._world.checks.fail, self._world.scheduler.now
        self._world.trace.event(run.node, "run", run.token, instance_text(run.instance), f"session {run.session}")
        if run.token in self.runs:
            fail(f"{run} {STARTED_TWICE}; it was started before at {self.runs[run.token].started_s:.3f}")
        if run.token in self._over:
            fail(f"{run} {STARTED_OVER}")
        before = self._newest.get(run.instance)
        if before is not None:
            if before.ended_s is None:
                fail(f"{run} starts {TWO_OF_AN_INSTANCE} {before.token} on {before.node}, which runs")
            if before.token > run.token:
                fail(f"{run} starts {OLDER_AFTER_NEWER} {before.token}, at {now:.3f}")
        beside = self._jobs.setdefault(run.job_id, {})
        most = self._world.ledger.most_at_once(run.instance)
        if most is not None and len(beside) >= most:
            others = ", ".join(str(other) for other in beside.values())
            fail(f"{run} starts {FORBIDDEN_OVERLAP}, of which {most} may run: {others}")
        self._with_its_key(run)
        beside[run.token] = self.runs[run.token] = self.alive[run.token] = self._newest[run.instance] = run

    def _with_its_key(self, run: Run) -> None:
        """Of all runs that live no more have its key than may."""
        limits = self._world.ledger.limits_by_key(run.instance)
        if limits is None:
            return
        same = [one for one in self.alive.values() if self._world.ledger.limits_by_key(one.instance) == limits]
        if len(same) >= limits[1]:
            others = ", ".join(str(other) for other in same)
            self._world.checks.fail(f"{run} starts {TOO_MANY_OF_A_KEY} {limits[0]}, of which {limits[1]} may: {others}")

    def ends(self, run: Run, outcome: Outcome) -> None:
        """Nothing of it is left."""
        run.ended_s, run.outcome = self._world.scheduler.now, outcome
        self._world.trace.event(run.node, "ran", run.token, outcome.name)
        del self.alive[run.token], self._jobs[run.job_id][run.token]

    def over(self, token: int, why: str) -> None:
        """By the log the attempt has ended."""
        self._over.add(token)
        run = self.alive.get(token)
        if run is not None:
            self._world.checks.fail(f"{run} {ENDED_ALIVE}: {why}")
