"""Operators' changes: a member goes and comes back, leadership is handed over."""

from __future__ import annotations

import asyncio

from harness.cluster import Node
from harness.http import NoAnswer, NotSent
from harness.machine import Machine
from harness.nemesis import Fault
from harness.world import PATIENT_S, Helpless, World

PATIENCE_S = 60.0


class Membership:
    """One node is removed, and comes back with an empty disk as a new member of the same name."""

    name: str = "membership"
    whole: bool = True
    network: bool = False

    def impossible(self, machine: Machine, nodes: int) -> str | None:
        return None

    async def strike(self, world: World, free: list[str]) -> list[str] | None:
        node = world.cluster.node(world.rng.choice(free))
        others = world.cluster.others(node)
        await world.insist("DELETE", f"/v1/cluster/members/{node.name}", done_too=404)
        await asyncio.sleep(world.rng.uniform(0.2, 3.0))
        await node.kill()
        node.wipe()
        await node.start("--join")
        await admit(world, node, others)
        return [node.name]

    async def heal(self, world: World) -> None:
        return None


async def admit(world: World, node: Node, others: list[Node] | None = None) -> None:
    """Until the node with its new disk is a member that votes."""
    end = asyncio.get_running_loop().time() + PATIENCE_S
    said = "it was not asked"
    while asyncio.get_running_loop().time() < end:
        for other in others or world.cluster.others(node):
            members = await other.get("/v1/cluster/members")
            if members is None:
                continue
            known = next((m for m in members["items"] if m["id"] == node.name), None)
            if known is not None and known["voter"] and known["alive"] and await _follows(node):
                return
            try:
                reply = await other.ask("POST", "/v1/cluster/members", {"id": node.name, "replace": known is not None})
                said = f"{reply.status} {reply.body[:200]!r}"
            except (NotSent, NoAnswer) as error:
                said = str(error)
            await asyncio.sleep(0.5)
    raise Helpless(f"{node.name} was not let in again in {PATIENCE_S:.0f} s: {said}")


async def _follows(node: Node) -> bool:
    view = await node.get("/v1/cluster")
    return view is not None and view["leader"] is not None


class Transfer:
    name: str = "transfer"
    whole: bool = False
    network: bool = True  # hurts no process

    def impossible(self, machine: Machine, nodes: int) -> str | None:
        return None

    async def strike(self, world: World, free: list[str]) -> list[str] | None:
        leader = await world.cluster.leader(PATIENT_S)
        if leader is None:
            return None
        to = world.rng.choice(world.cluster.others(leader)).name
        try:
            await leader.ask("POST", "/v1/cluster/leader", {"to": to}, timeout_s=15.0)
        except (NotSent, NoAnswer):
            pass
        return [leader.name, to]

    async def heal(self, world: World) -> None:
        return None


FAULTS: tuple[Fault, ...] = (Membership(), Transfer())
