"""A leader whose followers are played by hand."""

from __future__ import annotations

from pathlib import Path

from raftsched.core.subjects.cluster import Member
from raftsched.errors import RaftschedError
from raftsched.raft import codec
from raftsched.raft.guards import ALL, Guards
from tests.support.raft_replica import Solo, disk, hello


def members(voters: str, learners: str = "") -> tuple[Member, ...]:
    return tuple(Member(n, f"127.0.0.1:{4000 + ord(n)}", disk(n), n in voters) for n in sorted(voters + learners))


class Leader(Solo):
    """Node b leads a, b, c; what the others have is fed by hand."""

    def __init__(self, tmp_path: Path, guards: Guards = ALL) -> None:
        super().__init__(tmp_path, guards)
        self.term = self.lead()
        self.done: list[RaftschedError | None] = []
        self.number = 0

    def opened(self) -> Leader:
        """The opening entry is committed."""
        self.acknowledge("a", "c")
        assert self.replica.leading
        return self

    def acknowledge(self, *peers: str, upto: int | None = None) -> None:
        upto = self.journal.last_index if upto is None else upto
        for peer in peers:
            self.feed(peer, codec.AppendAnswer(self.term, upto + 1, True, False))

    def knock(self, node: str, store: bytes | None = None) -> None:
        self.replica.peer_set.join_refused(hello(node, store_id=store or disk(node), raft="127.0.0.1:9"))

    def ask(self, change: str, node: str) -> list[RaftschedError | None]:
        """Asks this leader; the list gets None for done, or the error."""
        got: list[RaftschedError | None] = []
        self.number += 1
        self.replica.request(codec.ChangeMembers(self.number, change, node, b""), 5.0, got.append)
        self.settle()
        return got

    @property
    def voters(self) -> str:
        return "".join(self.engine.membership.voters)


def code(got: list[RaftschedError | None]) -> str | None:
    assert len(got) == 1
    return None if got[0] is None else got[0].code
