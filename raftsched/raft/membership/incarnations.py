"""The starts of each member's disk: they tell a disk that was put back to an earlier state from one that went on.

At every start a node counts its starts one up, draws a random id for this one and writes both down, with the ids of the
starts before it, before it sends anything. The others remember the newest start that they met of each disk, for good. A
disk that goes on knows that start; one that was put back (a machine's snapshot, a data directory copied back) has none
or another one at that number, and so have the two copies of one data directory when a process was started on each. A
count alone would not do: it catches up by being started often enough.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

from raftsched.raft.codec import Hello
from raftsched.raft.guards import Guards

KEPT = 64  # ids of starts that a disk keeps; a node that was away for more starts trusts the disk
ID_BYTES = 8
LOST = 1 << 62  # the number of a disk that lost acknowledged entries: no start of it counts any more


class _Own(msgspec.Struct, array_like=True, frozen=True):
    """Own record "incarnation"."""

    number: int  # number of starts of this disk
    starts: list[bytes]  # newest first


class Met(msgspec.Struct, array_like=True, frozen=True):
    """The newest known start of a disk. Own record "met": by node."""

    store_id: bytes
    number: int
    start: bytes


_own = msgspec.msgpack.Decoder(_Own)
_met = msgspec.msgpack.Decoder(dict[str, Met])


def is_continuation(number: int, starts: list[bytes], met: tuple[int, bytes]) -> bool:
    """Returns whether a disk that was started `number` times, most recently as `starts`, is the one that was met at its
    start `met`."""
    back = number - met[0]
    if back < 0:
        return False
    return starts[back] == met[1] if back < len(starts) else len(starts) >= KEPT


class Incarnations:
    """This node's own starts, and the starts it remembers of others."""

    def __init__(self, node_id: str, rng: random.Random, guards: Guards) -> None:
        self.number = 0
        self.starts: list[bytes] = []
        self._node_id = node_id
        self._rng = rng
        self._guards = guards
        self._met: dict[str, Met] = {}

    def load(self, local: Callable[[str], bytes | None]) -> dict[str, bytes | None]:
        """Counts this start; returns the record to write before anything is sent."""
        raw = local("incarnation")
        own = _Own(0, []) if raw is None else _own.decode(raw)
        raw = local("met")
        self._met = {} if raw is None else _met.decode(raw)
        self.number = own.number + 1
        self.starts = [self._rng.randbytes(ID_BYTES), *own.starts][:KEPT]
        return {"incarnation": msgspec.msgpack.encode(_Own(self.number, self.starts))}

    def known(self, remembered: dict[str, bytes]) -> dict[str, tuple[int, bytes]]:
        """Returns the newest start that was met of each of these disks, for a hello."""
        return {n: (met.number, met.start) for n, met in self._met.items() if remembered.get(n) == met.store_id}

    # ------------------------------------------------------------ looking

    def fault(self, peer: Hello) -> str | None:
        """Returns the fault that this node knows of a peer whose disk is the right one; None: none."""
        if not self._guards.rolled_back_disk_refused:
            return None
        met = self._met.get(peer.node)
        if met is None or met.store_id != peer.store_id:
            return None
        if met.number == LOST:
            return "it lacks entries that it had acknowledged"
        if is_continuation(peer.incarnation, peer.starts, (met.number, met.start)):
            return None
        if peer.incarnation < met.number:
            return f"this is start {peer.incarnation} of it, and its start {met.number} has been met before"
        return f"another process than this one has been met as start {met.number} of it"

    def own_rollback_seen(self, peer: Hello) -> bool:
        """Returns whether a peer that knows this node's disk has met a start of it that this disk knows nothing of."""
        met = peer.met.get(self._node_id)
        return (
            met is not None
            and self._guards.rolled_back_disk_refused
            and not is_continuation(self.number, self.starts, met)
        )

    # ------------------------------------------------------------ remembering

    def record_met(self, peer: Hello, remembered: dict[str, bytes]) -> dict[str, bytes | None]:
        """Records a peer that was let in, and the starts that it has met itself. Returns the record to write, if any.
        Where two peers have met different processes on copies of one disk, all nodes choose the same one."""
        news = {peer.node: Met(peer.store_id, peer.incarnation, peer.starts[0])}
        for node, (number, start) in peer.met.items():
            same = node in remembered and peer.remembered.get(node) == remembered[node]
            if same and len(start) <= ID_BYTES and node not in (peer.node, self._node_id):
                news[node] = Met(remembered[node], number, start)
        after = {node: met for node, met in self._met.items() if remembered.get(node) == met.store_id}
        for node, met in news.items():
            if remembered.get(node) == met.store_id:
                old = after.get(node)
                if old is None or (met.number, met.start) > (old.number, old.start):
                    after[node] = met
        if after == self._met:
            return {}
        self._met = after
        return {"met": msgspec.msgpack.encode(after)}

    def mark_lost(self, peer: Hello) -> dict[str, bytes | None]:
        """Marks a disk that has lost acknowledged entries. Returns the record to write."""
        self._met = {**self._met, peer.node: Met(peer.store_id, LOST, b"")}
        return {"met": msgspec.msgpack.encode(self._met)}
