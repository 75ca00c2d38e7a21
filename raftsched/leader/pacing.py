"""Proposals of one leadership: cut to what an entry of the log may hold, and paced so that other writes get through."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

from raftsched.core.commands import Assign, Command, Fire, Rejected, encode
from raftsched.errors import RaftschedError
from raftsched.leader.raft_port import Host
from raftsched.system import background

log = logging.getLogger("raftsched.leader")

BATCH = 250  # commands of one paced proposal, and runs that its fires may make: one entry's apply must stay short
SEARCHED_MAX = (
    8_000  # steps of searches (`schedule.budget`) for one paced proposal, and those of the job that passes it
)
IN_FLIGHT_MAX = 2  # paced batches of a kind that are not answered yet: reports of runs have to get through, too
TIMEOUT_S = 10.0
PIECE_BYTES = 256 * 1024
EXPECTED = ("stale", "cluster-paused")  # refusals of a fire that was proposed before that was known


class Proposals:
    """Sends commands to the log in the background and passes each answer on.

    `answered` is called with each command and True (accepted), False (refused) or None (not known); `unconfirmed` after
    a batch whose outcome is not known: the tables have to be read again.
    """

    def __init__(
        self,
        host: Host,
        is_current: Callable[[], bool],
        answered: Callable[[Command, bool | None], None],
        unconfirmed: Callable[[], None],
    ) -> None:
        self._host = host
        self._is_current = is_current
        self._answered = answered
        self._unconfirmed = unconfirmed
        self.in_flight: Counter[type] = Counter()  # paced batches by the kind of their commands

    def send(self, batch: list[Command]) -> None:
        """Proposes at once, however much is under way."""
        self._host.spawn(self._propose(batch))

    def has_room(self, kind: type) -> bool:
        """Returns whether the log keeps up with the paced batches of that kind."""
        return self.in_flight[kind] < IN_FLIGHT_MAX

    def send_paced(self, kind: type, batch: list[Command]) -> None:
        """Proposes a batch that counts among those of `kind` until it is answered; the leader's loop is woken then."""
        self.in_flight[kind] += 1
        self._host.spawn(self._propose_paced(kind, batch))

    async def _propose_paced(self, kind: type, batch: list[Command]) -> None:
        try:
            await self._propose(batch)
        finally:
            self.in_flight[kind] -= 1
            self._host.poke()

    async def _propose(self, batch: list[Command]) -> None:
        """Proposes pieces that fit into an entry of the log: a fire that catches up carries many times."""
        batch, raw = self._encoded(batch)
        start = size = 0
        for i, command in enumerate(raw):
            if size + len(command) > PIECE_BYTES and i > start:
                await self._propose_piece(batch[start:i], raw[start:i])
                start, size = i, 0
            size += len(command)
        if batch:
            await self._propose_piece(batch[start:], raw[start:])

    def _encoded(self, batch: list[Command]) -> tuple[list[Command], list[bytes]]:
        """Returns the commands that can be encoded, and their bytes. The others count as refused: one of them must not
        take the whole batch with it."""
        commands, raw = [], []
        for command in batch:
            try:
                encoded = encode(command)
            except Exception as error:
                background.note("leader-work", error, type(command).__name__)
                self._answered(command, False)
            else:
                commands.append(command)
                raw.append(encoded)
        return commands, raw

    async def _propose_piece(self, batch: list[Command], raw: list[bytes]) -> None:
        try:
            answers = await self._host.raft.propose(raw, TIMEOUT_S)
        except RaftschedError as error:
            if self._is_current():
                log.warning(
                    "%d commands of the leader were not confirmed (%s); the tables are read again", len(batch), error
                )
                for command in batch:
                    self._answered(command, None)
                self._unconfirmed()
            return
        for command, answer in zip(batch, answers, strict=True):
            refused = isinstance(answer, Rejected)
            self._answered(command, not refused)
            if refused and isinstance(command, Assign):
                self._host.poke()
            if isinstance(answer, Rejected) and isinstance(command, Fire) and answer.code not in EXPECTED:
                log.error("a fire was refused: %s (%s)", answer.code, answer.detail)
