"""The raft room as the parts of a node see it, over a LocalCluster: what is proposed is applied at once, and a leader
that is there grants what remote workers ask for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from raftsched.core.commands import Answer
from raftsched.core.subjects.leasing import WorkerGrants, decode_beats, encode
from raftsched.worker.ports import Applied

if TYPE_CHECKING:
    from tests.support.local_api import LocalCluster

GRANT_MS = 9_000


class LocalRaft:
    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._handlers: dict[str, Callable[[str, bytes], None]] = {}
        self.sent: list[tuple[str, str, bytes]] = []
        self.grants = True

    @property
    def leader_id(self) -> str | None:
        return self._cluster.leader

    async def propose(self, commands: Sequence[bytes], timeout: float = 10.0) -> list[Answer]:
        return await self._cluster.propose(commands, timeout)

    def submit(self, commands: Sequence[bytes]) -> None:
        self._cluster.apply_raw(commands)

    def subscribe(self, on_applied: Callable[[Sequence[Applied]], None]) -> None:
        self._cluster.subscribers.append(on_applied)

    def on_message(self, kind: str, handler: Callable[[str, bytes], None]) -> None:
        self._handlers[kind] = handler

    def send(self, peer: str, kind: str, payload: bytes) -> bool:
        self.sent.append((peer, kind, payload))
        if kind == "worker_beats" and self.grants:
            grants = WorkerGrants(tuple((b.session, b.request, GRANT_MS) for b in decode_beats(payload).beats))
            asyncio.get_running_loop().call_soon(self._handlers["worker_grants"], peer, encode(grants))
        return True
