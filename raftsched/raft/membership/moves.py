"""Remembers where members are reached whose address is another one than the configuration has.

A member shows by key and disk who it is, wherever it is: the address in the configuration only says where to look for
it. So a node says in its hello where it is, and those who hear it pass that on to the others, also where their own
configuration has the same: another one may be behind, and connected with nobody who could replicate to it. For the same
reason it does not matter here whether a node has applied the formation of the cluster. What is passed on is a place to
look at, and no more: who answers there has to prove itself like everybody else. The leader puts an address into the
configuration that it heard from the member itself. Of two announcements the one from the later start of that disk
holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from raftsched.errors import StartupError
from raftsched.raft.codec import Hello
from raftsched.raft.membership.configuration import MEMBERS_MAX, Members, find
from raftsched.raft.transport.transport import is_loopback, split_address

NODE_ID_CHARS = 64
STORE_ID_MAX_BYTES = 64


def is_sound(node: str, address: str, store_id: bytes | None = None) -> bool:
    """Returns whether a node that another one named can be stored and dialled: a configuration keeps it for good."""
    try:
        split_address(address)
    except StartupError:
        return False
    return 0 < len(node) <= NODE_ID_CHARS and (store_id is None or 0 < len(store_id) <= STORE_ID_MAX_BYTES)


def may_be_reached(node: str, address: str, members: Members) -> bool:
    """Returns whether the other members may reach a node at this address: not at loopback where one of them is
    elsewhere."""
    others = [member.raft for member in members if member.node != node and is_sound(member.node, member.raft)]
    return not is_loopback(address) or all(is_loopback(other) for other in others)


class Moves:
    """The announced addresses. `told` are those that this node was started with, its own among them."""

    def __init__(self, node_id: str, told: Mapping[str, str]) -> None:
        self.own = told[node_id]
        self._node_id = node_id
        self._told = dict(told)
        self._members: Members = ()
        self._heard: dict[str, tuple[int, str]] = {}  # member -> number of its start, address

    def follow(self, members: Members) -> None:
        """Follows the newest configuration in the log."""
        before, self._members = self._members, members
        for node in list(self._heard):
            old, new = find(before, node), find(members, node)
            if new is None or (old is not None and old.store_id not in (b"", new.store_id)):
                del self._heard[node]

    def begin(self, number: int) -> None:
        """Announces this node's own address from its start `number` on."""
        self._heard[self._node_id] = (number, self.own)

    def heard(self, peer: Hello, remembered: Mapping[str, bytes]) -> bool:
        """Takes the announcements of a peer that was let in; returns whether there is news."""
        if remembered.get(peer.node) != peer.store_id:
            return False
        before = dict(self._heard)
        self._take(peer.node, (peer.incarnation, peer.raft))
        if len(peer.moved) <= MEMBERS_MAX:
            for node, announced in peer.moved.items():
                known = remembered.get(node)
                if known is not None and peer.remembered.get(node) == known and node not in (peer.node, self._node_id):
                    self._take(node, announced)
        return self._heard != before

    def _take(self, node: str, announced: tuple[int, str]) -> None:
        if is_sound(node, announced[1]) and announced > self._heard.get(node, (0, "")):
            self._heard[node] = announced

    def of(self, node: str) -> str | None:
        """Returns the address that a member announces, where that is not the one in the configuration."""
        member, announced = find(self._members, node), self._heard.get(node)
        return None if member is None or announced is None or announced[1] == member.raft else announced[1]

    @property
    def advice(self) -> str | None:
        """Returns where this node is, and what to do, where the configuration has another address; None: it has this
        one."""
        member = find(self._members, self._node_id)
        if member is None or not member.store_id or member.raft == self.own or len(self._members) == 1:
            return None  # nobody else has to find it, of a cluster of one
        told = f"{self._node_id} is at {self.own}, and the members know it at {member.raft}"
        if not may_be_reached(self._node_id, self.own, self._members):
            return (
                f"{told}: {self.own} is an address of its own machine only, which is not taken over. Start it with "
                "--peers or --advertise-raft that say where the others reach it."
            )
        taken = next((m.node for m in self._members if m.raft == self.own), None)
        if taken is not None:
            return (
                f"{told}. There they have {taken}: if that one is not to be elsewhere, correct --advertise-raft, or "
                "this node's place in --peers."
            )
        return (
            f"{told}: it dials them and tells them, by the addresses that it knows and those in its --peers. If they "
            f"are elsewhere, too, start it with --peers that say where; if they are of a version before 0.3.0, start "
            f"it at {member.raft} until all are upgraded."
        )

    def announced(self) -> dict[str, tuple[int, str]]:
        """Returns what was announced, for a hello."""
        return dict(self._heard)

    def elsewhere(self, addresses: Mapping[str, str]) -> list[tuple[str, str]]:
        """Returns where these nodes may be beside `addresses`, as (node, address): where they say that they are, and
        where this node was told that they are."""
        places: dict[tuple[str, str], None] = {}
        for node, address in addresses.items():
            for other in (self.of(node), self._told.get(node)):
                if other is not None and other != address:
                    places[node, other] = None
        return list(places)


def moved(members: Members, present: Iterable[tuple[str, str]]) -> Members | None:
    """Returns the members with the address of the first of `present`, (node, announced address), that the configuration
    has another one of; None: there is none. Nobody gains a vote by it, or loses one, and nobody gets the address of a
    member that is there: one of the two is mistaken."""
    present = tuple(present)
    for node, address in present:
        member = find(members, node)
        if member is None or address == member.raft or not is_sound(node, address):
            continue
        if may_be_reached(node, address, members) and not _is_taken(address, members, present):
            return tuple(msgspec.structs.replace(m, raft=address) if m is member else m for m in members)
    return None


def _is_taken(address: str, members: Members, present: tuple[tuple[str, str], ...]) -> bool:
    """Returns whether the member that the configuration has at this address says that it is there."""
    return any(member.raft == address and (member.node, address) in present for member in members)
