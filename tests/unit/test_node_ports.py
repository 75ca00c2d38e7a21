"""What the rooms of a node hear from Raft, and what it asks of the disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from raftsched.core.entry import EntryResult
from raftsched.node.wiring import STORE_STUCK_MS, NodePorts, store_moves

RESULT = cast(EntryResult, object())


class Rooms:
    """Raft, leader and worker of a node: what reaches a room is noted by its name."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.on_result: list[Callable[[Sequence[EntryResult]], None]] = []
        self.handlers: dict[str, Callable[..., None]] = {}
        self.applied_index = self.age_ms = 0

    def subscribe(self, on_applied: Callable[[Sequence[EntryResult]], None]) -> None:
        self.on_result.append(on_applied)

    def subscribe_role(self, on_role: Callable[..., None]) -> None:
        self.handlers["role"] = on_role

    def on_message(self, kind: str, handler: Callable[..., None]) -> None:
        self.handlers[kind] = handler

    def write_age_ms(self) -> int:
        return self.age_ms

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: self.heard.append(name)


def connected() -> Rooms:
    rooms: Any = Rooms()
    NodePorts(cast(Any, None), *[rooms] * 7).connect()
    return cast(Rooms, rooms)


def test_the_worker_looks_at_all_its_runs_when_a_snapshot_replaced_the_tables() -> None:
    rooms = connected()
    for results, expected in (([RESULT], ["on_applied"]), ([], ["on_applied", "rescan"])):
        rooms.heard.clear()
        for on_applied in rooms.on_result:
            on_applied(results)
        assert rooms.heard == expected


def test_the_leader_hears_of_its_role_and_of_the_workers() -> None:
    rooms = connected()
    for what, expected in (
        ("role", "on_role"),
        ("heartbeat", "on_heartbeat"),
        ("over", "on_finished"),
        ("worker_beats", "on_worker_beats"),
    ):
        rooms.heard.clear()
        rooms.handlers[what]("n2", b"")
        assert rooms.heard == [expected]


def test_a_store_that_is_stuck_does_not_move() -> None:
    rooms: Any = Rooms()
    for rooms.age_ms, moves in ((0, True), (STORE_STUCK_MS - 1, True), (STORE_STUCK_MS, False)):
        assert store_moves(rooms) is moves
