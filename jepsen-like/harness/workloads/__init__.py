"""What clients do while faults are on. Each workload writes its calls into the history; none judges anything."""

from __future__ import annotations

from typing import Protocol

from harness.world import World


class Workload(Protocol):
    name: str

    async def prepare(self, world: World) -> None:
        """Before the first fault."""

    async def run(self, world: World) -> None:
        """Until the world's time is over."""

    async def settle(self, world: World) -> None:
        """Afterwards, when everything is well again."""


def named() -> dict[str, type[Workload]]:
    from harness.workloads.bulk import Bulk
    from harness.workloads.cancel import Cancel
    from harness.workloads.edit import Edit
    from harness.workloads.once import Once
    from harness.workloads.periodic import Periodic
    from harness.workloads.retry import Retry

    return {kind.name: kind for kind in (Once, Periodic, Edit, Retry, Cancel, Bulk)}
