"""A node's own worker among fakes."""

from __future__ import annotations

import random

import msgspec

from raftsched.core.commands import OpenSession
from raftsched.core.subjects.leasing import Heartbeat
from raftsched.handlers import KINDS
from raftsched.output.keeping.output_rules import OutputRules
from raftsched.worker.session.own_node import OwnNode
from raftsched.worker.tasks.permits import Permits
from tests.unit.worker.world import OUTPUT, World

NODE = "n1"


class NodeWorld(World):
    name = key = NODE
    ttl_ms = 5_000
    output = OUTPUT
    store_moves = True

    def _link(self, boot: str) -> OwnNode:
        self._held: list[Heartbeat] = []  # whose grants wait
        self.link = OwnNode(
            raft=self.raft,
            read=self.read,
            clock=self.clock,
            opening=OpenSession(NODE, 0, boot, b"", 4, handlers=KINDS, limits_whole_runs=True),
            rng=random.Random(self.seed),
            permits=Permits(),
            store_moves=lambda: self.store_moves,
            output_rules=OutputRules(self.read),
        )
        return self.link

    def _on_sent(self, kind: str, payload: bytes) -> None:
        if kind != "heartbeat":
            return
        beat = msgspec.msgpack.decode(payload, type=Heartbeat)
        self.asked.append(beat.sent_ms)
        if self.answers.is_set():
            self._answer(beat)
        else:
            self._held.append(beat)

    def _answer(self, beat: Heartbeat) -> None:
        if self.grant_ms is not None and self.raft.reachable:
            self.grant(beat.session, beat.sent_ms, self.grant_ms)

    def answer_all(self) -> None:
        super().answer_all()
        held, self._held = self._held, []
        for beat in held:
            self._answer(beat)

    def grant(self, session: int, sent_ms: int, grant_ms: int) -> None:
        self.raft.deliver("grant", msgspec.msgpack.encode((session, sent_ms, grant_ms)))

    def beats(self) -> list[Heartbeat]:
        sent = [payload for _, kind, payload in self.raft.sent if kind == "heartbeat"]
        return [msgspec.msgpack.decode(payload, type=Heartbeat) for payload in sent]

    def see_again(self) -> None:
        self.link.rescan()
