"""Everything that consensus emits, and everything it asks of the node around it, in one place.

Consensus does no I/O: it calls these, and the replica or the facade performs the call. Emitted are:

- messages to peers (`EngineHost.send`, `Links.send`), of which acknowledgements and votes go through `hold`, so that
  they leave only once the write batch they depend on is durable;
- log entries, term, vote, commit index and own records: into the journal, whose `take` is the next write batch;
- applied entries: to `Raft.subscribe`, and their answers to whoever proposed on this node;
- a change of role, term or leader: to `Raft.subscribe_role`;
- a snapshot to prepare for a follower (`need_snapshot`), and a state that was swapped in (Installer's `installed`);
- the members to be connected with (`Links.members_changed`);
- a fatal error: `on_fatal`, once, after which nothing more is emitted.

These are calls rather than one value that is returned and worked off, because the engine needs the answers while it
works: `send` says whether a connection takes more, and `hold` has to know which write batch is being gathered at that
moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from raftsched.core.subjects.cluster import Member
from raftsched.raft.codec import Answered, Frame
from raftsched.raft.membership.configuration import Members
from raftsched.raft.writer import Action


class EngineHost(Protocol):
    """The node around the engine; implemented by the replica."""

    def send(self, peer: str, frame: Frame) -> bool:
        """Sends a message; False: not connected, or its connection takes no more."""

    def hold(self, action: Action) -> None:
        """Calls `action` once every change so far is durable."""

    def may_vote(self) -> bool:
        """Returns whether this disk is one that may vote."""

    def opening(self, term: int) -> bytes:
        """Returns the first entry of a leadership."""

    def need_snapshot(self, peer: str) -> None:
        """Prepares a snapshot for a follower whose next entry is compacted away."""

    def lost_entries(self, peer: str, last: int, acknowledged: int) -> None:
        """Takes note that a follower has entries up to `last`, and had acknowledged more."""

    def log_ms(self) -> int:
        """Returns the log's time, for heartbeats; 0: not known."""

    def heard_log_ms(self, now_ms: int) -> None:
        """Takes the log's time from a leader's heartbeat."""


class ChangesHost(Protocol):
    """The node around the leader's changes of the members; implemented by PeerSet."""

    @property
    def leading(self) -> bool:
        """This node leads and has applied its opening entry."""

    def configure(self, members: Members) -> None:
        """Appends the next configuration."""

    def join_request(self, node: str) -> Member | None:
        """Returns the node of this id that asks to be let in, as the member it would become."""

    def counts(self, peer: str) -> bool:
        """Returns whether a connected peer is a member with the disk that it has."""

    def present(self) -> Iterator[tuple[str, str]]:
        """Yields the members that are here with the disks that they have, and the address that each announces: this
        node, and its connected peers."""

    def answer(self, peer: str, frame: Answered) -> None:
        """Answers a request of `peer`, which may be this node."""


class Links(Protocol):
    """The way to the other members; implemented by the facade, and by the simulator."""

    def send(self, peer: str, frame: Frame) -> bool:
        """Sends a message; False: not connected. Order is kept as long as the connection lives."""

    def flush(self) -> None:
        """Hands what was sent so far to the connections. Without this call that happens after the events at hand."""

    def wake(self) -> None:
        """Asks for a call of `Replica.pump` once the events at hand are dealt with."""

    def members_changed(self) -> None:
        """Asks for connections to be opened and closed, not at once but after the events at hand."""
