"""What a process without the rooms above Raft has of them: heartbeats that say which levels it knows, and the leader's
rule about the level of the cluster. Both are those of the version that the node runs."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from raftsched.raft.facade import Raft
    from tests.sim.code import Code
    from tests.sim.versions import VersionsMachine

EVERY_S = 0.5


class LevelRoom:
    def __init__(self, machine: VersionsMachine, raft: Raft, code: Code) -> None:
        self._machine = machine
        self._raft = raft
        self._code = code
        self._vitals: Any = None
        self._level: Any = None
        self._term = 0
        raft.on_message("heartbeat", self._heard)

    async def run(self) -> None:
        """Until the process ends."""
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                self._look()
            except Exception as error:  # else it would be told of when the task is collected
                self._machine.failed(error)

    def _look(self) -> None:
        if self._raft.leading:
            self._lead()
        else:
            self._tell()

    def _tell(self) -> None:
        leader, clock, leasing = self._raft.leader_id, self._machine.clock, self._code.module("core.subjects.leasing")
        if leader is not None:
            beat = leasing.Heartbeat(0, False, clock.boot_ms(), clock.wall_ms(), level=self._code.level)
            self._raft.send(leader, "heartbeat", msgspec.msgpack.encode(beat))

    def _heard(self, peer: str, payload: bytes) -> None:
        if self._raft.leading:
            self._begin()
            beat = self._code.module("core.subjects.leasing").decode_heartbeat(payload)
            self._vitals.heard(peer, beat, self._machine.clock.boot_ms())

    def _begin(self) -> None:
        """What a leadership knows of the nodes is its own."""
        if self._term == self._raft.term:
            return
        self._term = self._raft.term
        store, clock = self._machine.store, self._machine.clock
        assert store is not None
        self._cluster = SimpleNamespace(leader=self._machine.name, members=set())
        self._vitals = self._code.make("leader.liveness.vitals", "Vitals")
        proposals = SimpleNamespace(send=self._propose)
        self._level = self._code.make(
            "leader.level", "Level", store.read, self._cluster, self._vitals, proposals, clock
        )

    def _lead(self) -> None:
        self._begin()
        self._cluster.members = {member.node for member in self._raft.members()}
        self._level.tick(self._machine.clock.wall_ms())

    def _propose(self, commands: list[Any]) -> None:
        encode = self._code.module("core.commands").encode
        self._raft.submit([encode(command) for command in commands])
