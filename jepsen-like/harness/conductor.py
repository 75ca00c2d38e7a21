"""Which fault comes when: each that can be done once, in a random order, then any of them, until the time is over.

Three lanes run beside each other, one for processes, disks and clocks, one for the network, one for remote workers; a
fault that needs the other nodes to be well has the first two. At most a minority of the nodes is hurt by the first lane
at one time."""

from __future__ import annotations

import asyncio
from collections import Counter

from harness.clock import SECOND, boot_ns
from harness.nemesis import Fault
from harness.nemesis.workers import OnWorkers
from harness.world import World

PAUSE_S = (0.5, 4.0)
WELL_S = 45.0  # how long the cluster may take to be well again before a fault that needs that
TAIL_S = 8.0  # no new fault in the last seconds
LOOK_S = 0.3
SAID_S = 1.0  # between two looks at what is said to have succeeded
SAID_ROWS = 250  # the newest: what waited for a lease to run out and lives long was due some time ago
LISTEN_S = 2.0


class Conductor:
    def __init__(self, world: World, faults: list[Fault]) -> None:
        self.done: Counter[str] = Counter()
        self.without: Counter[str] = Counter()  # struck nobody
        self._world = world
        self._whole = asyncio.Lock()
        on_nodes = [f for f in faults if not isinstance(f, OnWorkers)]
        on_workers = [f for f in faults if isinstance(f, OnWorkers)]
        self._lanes = [[f for f in on_nodes if not f.network], [f for f in on_nodes if f.network], on_workers]

    async def run(self) -> None:
        watching = asyncio.gather(self._watch(), self._listen())
        try:
            await asyncio.gather(*(self._lane(lane) for lane in self._lanes if lane))
            await asyncio.sleep(max(0.0, self._world.left_s))
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self) -> None:
        """Who leads, and who ended without being told to."""
        known = None
        while True:
            leader = await self._world.cluster.leader()
            name = None if leader is None else leader.name
            if name != known:
                known = name
                self._world.history.note("leader", node=name)
            await self._world.cluster.restart_dead()
            await asyncio.sleep(LOOK_S)

    async def _listen(self) -> None:
        """What any node says to have succeeded, while runs of it may still live: once for each attempt."""
        known: set[tuple[str, int]] = set()
        while True:
            page = await self._world.any_node().get(f"/v1/instances?limit={SAID_ROWS}", LISTEN_S)
            said = {
                (row["id"], attempt["token"])
                for row in (page or {"items": ()})["items"]
                for attempt in row["attempts"]
                if attempt["outcome"] == "succeeded"
            }
            if said - known:
                self._world.history.note("succeeded", attempts=sorted(said - known))
                known |= said
            await asyncio.sleep(SAID_S)

    async def _lane(self, faults: list[Fault]) -> None:
        rng = self._world.rng
        first = rng.sample(faults, len(faults))
        while await self._world.pause(*PAUSE_S) and self._world.left_s > TAIL_S:
            fault = first.pop() if first else rng.choice(faults)
            if fault.whole:
                async with self._whole:
                    amiss = await self._world.cluster.wait_well(min(WELL_S, self._world.left_s))
                    if amiss is None:
                        await self._one(fault)
                    else:
                        self._world.history.note("not-well", before=fault.name, amiss=amiss)
                        self.without[fault.name] += 1
            elif fault.network:
                async with self._whole:
                    await self._one(fault)
            else:
                await self._one(fault)

    async def _one(self, fault: Fault) -> None:
        world = self._world
        names = [node.name for node in world.cluster.nodes]
        world.rng.shuffle(names)
        began = boot_ns()
        world.history.note("fault", name=fault.name)
        hurt = None
        try:
            hurt = await fault.strike(world, names)
        finally:
            await fault.heal(world)
            world.history.note("healed", name=fault.name, began=began, nodes=hurt)
            (self.without if hurt is None else self.done)[fault.name] += 1
            print(
                f"{(began - world.began_ns) / SECOND:6.1f} s  {fault.name:<28}"
                f"{'nobody suited' if hurt is None else ', '.join(hurt)}, {(boot_ns() - began) / SECOND:.1f} s",
                flush=True,
            )
