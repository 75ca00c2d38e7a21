"""Identity and formation: this node's disk, the disks it remembers of others, and the condition for its vote.

A cluster forms once, in two steps. When every listed node answered and all of them are empty, each remembers the
others' disks (store ids) for good. When every listed node has said that it remembers the same disks, each notes that
for good as well, and votes from then on. A disk remembers one set only, so that no two sets can both be agreed upon: an
observation of another node may be out of date by the time of the vote, its statement is not. From the first step on a
node id with another disk is a stranger: it may have forgotten votes and acknowledged entries. After formation the
members are those of the replicated state.
"""

from __future__ import annotations

import hashlib
import logging
import random
from collections.abc import Callable

import msgspec

from raftsched.core.subjects.cluster import Member, Meta
from raftsched.errors import StartupError
from raftsched.lost_majority import ELSE, HEALTHY
from raftsched.quantities import format_duration
from raftsched.raft.codec import PROTOCOL, Hello
from raftsched.raft.guards import Guards
from raftsched.raft.membership.configuration import MEMBERS_MAX
from raftsched.raft.membership.incarnations import Incarnations
from raftsched.raft.membership.moves import Moves, is_sound

log = logging.getLogger(__name__)

ADDRESSES_MAX = 4 * MEMBERS_MAX  # asked by a node that is no member

AGREED: dict[str, bytes | None] = {"agreed": b"1"}  # the own record

_START_OVER = (
    "; if the cluster was never formed, no node ever having had a leader, stop all nodes and start them with empty "
    "data directories"
)

_map = msgspec.msgpack.Decoder(dict[str, bytes])


def alone(node: str, raft: str, rng: random.Random) -> tuple[Member, dict[str, bytes]]:
    """Makes a new disk whose node is the only member of its cluster; returns the member and the disk's own records."""
    store_id = rng.randbytes(16)
    remembered = msgspec.msgpack.encode({node: store_id})
    return Member(node, raft, store_id), {"node_id": node.encode(), "store_id": store_id, "remembered": remembered}


def peers_hash(node_ids: list[str]) -> bytes:
    return hashlib.sha256("\n".join(sorted(node_ids)).encode()).digest()


def empty_and_replace(node: str) -> str:
    return (
        f"It may have forgotten votes and acknowledged entries. {HEALTHY[0].upper()}{HEALTHY[1:]}, start it with an "
        f"empty data directory, and admit that with 'raftsched cluster members replace {node}'. {ELSE}"
    )


class Formation:
    """Identity and admission of one node. `peers` are the configured nodes with this one, id -> host:port."""

    def __init__(
        self,
        node_id: str,
        peers: dict[str, str],
        http: str,
        rng: random.Random,
        guards: Guards,
        join: bool = False,
    ) -> None:
        if node_id not in peers:
            raise StartupError(
                f"The peer list has no node {node_id!r}, only {', '.join(sorted(peers))}; "
                "it must name every node, this one too."
            )
        self.node_id = node_id
        self.addresses = dict(peers)  # addresses of the others; a configuration overrides them
        self.store_id = b""
        self.cluster_id = b""
        self.formed = False
        self.is_member = False  # the remembered disks are durable, and this one is among them
        self.agreed = False  # durable, too: every listed node remembers the same disks
        self.remembered: dict[str, bytes] = {}
        self.join = join  # a new node of a cluster that exists: it never forms one
        self.leaving: Callable[[Hello], bool] = lambda peer: False  # a member whose removal is not committed
        self.settled: Callable[[], int] = lambda: self._configuration  # index of the newest applied configuration
        self.incarnations = Incarnations(node_id, rng, guards)
        self.moves = Moves(node_id, peers)
        self._names = set(peers)
        self._learners: list[str] = []
        self._configuration = 0  # index of the entry that holds the members
        self._http = http
        self._hash = peers_hash(list(peers))
        self._rng = rng
        self._guards = guards
        self._seen: dict[str, Hello] = {}  # connected now
        self._agreeing: set[str] = {node_id}  # nodes that said they remember the same disks
        self._warned: set[str] = set()
        self._foreign_peers: set[str] = set()  # peers of another cluster, met since the start
        self._met_own_cluster = False  # a peer of the own cluster was met since the start

    # ------------------------------------------------------------ start

    def load(self, local: Callable[[str], bytes | None], meta: Meta) -> dict[str, bytes | None]:
        """Reads identity and remembered disks; returns the records to write before anything is sent. Raises
        StartupError."""
        own = local("node_id")
        if own is not None and own != self.node_id.encode():
            raise StartupError(
                f"The data directory belongs to node {own.decode()!r}, not to {self.node_id!r}; use its own directory."
            )
        fresh = self.incarnations.load(local)
        self.moves.begin(self.incarnations.number)
        self.store_id = local("store_id") or self._rng.randbytes(16)
        if own is None:
            fresh |= {"node_id": self.node_id.encode(), "store_id": self.store_id}
        raw = local("remembered")
        if raw is not None:
            self.remembered = _map.decode(raw)
            self.is_member = True
            self.agreed = local("agreed") is not None
        self.follow_state(meta)
        if self.is_member and not self.formed and set(self.remembered) != set(self.addresses):
            raise StartupError(
                f"This node was forming a cluster of {', '.join(sorted(self.remembered))}; "
                "start it with that peer list."
            )
        if self.is_member and meta.members:
            self._tell_strangers(meta.members)
        if not self.is_member and not self.formed and len(self.addresses) == 1:
            fresh.update(self.remember_disks({}))
            self.is_member = True
        if self.is_member and not self.agreed and self.remembered.keys() == {self.node_id}:
            fresh.update(AGREED)
            self.agreed = True
        return fresh

    def _tell_strangers(self, members: tuple[Member, ...]) -> None:
        """Says which nodes of the peer list this one never meets: it dials members alone."""
        strangers = self.addresses.keys() - {member.node for member in members}
        if strangers:
            log.warning(
                "the peer list has %s, no member of this cluster: let it in ('raftsched cluster members add'), or take "
                "it off the list; restored from a backup, too, it is a cluster of its own, and runs the same jobs",
                ", ".join(sorted(strangers)),
            )

    def follow_state(self, meta: Meta) -> None:
        """Takes the cluster's id from the applied state, which is the authority once it names a cluster."""
        if meta.cluster_id:
            self.formed = True
            self.cluster_id = meta.cluster_id

    def applied_members(self, meta: Meta) -> tuple[Member, ...]:
        """Returns the members of the state when formed, else the configured ones."""
        if meta.members:
            return meta.members
        return tuple(Member(n, a, self.remembered.get(n, b"")) for n, a in sorted(self.addresses.items()))

    def follow(self, members: tuple[Member, ...], index: int) -> None:
        """Follows the newest configuration in the log, whose entry has this index: it decides which nodes may connect,
        and whether this disk is a member.

        Before the cluster is formed it holds the configured peers, whose disks are not known yet."""
        if all(member.store_id for member in members):
            self.remembered = {member.node: member.store_id for member in members}
            self.is_member = self.remembered.get(self.node_id) == self.store_id
            self.agreed = self.agreed or (self.is_member and index > 0)  # changes come after the formation
        self._configuration = index
        self._names = {member.node for member in members}
        self._learners = [member.node for member in members if not member.voter]
        for member in members:
            self.addresses[member.node] = member.raft
        self.moves.follow(members)

    def dial_addresses(self) -> dict[str, str]:
        """Returns the nodes to be connected with, id -> host:port. A node that is no member looks wherever a member may
        be."""
        names = self._names if self.is_member else self.addresses
        return {node: self.addresses[node] for node in names if node != self.node_id}

    def member_rows(self) -> tuple[Member, ...]:
        """Returns the cluster's members as the first leader proposes them."""
        return tuple(Member(node, self.addresses[node], self.remembered[node]) for node in sorted(self.remembered))

    @property
    def may_vote(self) -> bool:
        return self.is_member and (self.agreed or self.formed or not self._guards.formed_by_all)

    # ------------------------------------------------------------ admission

    def hello(self, empty: bool, election_ms: int = 0) -> Hello:
        return Hello(
            protocol=PROTOCOL,
            node=self.node_id,
            store_id=self.store_id,
            cluster_id=self.cluster_id,
            formed=self.formed,
            empty=empty and not self.formed,
            peers_hash=self._hash,
            http=self._http,
            remembered=self.remembered if self.is_member else {},
            raft=self.moves.own,
            configuration=self._configuration,
            learners=self._learners,
            addresses={node: self.addresses[node] for node in self._names} if self.is_member and self.formed else {},
            agreed=self.agreed and not self.formed,
            incarnation=self.incarnations.number,
            starts=self.incarnations.starts,
            met=self.incarnations.known(self.remembered) if self.is_member else {},
            moved=self.moves.announced() if self.is_member else {},
            election_ms=election_ms,
        )

    def refusal(self, peer: Hello) -> str | None:
        """Returns the reason, in one line, why a node that proved to hold the cluster key is not let in; None:
        welcome."""
        if peer.protocol != PROTOCOL:
            return f"node {peer.node!r} speaks protocol {peer.protocol}, this node {PROTOCOL}; upgrade the older one"
        if peer.node != self.node_id and (self.has_newer_configuration(peer) or self._is_removal_uncertain(peer)):
            return self.rolled_back(peer)
        if peer.node == self.node_id or peer.node not in self._names:
            if not self.formed:
                return f"node {peer.node!r} is not in the peer list of {self.node_id!r}"
            return f"node {peer.node!r} is not a member: admit it with 'raftsched cluster members add {peer.node}'"
        if self.foreign(peer):
            self._foreign_peers.add(peer.node)
            return (
                f"node {peer.node!r} belongs to another cluster ({peer.cluster_id.hex()[:8]}, this one is "
                f"{self.cluster_id.hex()[:8]}); check the peer list and the data directory"
            )
        if not self.formed and not peer.formed and peer.peers_hash != self._hash:
            return f"node {peer.node!r} was started with another peer list; start all nodes with the same one"
        if not self._guards.wiped_disk_refused:
            return None
        forming = not (self.formed or peer.formed)
        known = self.remembered.get(peer.node) if self.is_member else None
        if known is not None and known != peer.store_id:
            return (
                f"node {peer.node!r} has another disk than the member of that name (store {peer.store_id.hex()[:8]} "
                f"instead of {known.hex()[:8]}): bring back its old data directory, or admit the new one with "
                f"'raftsched cluster members replace {peer.node}'{_START_OVER if forming else ''}"
            )
        mine = peer.remembered.get(self.node_id)
        if mine is not None and mine != self.store_id and not self.is_newer_member_than(peer):
            return (
                f"node {peer.node!r} knows this node with another disk (store {mine.hex()[:8]} instead of "
                f"{self.store_id.hex()[:8]}): bring back the old data directory, or admit the new one with "
                f"'raftsched cluster members replace {self.node_id}'{_START_OVER if forming else ''}"
            )
        if (back := self.rolled_back(peer)) is not None:
            return back
        return self._disagreement(peer) if forming else None

    def rolled_back(self, peer: Hello) -> str | None:
        """Returns advice about a peer that has the right disk, but in an earlier state than was known before; None:
        nothing like that is known. Also when the peer says so of this node's disk."""
        if not self.is_member:
            return None
        if self.remembered.get(peer.node) == peer.store_id and (fault := self.incarnations.fault(peer)) is not None:
            return (
                f"the disk of node {peer.node!r} went back to an earlier state, or another process runs on a copy of "
                f"its data directory: {fault}. {empty_and_replace(peer.node)}"
            )
        return self.own_disk_rolled_back(peer)

    def own_disk_rolled_back(self, peer: Hello) -> str | None:
        """Returns the same about this node's disk, by a peer's hello."""
        counts_us = peer.remembered.get(self.node_id) == self.store_id
        if not counts_us or self.foreign(peer) or not self.incarnations.own_rollback_seen(peer):
            return None
        return (
            "the disk of this node went back to an earlier state, or another process runs on a copy of its data "
            f"directory: node {peer.node!r} has met it in a later state or as another process. "
            f"{empty_and_replace(self.node_id)}"
        )

    def _disagreement(self, peer: Hello) -> str | None:
        """Returns the reason why this node and a peer will never form a cluster: another node showed different disks to
        the two. None: nothing like that is known."""
        if not self.is_member or self._configuration or peer.configuration:
            return None
        nodes = sorted(self.remembered.keys() & peer.remembered.keys())
        other = next((node for node in nodes if self.remembered[node] != peer.remembered[node]), None)
        if other is None:
            return None
        return (
            f"node {peer.node!r} met {other!r} with another disk than this node did (store "
            f"{peer.remembered[other].hex()[:8]} and {self.remembered[other].hex()[:8]}): two machines were started as "
            f"{other!r}, or its disk was lost while the cluster was being formed{_START_OVER}"
        )

    def may_join(self, peer: Hello) -> bool:
        """Returns whether a refused peer could be let in by a change of the members: another node, or another disk of a
        member."""
        if not (self.is_member and self.formed) or peer.protocol != PROTOCOL or self.foreign(peer):
            return False
        if not is_sound(peer.node, peer.raft, peer.store_id):
            return False
        return peer.node != self.node_id and self.remembered.get(peer.node) != peer.store_id

    def has_newer_configuration(self, peer: Hello) -> bool:
        """Returns whether the peer is a member of our cluster by a configuration that is newer than the applied one
        here and includes this very disk. It may lead the cluster, and then it is the only one that can bring us up to
        date. It counts for nothing here until it is in our own log. A configuration in our log that is not applied yet
        says nothing: it may be a deposed leader's, with a higher index than the one that was committed instead."""
        counts_us = peer.formed and peer.remembered.get(self.node_id) == self.store_id
        if not counts_us or self.foreign(peer):
            return False
        return not self.is_member or peer.configuration > self.settled()

    def _is_removal_uncertain(self, peer: Hello) -> bool:
        """Returns whether the peer is a member whose removal stands in our log and may come to nothing: then it may
        lead the others, who know nothing of the removal, and it is the only one that can tell us."""
        counts_us = peer.remembered.get(self.node_id) == self.store_id
        return peer.node not in self._names and counts_us and not self.foreign(peer) and self.leaving(peer)

    def learn_addresses(self, peer: Hello) -> bool:
        """Takes the members' addresses from a peer; returns whether there were new ones. A node that is no member may
        know only one of the members, and has to ask the one that leads."""
        if self.is_member or not peer.formed or self.foreign(peer) or len(peer.addresses) > MEMBERS_MAX:
            return False
        known = {n: a for n, a in peer.addresses.items() if n != self.node_id and is_sound(n, a)}
        after = {**self.addresses, **known}
        if after == self.addresses or len(after) > ADDRESSES_MAX:
            return False
        self.addresses = after
        return True

    def hears_where(self, peer: Hello) -> bool:
        """Takes from a connected peer where it and others are; returns whether there is news for the other members."""
        return self.is_member and self.moves.heard(peer, self.remembered)

    def hears_again(self) -> bool:
        """Takes the same from all connected peers, since this node may know other disks now; returns whether there is
        news."""
        news = [self.hears_where(peer) for peer in self._seen.values()]  # all of them, also after the first news
        return any(news)

    def is_newer_member_than(self, peer: Hello) -> bool:
        """Returns whether this disk is a member by a configuration that the peer has not got yet; it will learn
        of it."""
        return self.is_member and self.formed and peer.configuration < self._configuration

    def foreign(self, peer: Hello) -> bool:
        """Returns whether the peer belongs to another cluster."""
        return bool(self.cluster_id and peer.cluster_id and self.cluster_id != peer.cluster_id)

    @property
    def wrong_cluster(self) -> str | None:
        """The reason, in one line, why this data directory is in the wrong place: most of its peers belong to another
        cluster, none to its own. None after a peer of its own cluster was met since the start, whatever others claim to
        be."""
        others = len(self._names - {self.node_id})
        if self._met_own_cluster or 2 * len(self._foreign_peers) <= others:
            return None
        peers = ", ".join(sorted(self._foreign_peers))
        return (
            f"The data directory is of cluster {self.cluster_id.hex()[:8]}, but {peers} belong to another one; check "
            "--data and --peers."
        )

    def connected(self, peer: Hello) -> dict[str, bytes] | None:
        """Takes a welcome peer, or news of it. Returns the disks to remember from now on, when that is due."""
        self._seen[peer.node] = peer
        self._met_own_cluster = True
        if self.is_member or self.remembered:
            return None
        if peer.remembered.get(self.node_id) == self.store_id and self._counted_at_formation(peer):
            return dict(peer.remembered)
        if self.join or peer.formed:
            self._warn_not_member()  # the log will say so when it is let in
            return None
        others = [node for node in self.addresses if node != self.node_id]
        if any(node not in self._seen for node in others):
            return None
        if all(self._seen[node].empty for node in others):
            return {node: self._seen[node].store_id for node in others}
        self._warn_not_member()
        return None

    def all_remember(self) -> bool:
        """Returns whether it is due to note that every listed node remembers the same disks. A peer that has noted it,
        or has been in the formed cluster, speaks for all."""
        if not self.is_member or self.agreed or self.formed:
            return False
        for peer in self._seen.values():
            counts_us = peer.remembered.get(self.node_id) == self.store_id
            if peer.formed and counts_us and self.node_id not in peer.learners and not self.foreign(peer):
                return True
            if peer.remembered == self.remembered and self.remembered.get(peer.node) == peer.store_id:
                if peer.agreed:
                    return True
                self._agreeing.add(peer.node)
        return self._agreeing >= self.remembered.keys()

    @property
    def not_agreed_yet(self) -> list[str]:
        """The nodes that have not yet said that they remember the same disks; empty while this node remembers none, and
        after the agreement."""
        if not self.is_member or self.agreed or self.formed:
            return []
        return sorted(self.remembered.keys() - self._agreeing)

    def _counted_at_formation(self, peer: Hello) -> bool:
        """Returns whether the peer counted this disk in when it saw all nodes empty. A later disk is let in by
        the log alone: before it has the log it knows nothing of committed entries, and two such disks could elect
        each other."""
        if self.node_id in peer.learners:
            return False
        return peer.remembered.keys() == self.addresses.keys() and not self.join

    def compare_elections(self, peer: Hello, election_ms: int) -> None:
        """Warns once of a peer that begins elections after another time than this node."""
        about = f"elections of {peer.node}"
        if peer.election_ms in (0, election_ms):
            self._warned.discard(about)
        elif about not in self._warned:
            self._warned.add(about)
            log.warning(
                "%s was started with --election-timeout %s, and %s with %s: start all nodes with the same. Nothing "
                "is lost meanwhile; the one with less begins elections that the others refuse",
                peer.node,
                format_duration(peer.election_ms),
                self.node_id,
                format_duration(election_ms),
            )

    def _warn_not_member(self) -> None:
        if "waits" not in self._warned:
            self._warned.add("waits")
            log.warning("%s is no member of the cluster that it found: waiting to be let in", self.node_id)

    def disconnected(self, peer: str) -> None:
        self._seen.pop(peer, None)

    def http_of(self, peer: str) -> str | None:
        """Returns the API address that a peer announced, while it is connected."""
        hello = self._seen.get(peer)
        return None if hello is None else hello.http

    def remember_disks(self, others: dict[str, bytes]) -> dict[str, bytes | None]:
        """Remembers the disks; the returned record must be durable before this node says so."""
        self.remembered = {**others, self.node_id: self.store_id}
        return {"remembered": msgspec.msgpack.encode(self.remembered)}
