"""The runner of a node that only votes: it starts no process, and has nothing to end."""

from __future__ import annotations

from collections.abc import Callable

from raftsched.core.commands import SelfReport
from raftsched.core.model import Outcome
from raftsched.system.clock import Clock
from raftsched.worker.processes.runner import RunEnd, RunSpec


class NoRuns:
    """Stands in the place of runner.Runner."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.on_started: Callable[[int, int], None] = lambda token, started_at_ms: None
        self.on_ended: Callable[[int, RunEnd], None] = lambda token, end: None
        self.on_self_report: Callable[[int, SelfReport], None] = lambda token, said: None
        self.on_died: Callable[[], None] = lambda: None

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    async def fence(self) -> None:
        pass

    def moves(self, within_ms: int) -> bool:
        return True

    def ping(self) -> None:
        pass

    def launch(self, spec: RunSpec) -> None:
        """Hands it back: no leader gives a run to a node without slots."""
        error = "The node only votes."
        end = RunEnd(
            outcome=Outcome.KILLED, started_at_ms=None, ended_at_ms=self._clock.wall_ms(), error=error, begun=False
        )
        self.on_ended(spec.token, end)

    def kill(self, token: int, reason: str = "") -> None:
        pass

    def wind_down(self, grace_ms: int) -> None:
        pass

    def set_lease(self, session: int, deadline_boot_ms: int) -> None:
        pass
