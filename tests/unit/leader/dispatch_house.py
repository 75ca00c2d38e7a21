"""A world, and a dispatcher that is told of everything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from raftsched.core import commands as c
from raftsched.core.actions import (
    AttemptAssigned,
    AttemptEnded,
    InstanceReady,
    NodeRuleChanged,
    QueueChanged,
    SessionChanged,
)
from raftsched.core.commands import Assign, Command
from raftsched.core.model import Overlap
from raftsched.core.rows import decode_session
from raftsched.core.tables import Table, u64
from raftsched.leader.dispatch.dispatcher import Dispatcher, count_running
from tests.support.memory_view import MemoryView, World


class House:
    """A world, and a dispatcher that is told of everything."""

    def __init__(self) -> None:
        self.world = World()
        self.dispatcher = Dispatcher(self.read, "n1", self.world.view)
        self.silent: set[int] = set()
        self.requests = 0

    @contextmanager
    def read(self) -> Iterator[MemoryView]:
        yield self.world.view

    def session(
        self,
        node: str,
        slots: int = 100,
        handlers: tuple[str, ...] = ("exec",),
        labels: tuple[tuple[str, str], ...] = (),
    ) -> int:
        raw = self.world.view.get(Table.NODES, node.encode())
        replaces = 0 if raw is None else int.from_bytes(raw, "big")
        number = self.world.ok(c.OpenSession(node, replaces, "b", b"", slots, labels, handlers)).number
        assert number is not None
        stored = self.world.view.get(Table.SESSIONS, u64(number))
        assert stored is not None
        self.dispatcher.opened(decode_session(stored), count_running(self.world.view, number))
        return number

    def ready(self, count: int = 1, need: str = "exec", priority: int = 5, **fields: Any) -> list[bytes]:
        job = self.world.create(overlap=Overlap.ALLOW, required_capability=need, priority=priority, **fields)
        keys = []
        for _ in range(count):
            self.requests += 1
            self.world.forward(1)
            keys.append(self.world.run_now(job, self.requests))
            self.tell()
        return keys

    def tell(self) -> None:
        for action in self.world.actions:
            match action:
                case InstanceReady():
                    self.dispatcher.ready(action.instance, action.lane, action.score_ms)
                case AttemptAssigned():
                    self.dispatcher.applied(action.instance, action.session, (action.queue, action.quota), action.token)
                case AttemptEnded():
                    self.dispatcher.attempt_ended(action.session, (action.queue, action.quota), action.token)
                case QueueChanged():
                    self.dispatcher.queue_changed(action.name)
                case NodeRuleChanged():
                    self.dispatcher.rule_changed(action.node)
                case SessionChanged() if not action.open:
                    self.dispatcher.closed(action.session)
                case _:
                    pass

    def assignable(self, session: int) -> bool:
        return session not in self.silent

    def pump(self) -> list[Assign]:
        """Assignments; whatever else is proposed is applied at once."""
        proposed = self.dispatcher.pump(self.assignable, self.world.now)
        self.apply([command for command in proposed if not isinstance(command, Assign)])
        return [command for command in proposed if isinstance(command, Assign)]

    def apply(self, commands: Sequence[Command]) -> None:
        for command in commands:
            answer = self.world.do(command)
            self.tell()
            self.dispatcher.answered(command, not isinstance(answer, c.Rejected))

    def do(self, command: Command) -> None:
        self.world.ok(command)
        self.tell()

    def settle(self) -> list[bytes]:
        """Until nothing more is assigned; the keys, in their order."""
        keys: list[bytes] = []
        for _ in range(1_000):
            assigns = self.pump()
            keys += [assign.instance for assign in assigns]
            self.apply(assigns)
            if not assigns:
                return keys
        raise AssertionError("assignments without end")

    def running(self) -> dict[str, int]:
        return {name: load.running for name, load in self.dispatcher.loads().items()}


def keys(assigns: list[Assign]) -> list[bytes]:
    return [assign.instance for assign in assigns]


def anew(house: House) -> None:
    """Another leadership."""
    house.dispatcher = Dispatcher(house.read, "n1", house.world.view)
    for session in house.world.sessions():
        if session.open:
            house.dispatcher.opened(session, count_running(house.world.view, session.id))
