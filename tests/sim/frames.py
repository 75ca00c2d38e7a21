"""Messages between nodes, watched as they are sent: the promises that a message makes must hold at that moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raftsched.raft.codec import Append, AppendAnswer, Frame, SnapshotOffer, VoteAnswer, VoteRequest

if TYPE_CHECKING:
    from tests.sim.machine import Machine
    from tests.sim.world import World


class Frames:
    def __init__(self, world: World) -> None:
        self._world = world
        self._checks = world.checks
        self._votes: dict[tuple[str, bytes, int], str] = {}  # (node, its disk, term) -> for whom

    def sent(self, machine: Machine, peer: str, frame: Frame) -> None:
        """`machine` sends `frame`. Fails when that breaks a promise."""
        raft = machine.raft
        if raft is None:
            return
        match frame:
            case Append():
                acknowledged = raft._replica.engine.match_index(peer)
                if frame.prev_index < acknowledged:
                    self._checks.fail(
                        f"{machine.name} goes back to entry {frame.prev_index + 1} for {peer}, which has acknowledged "
                        f"everything up to {acknowledged}"
                    )
            case AppendAnswer(success=True):
                disk = self._checks.disks[machine.name]
                if frame.next_index - 1 > max(disk.last, disk.applied):
                    self._checks.fail(
                        f"{machine.name} acknowledges entry {frame.next_index - 1}; its disk has them up to {disk.last}"
                    )
            case AppendAnswer(reset=True) if self._world.nemesis.reset_trap:
                self._world.nemesis.asks_for_less(machine, peer)
            case VoteAnswer(granted=True):
                self._votes_for(machine, frame.term, peer)
            case VoteRequest():
                self._votes_for(machine, frame.term, machine.name)
            case SnapshotOffer() if not frame.size:
                self._checks.fail(f"{machine.name} offers {peer} a snapshot that is not there")

    def _votes_for(self, machine: Machine, term: int, candidate: str) -> None:
        disk = self._checks.disks[machine.name].store_id
        known = self._votes.setdefault((machine.name, disk, term), candidate)
        if known != candidate:
            self._checks.fail(f"{machine.name} votes in term {term} for {known} and for {candidate}")
