"""The two steps in which a node forms a cluster with others, each durable before it is announced; see formation.py."""

from __future__ import annotations

from collections.abc import Callable

from raftsched.raft.codec import Hello
from raftsched.raft.membership.formation import AGREED, Formation


class Forming:
    """Runs the steps. `note` puts an own record into the next write batch, `hold` calls back when all records noted so
    far are durable, `introduce` introduces this node again to its connected peers, `may_vote` is called when this node
    votes from now on."""

    def __init__(
        self,
        formation: Formation,
        *,
        note: Callable[[str, bytes | None], None],
        hold: Callable[[Callable[[], None]], None],
        introduce: Callable[[], None],
        may_vote: Callable[[], None],
    ) -> None:
        self._formation = formation
        self._note = note
        self._hold = hold
        self._introduce = introduce
        self._may_vote = may_vote
        self._agreeing = False  # that all remember the same disks is on its way to the disk

    def note(self, records: dict[str, bytes | None]) -> None:
        for name, value in records.items():
            self._note(name, value)

    def heard(self, hello: Hello) -> None:
        """Takes the hello of a connected peer, or a newer one."""
        if self._formation.is_member:
            self.note(self._formation.incarnations.record_met(hello, self._formation.remembered))
        disks = self._formation.connected(hello)
        if disks is not None:
            self.note(self._formation.remember_disks(disks))
            self._hold(self._remembered)
        self._compare()

    def _remembered(self) -> None:
        self._formation.is_member = True
        self._formation.hears_again()
        self._introduce()
        self._compare()

    def _compare(self) -> None:
        if not self._agreeing and self._formation.all_remember():
            self._agreeing = True
            self.note(AGREED)
            self._hold(self._agreed)

    def _agreed(self) -> None:
        self._formation.agreed = True
        self._introduce()
        self._may_vote()
