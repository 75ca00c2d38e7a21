"""Somebody without the cluster key who knows everything else: dials members under another one's name and lies."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from raftsched.raft import codec
from raftsched.raft.transport.link import proof
from tests.sim.loop import Loop
from tests.sim.network import MACHINE_UP

if TYPE_CHECKING:
    from tests.sim.machine import Machine
    from tests.sim.world import World

KEY = b"not the key" * 3
EVERY_S = 2.0  # mean time between two tries
TERMS = 40  # it does not know the term, and tries many


class Stranger:
    def __init__(self, world: World, name: str, rng: random.Random) -> None:
        self.name = name
        self._world = world
        self._rng = rng
        self._loop = Loop(world.scheduler, name, world.network, lambda: None, self._crashed)

    def start(self) -> None:
        self._world.network.state[self.name] = MACHINE_UP
        self._next()

    def _next(self) -> None:
        self._world.scheduler.after(self._rng.expovariate(1 / EVERY_S), self._try)

    def _try(self) -> None:
        self._next()
        running = [machine for machine in self._world.machines.values() if machine.running]
        if len(running) > 1:
            posing_as, victim = sorted(self._rng.sample(running, 2), key=lambda machine: machine.name)
            self._loop.call_soon(lambda: self._loop.create_task(self._dial(posing_as, victim)))

    async def _dial(self, posing_as: Machine, victim: Machine) -> None:
        """The lower id dials, so that is the one it takes."""
        host, port = self._world.addresses[victim.name].split(":")
        raft = posing_as.raft
        if raft is None:
            return
        greeting = codec.Greeting(codec.PROTOCOL, posing_as.name, victim.name, self._rng.randbytes(32))
        hello = raft._replica.hello()
        try:
            await self._world.network.connect(self._loop, lambda: _Lie(self, greeting, hello), host, int(port))
        except OSError:
            return

    def lies(self) -> Iterator[codec.Frame]:
        """Yields the false messages that it sends once it is let in."""
        self._world.trace.event(self.name, "let in")
        if self._rng.random() < 0.5:
            for term in range(TERMS):
                yield codec.AppendAnswer(term, 1_000, True, False)  # everything is acknowledged
                yield codec.VoteAnswer(term, True)
        else:
            yield codec.Append(
                TERMS, 0, 0, 1_000, [(TERMS, b"")] * 1_000
            )  # everything is something else, and committed

    def _crashed(self, context: dict[str, Any]) -> None:
        raise AssertionError(f"the stranger itself failed: {context}")


class _Lie(asyncio.Protocol):
    """The dialer's side of the handshake, with the wrong key."""

    def __init__(self, stranger: Stranger, greeting: codec.Greeting, hello: codec.Hello) -> None:
        self._stranger = stranger
        self._greeting = greeting
        self._hello = hello
        self._reader = codec.Reader(1 << 20)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._say(self._greeting)

    def _say(self, *frames: codec.Frame) -> None:
        self._transport.write(b"".join(map(codec.encode, frames)))

    def data_received(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            match frame:
                case codec.Greeting():
                    self._say(codec.Proof(proof(KEY, b"dial", self._greeting, frame, b"")))
                case codec.Proof():
                    self._say(self._hello)
                case codec.Welcome():
                    self._say(*self._stranger.lies())
