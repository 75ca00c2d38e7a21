"""Takes the parts that lose data out of pysyncobj's SyncObj: the only module that touches its private names.

The library keeps role, term, vote, leader, connected peers, next and match indices. Each of its own paths that acts on
them is overridden: the engine has them instead, and parts that this project does not use (pickled commands, dumps,
membership changes, code versions, piecewise transmission, its clock, its random numbers) raise when reached. The list
of names holds for one release only: see library_check.py. The library decides nothing: raft/DESIGN.md (decision 4) goes
through the steps of Raft and says why.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from pysyncobj import SyncObj, SyncObjConf
from pysyncobj.node import Node
from pysyncobj.syncobj import _RAFT_STATE
from pysyncobj.transport import Transport

from raftsched.raft.consensus.journal import Journal
from raftsched.raft.options import RaftOptions

ROLES = ("follower", "candidate", "leader")
FOLLOWER: int = _RAFT_STATE.FOLLOWER
CANDIDATE: int = _RAFT_STATE.CANDIDATE
LEADER: int = _RAFT_STATE.LEADER


class _Peer(Node):  # type: ignore[misc]
    """A node that is equal to itself alone: there is one of each id here, and they are keys of all that is kept."""

    __eq__ = object.__eq__
    __ne__ = object.__ne__
    __hash__ = object.__hash__


class _NoTransport(Transport):  # type: ignore[misc]
    """The library is never asked to talk to anybody."""

    def __init__(self) -> None:
        super().__init__(None, None, [])

    ready = True


def _unused(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError("a part of pysyncobj that is not used was reached")


class GuardedSyncObj(SyncObj):  # type: ignore[misc]
    """The state of one member. `on_tick` is called by `doTick`; the journal takes terms, votes and commits."""

    def __init__(
        self,
        node_id: str,
        peers: Sequence[str],
        journal: Journal,
        hard_state: tuple[int, str | None],
        rng: random.Random,
        options: RaftOptions,
        on_tick: Callable[[], None],
    ) -> None:
        self._journal = journal
        self._rng = rng
        self._options = options
        self._on_tick = on_tick
        self._nodes = {peer: _Peer(peer) for peer in peers}
        conf = SyncObjConf(
            autoTick=False,
            appendEntriesUseBatch=True,  # also keeps the library from opening a pipe
            dynamicMembershipChange=False,
            leaderFallbackTimeout=options.fallback_ms / 1000,
            raftMinTimeout=options.election_min_ms / 1000,
            raftMaxTimeout=options.election_max_ms / 1000,
            appendEntriesPeriod=options.heartbeat_ms / 1000 / 2,
            connectionTimeout=max(options.dead_peer_ms, options.election_max_ms) / 1000,
        )
        others = list(self._nodes.values())
        super().__init__(Node(node_id), others, conf, nodeClass=Node, transport=_NoTransport())
        self._SyncObj__raftLog = journal
        self._SyncObj__raftCurrentTerm = max(hard_state[0], journal.last_term)
        self._SyncObj__votedForNodeId = hard_state[1] if hard_state[0] >= journal.last_term else None
        self.loaded()

    # ------------------------------------------------------------ state

    @property
    def term(self) -> int:
        return int(self._SyncObj__raftCurrentTerm)

    @property
    def voted_for(self) -> str | None:
        return self._SyncObj__votedForNodeId

    def set_term(self, term: int, voted_for: str | None) -> None:
        """Sets term and vote, in memory now and on the disk with the next write batch."""
        self._SyncObj__setCurrentTerm(term, voted_for)

    @property
    def role(self) -> int:
        return int(self._SyncObj__raftState)

    @role.setter
    def role(self, role: int) -> None:
        self._SyncObj__setState(role)

    @property
    def leader(self) -> str | None:
        node = self._SyncObj__raftLeader
        return None if node is None else str(node.id)

    @leader.setter
    def leader(self, peer: str | None) -> None:
        if peer is None:
            self._SyncObj__raftLeader = None
        else:
            own = self._SyncObj__selfNode
            self._SyncObj__raftLeader = own if peer == own.id else self._node(peer)

    @property
    def deadline(self) -> float:
        """Monotonic seconds at which an election is due."""
        return float(self._SyncObj__raftElectionDeadline)

    @deadline.setter
    def deadline(self, at: float) -> None:
        self._SyncObj__raftElectionDeadline = at

    def election_timeout(self) -> float:
        """Returns a fresh random timeout in seconds."""
        return self._SyncObj__generateRaftTimeout()

    def commit_to(self, index: int) -> None:
        """Commits everything up to `index`; never goes back."""
        self._journal.set_commit(index)
        self._SyncObj__raftCommitIndex = self._journal.commit_index

    def loaded(self) -> None:
        """Takes commit and applied index from the journal."""
        self._SyncObj__raftCommitIndex = self._journal.commit_index
        self._SyncObj__raftLastApplied = self._journal.applied_index

    def applied(self) -> None:
        """Takes the applied index from the journal, after a write batch."""
        self._SyncObj__raftLastApplied = self._journal.applied_index

    # ------------------------------------------------------------ peers

    def _node(self, peer: str) -> Node:
        node = self._nodes.get(peer)
        if node is None:
            node = self._nodes[peer] = _Peer(peer)
        return node

    def set_connected(self, peer: str, connected: bool) -> None:
        if connected:
            self._SyncObj__onNodeConnected(self._node(peer))
        else:
            self._SyncObj__onNodeDisconnected(self._node(peer))

    def is_connected(self, peer: str) -> bool:
        return self._node(peer) in self._SyncObj__connectedNodes

    def match_index(self, peer: str) -> int:
        return int(self._SyncObj__raftMatchIndex.get(self._node(peer), 0))

    def next_index(self, peer: str) -> int:
        return int(self._SyncObj__raftNextIndex.get(self._node(peer), 0))

    def set_match_index(self, peer: str, index: int) -> None:
        self._SyncObj__raftMatchIndex[self._node(peer)] = index

    def set_next_index(self, peer: str, index: int) -> None:
        self._SyncObj__raftNextIndex[self._node(peer)] = index

    def forget(self, peer: str) -> None:
        """Forgets the indices of a node that is no member any more, or has another disk. It may be connected with the
        new disk already, and stays so."""
        node = self._nodes.get(peer)
        if node is not None:
            self._SyncObj__raftMatchIndex.pop(node, None)
            self._SyncObj__raftNextIndex.pop(node, None)
            if not self.is_connected(peer):
                del self._nodes[peer]

    # ------------------------------------------------------------ what the library must not do its own way

    def _SyncObj__generateRaftTimeout(self) -> float:
        return self._rng.uniform(self._options.election_min_ms, self._options.election_max_ms) / 1000

    def _SyncObj__getCurrentLogIndex(self) -> int:
        return self._journal.last_index

    def _SyncObj__getCurrentLogTerm(self) -> int:
        return self._journal.last_term

    def _SyncObj__setCurrentTerm(self, term: int, voted_for: str | None) -> None:
        self._SyncObj__raftCurrentTerm = term
        self._SyncObj__votedForNodeId = voted_for
        self._journal.set_hard_state(term, voted_for)

    def _onTick(self, timeToWait: float = 0.0) -> None:
        self._on_tick()

    def destroy(self) -> None:
        """Does nothing: the library was given no sockets, threads or files."""

    _SyncObj__onMessageReceived = _unused
    _SyncObj__onBecomeLeader = _unused
    _SyncObj__onLeaderChanged = _unused
    _SyncObj__sendAppendEntries = _unused
    _SyncObj__sendNextNodeIdx = _unused
    _SyncObj__getEntries = _unused
    _SyncObj__deleteEntriesFrom = _unused
    _SyncObj__deleteEntriesTo = _unused
    _SyncObj__applyLogEntries = _unused
    _SyncObj__doApplyCommand = _unused
    _SyncObj__parseChangeClusterRequest = _unused
    _SyncObj__doChangeCluster = _unused
    _SyncObj__tryLogCompaction = _unused
    _SyncObj__loadDumpFile = _unused
    _applyCommand = _unused
    _checkCommandsToApply = _unused
    setCodeVersion = _unused
    addNodeToCluster = _unused
    removeNodeFromCluster = _unused
    transferLeadership = _unused
    forceLogCompaction = _unused
