"""What workloads and nemeses share: the cluster, the history, the time that is left."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.clock import SECOND, boot_ns, wall_ms
from harness.cluster import JOBS, Cluster, Node
from harness.history import History
from harness.http import NoAnswer, NotSent, Reply

PATIENT_S = 4.0  # for a leader, by who wants to hurt it
LOST_MAX = 1_000  # a run that is lost again and again is not the job's fault here


class Helpless(Exception):
    """The cluster does not do what it has to do for the trial to go on."""


@dataclass
class World:
    cluster: Cluster
    history: History
    rng: random.Random
    lives: Path  # where the jobs write
    seconds: float
    began_ns: int = field(default_factory=boot_ns)
    began_wall_ms: int = field(default_factory=wall_ms)

    @property
    def end_ns(self) -> int:
        return self.began_ns + int(self.seconds * SECOND)

    @property
    def end_wall_ms(self) -> int:
        return self.began_wall_ms + int(self.seconds * 1000)

    @property
    def left_s(self) -> float:
        return (self.end_ns - boot_ns()) / SECOND

    async def pause(self, low_s: float, high_s: float) -> bool:
        """False: the time is over."""
        await asyncio.sleep(max(0.0, min(self.rng.uniform(low_s, high_s), self.left_s)))
        return self.left_s > 0

    def any_node(self) -> Node:
        return self.rng.choice(self.cluster.nodes)

    def handler(self, job: str, seconds: float, failures: int = 0, until: Path | None = None) -> dict[str, Any]:
        """The content of a job that beats so long: mostly in a warm process, else as a command."""
        file = str(self.lives / job)
        if self.rng.random() < 0.75:
            params: dict[str, Any] = {"file": file, "seconds": seconds, "failures": failures}
            if until is not None:
                params["until"] = str(until)
            return {"handler": {"python": "beating:live"}, "params": params, "max_lost": LOST_MAX}
        extra = ["until", str(until)] if until is not None else [str(failures)]
        command = [sys.executable, "-S", "-E", str(JOBS / "beating.py"), file, str(seconds), *extra]
        return {"handler": {"exec": command}, "max_lost": LOST_MAX}

    async def call(
        self,
        f: str,
        process: str,
        request: dict[str, Any],
        ask: Callable[[], Awaitable[Reply]],
        answer: Callable[[Reply], dict[str, Any]] = lambda reply: {},
    ) -> Reply | None:
        """One request, written down with what came of it. None: no answer."""
        number = self.history.invoke(f, process, **request)
        try:
            reply = await ask()
        except NotSent as error:
            self.history.complete(number, "fail", error=str(error), status=0)
            return None
        except NoAnswer as error:
            self.history.complete(number, "unknown", error=str(error), status=0)
            return None
        if reply.status < 300:
            self.history.complete(number, "ok", **answer(reply))
        else:  # 504 says that nobody knows, 500 says nothing; every other refusal says that nothing was done
            kind = "unknown" if reply.status in (500, 504) else "fail"
            self.history.complete(number, kind, status=reply.status, code=reply.code)
        return reply

    async def insist(
        self, method: str, path: str, body: Any = None, timeout_s: float = 60.0, done_too: int | None = None
    ) -> Reply:
        """Asks one node after the other until one does it: for what may be repeated. `done_too`: the status that says
        that it has been done already."""
        end = boot_ns() + int(timeout_s * SECOND)
        said = "nothing was asked"
        while boot_ns() < end:
            for node in self.rng.sample(self.cluster.nodes, len(self.cluster.nodes)):
                try:
                    reply = await node.ask(method, path, body, timeout_s=10.0)
                except (NotSent, NoAnswer) as error:
                    said = str(error)
                    continue
                if reply.status < 300 or reply.status == done_too:
                    return reply
                said = f"{reply.status} {reply.body[:300]!r}"
            await asyncio.sleep(0.3)
        raise Helpless(f"{method} {path} was not done in {timeout_s:.0f} s: {said}")
