"""The interfaces through which the worker reaches the raft room and the runner (or the simulator's)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from raftsched.core.actions import Action
from raftsched.core.commands import Answer, SelfReport
from raftsched.worker.processes.runner import RunEnd, RunSpec


class Applied(Protocol):
    """The actions of one applied entry."""

    @property
    def index(self) -> int: ...

    @property
    def actions(self) -> Sequence[Action]: ...


class Raft(Protocol):
    """The part of the raft room that the worker needs."""

    @property
    def leader_id(self) -> str | None: ...

    async def propose(self, commands: Sequence[bytes], timeout: float = 10.0) -> list[Answer]: ...

    def submit(self, commands: Sequence[bytes]) -> None: ...

    def subscribe(self, on_applied: Callable[[Sequence[Applied]], None]) -> None: ...

    def send(self, peer: str, kind: str, payload: bytes) -> bool: ...

    def on_message(self, kind: str, handler: Callable[[str, bytes], None]) -> None: ...


class Runs(Protocol):
    """The part of its runner that the worker needs (runner.Runner, or the simulator's)."""

    on_started: Callable[[int, int], None]
    on_ended: Callable[[int, RunEnd], None]
    on_self_report: Callable[[int, SelfReport], None]
    on_died: Callable[[], None]

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def moves(self, within_ms: int) -> bool: ...

    def ping(self) -> None: ...

    def launch(self, spec: RunSpec) -> None: ...

    def kill(self, token: int, reason: str = "") -> None: ...

    def wind_down(self, grace_ms: int) -> None: ...

    def set_lease(self, session: int, deadline_boot_ms: int) -> None: ...

    async def fence(self) -> None: ...
