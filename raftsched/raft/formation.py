"""Who this node is, whom it knows, and when it may vote.

A cluster forms once, when every listed node answered and all of them are empty: each then remembers the others' disks
(store ids) for good, and only then votes. From then on a node id with another disk is a stranger: it may have forgotten
votes and acknowledged entries. After formation the members are what the replicated state says.
"""

from __future__ import annotations

import hashlib
import logging
import random
from collections.abc import Callable

import msgspec

from raftsched.core.model import Member, Meta
from raftsched.errors import StartupError
from raftsched.raft.codec import PROTOCOL, Hello
from raftsched.raft.guards import Guards

log = logging.getLogger(__name__)

_map = msgspec.msgpack.Decoder(dict[str, bytes])


def peers_hash(node_ids: list[str]) -> bytes:
    return hashlib.sha256("\n".join(sorted(node_ids)).encode()).digest()


class Formation:
    """Identity and admission. `peers` are the configured nodes with this one, id -> host:port."""

    def __init__(self, node_id: str, peers: dict[str, str], http: str, rng: random.Random, guards: Guards) -> None:
        if node_id not in peers:
            raise StartupError(
                f"The peer list has no node {node_id!r}, only {', '.join(sorted(peers))}; "
                "it must name every node, this one too."
            )
        self.node_id = node_id
        self.addresses = dict(peers)
        self.store_id = b""
        self.cluster_id = b""
        self.formed = False
        self.armed = False  # the remembered disks are durable: may vote
        self.remembered: dict[str, bytes] = {}
        self._http = http
        self._hash = peers_hash(list(peers))
        self._rng = rng
        self._guards = guards
        self._seen: dict[str, Hello] = {}  # connected now
        self._told: set[str] = set()
        self._strangers: set[str] = set()  # peers of another cluster, met since the start
        self._at_home = False  # a peer of the own cluster was met since the start

    # ------------------------------------------------------------ start

    def load(self, local: Callable[[str], bytes | None], meta: Meta) -> dict[str, bytes | None]:
        """Reads identity and memory; returns the records to be written before anything is sent. Raises StartupError."""
        own = local("node_id")
        if own is not None and own != self.node_id.encode():
            raise StartupError(
                f"The data directory belongs to node {own.decode()!r}, not to {self.node_id!r}; use its own directory."
            )
        fresh: dict[str, bytes | None] = {}
        self.store_id = local("store_id") or self._rng.randbytes(16)
        if own is None:
            fresh = {"node_id": self.node_id.encode(), "store_id": self.store_id}
        raw = local("remembered")
        if raw is not None:
            self.remembered = _map.decode(raw)
            self.armed = True
        self.read_members(meta)
        if self.armed and not self.formed and set(self.remembered) != set(self.addresses):
            raise StartupError(
                f"This node was forming a cluster of {', '.join(sorted(self.remembered))}; "
                "start it with that peer list."
            )
        if self.formed and self.node_id not in self.remembered:
            raise StartupError(f"Node {self.node_id!r} is not a member of the cluster in its data directory.")
        if self.formed and self.remembered[self.node_id] != self.store_id:
            raise StartupError(
                f"The cluster knows node {self.node_id!r} with another disk; this data directory is not its own."
            )
        if not self.armed and len(self.addresses) == 1:
            fresh.update(self.arm({}))
            self.armed = True
        return fresh

    def read_members(self, meta: Meta) -> None:
        """The replicated state is the authority once it names members."""
        if not meta.members:
            return
        self.formed = self.armed = True
        self.cluster_id = meta.cluster_id
        self.remembered = {member.node: member.store_id for member in meta.members}
        for member in meta.members:
            self.addresses.setdefault(member.node, member.raft)

    @property
    def members(self) -> list[str]:
        """Voting members: of the state when formed, else the configured ones."""
        return sorted(self.remembered) if self.formed else sorted(self.addresses)

    def member_rows(self) -> tuple[Member, ...]:
        """What the first leader proposes as the cluster's members."""
        return tuple(Member(node, self.addresses[node], self.remembered[node]) for node in sorted(self.remembered))

    # ------------------------------------------------------------ admission

    def hello(self, empty: bool) -> Hello:
        return Hello(
            protocol=PROTOCOL,
            node=self.node_id,
            store_id=self.store_id,
            cluster_id=self.cluster_id,
            formed=self.formed,
            empty=empty and not self.formed,
            peers_hash=self._hash,
            http=self._http,
            remembered=self.remembered if self.armed else {},
        )

    def refusal(self, peer: Hello) -> str | None:
        """Why a node that proved to hold the cluster key is not let in, in one line; None: welcome."""
        if peer.protocol != PROTOCOL:
            return f"node {peer.node!r} speaks protocol {peer.protocol}, this node {PROTOCOL}; upgrade the older one"
        if peer.node == self.node_id or peer.node not in self.members:
            return f"node {peer.node!r} is not in the peer list of {self.node_id!r}"
        if self.foreign(peer):
            self._strangers.add(peer.node)
            return (
                f"node {peer.node!r} belongs to another cluster ({peer.cluster_id.hex()[:8]}, this one is "
                f"{self.cluster_id.hex()[:8]}); check the peer list and the data directory"
            )
        if not self.formed and not peer.formed and peer.peers_hash != self._hash:
            return f"node {peer.node!r} was started with another peer list; start all nodes with the same one"
        if not self._guards.wiped_disk_refused:
            return None
        known = self.remembered.get(peer.node) if self.armed else None
        if known is not None and known != peer.store_id:
            return (
                f"node {peer.node!r} has another disk than the member of that name (store {peer.store_id.hex()[:8]} "
                f"instead of {known.hex()[:8]}): bring back its old data directory, or replace the member"
            )
        mine = peer.remembered.get(self.node_id)
        if mine is not None and mine != self.store_id:
            return (
                f"node {peer.node!r} knows this node with another disk (store {mine.hex()[:8]} instead of "
                f"{self.store_id.hex()[:8]}): bring back the old data directory, or replace the member"
            )
        return None

    def foreign(self, peer: Hello) -> bool:
        """Whether the peer is of another cluster."""
        return bool(self.cluster_id and peer.cluster_id and self.cluster_id != peer.cluster_id)

    @property
    def stranded(self) -> str | None:
        """Why this node is in the wrong place, in one line: most of its peers are of another cluster, none is of its
        own. One that has met its own cluster since it started never says so, whatever others claim to be."""
        others = len(self.members) - 1
        if self._at_home or 2 * len(self._strangers) <= others:
            return None
        return (
            f"The data directory is of cluster {self.cluster_id.hex()[:8]}, but {', '.join(sorted(self._strangers))} "
            "belong to another one; check --data and --peers."
        )

    def connected(self, peer: Hello) -> dict[str, bytes] | None:
        """A welcome peer, or news of it. Returns the disks to remember from now on, when that is due."""
        self._seen[peer.node] = peer
        self._at_home = True
        if self.armed or self.remembered:
            return None
        if peer.remembered.get(self.node_id) == self.store_id:
            return dict(peer.remembered)  # it counted this very disk in when it saw everybody empty
        others = [node for node in self.addresses if node != self.node_id]
        if any(node not in self._seen for node in others):
            return None
        if all(self._seen[node].empty for node in others):
            return {node: self._seen[node].store_id for node in others}
        if "waits" not in self._told:
            self._told.add("waits")
            full = ", ".join(node for node in others if not self._seen[node].empty)
            log.warning("%s is empty but %s is not: waiting to be taken in as a member", self.node_id, full)
        return None

    def disconnected(self, peer: str) -> None:
        self._seen.pop(peer, None)

    def http_of(self, peer: str) -> str | None:
        """The API address a peer announced, while it is connected."""
        hello = self._seen.get(peer)
        return None if hello is None else hello.http

    def arm(self, others: dict[str, bytes]) -> dict[str, bytes | None]:
        """Remembers the disks; the record returned must be durable before this node votes."""
        self.remembered = {**others, self.node_id: self.store_id}
        return {"remembered": msgspec.msgpack.encode(self.remembered)}
