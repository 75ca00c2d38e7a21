"""Nodes and their supervisors are killed and stopped at random, and come back; what was done is written down."""

from __future__ import annotations

import heapq
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from scripts.trials.guards import guards, supervisors
from tests.support.cluster import Cluster, NodeProcess

PAUSE_S = (0.5, 4.0)  # from one fault to the next
BRIEF_S = (0.1, 2.5)
LONG_S = (6.5, 14.0)  # the others have been given the runs before it ends: a lease and its margin take 6.25 s
BOTH_SHARE = 0.12  # of the faults that may come while another node is not well: no majority is left then
SLICE_S = 0.05


class Faults:
    """All choices come from `rng`. `run` returns when its time is over; `heal` makes everything well again."""

    def __init__(self, cluster: Cluster, rng: random.Random, note: Callable[[str], None]) -> None:
        self.done: Counter[str] = Counter()
        self.crashed: list[str] = []  # nodes that ended without being killed
        self._cluster = cluster
        self._rng = rng
        self._note = note
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._number = count()
        self._sick: set[str] = set()
        self._killed: set[str] = set()
        self._stopped: set[int] = set()  # pids
        self._began = time.monotonic()

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        next_at = time.monotonic() + self._rng.uniform(*PAUSE_S)
        while (now := time.monotonic()) < end:
            while self._later and self._later[0][0] <= now:
                heapq.heappop(self._later)[2]()
            self._look()
            if now >= next_at and (victim := self._busiest() if not self.done else self._any()) is not None:
                next_at = now + self._rng.uniform(*PAUSE_S)
                self._hurt(victim, first=not self.done)
            time.sleep(SLICE_S)

    def _busiest(self) -> NodeProcess | None:
        """The first fault takes runs with it, so that no trial shows nothing."""
        running = Counter(row["node"] for row in self._cluster.nodes[0].get("/v1/instances?state=RUNNING")["items"])
        return self._cluster.node(running.most_common(1)[0][0]) if running else None

    def _any(self) -> NodeProcess | None:
        well = [n for n in self._cluster.nodes if n.id not in self._sick]
        return self._rng.choice(well) if well and (not self._sick or self._rng.random() < BOTH_SHARE) else None

    def heal(self) -> None:
        """Everybody goes on, and who is dead is started."""
        self._later.clear()
        for pid in list(self._stopped):
            self._continue(pid)
        self._look()
        for node in self._cluster.nodes:
            if not node.alive:
                node.start()
        self._killed.clear()
        self._sick.clear()

    def _look(self) -> None:
        for node in self._cluster.nodes:
            if not node.alive and node.id not in self._killed:
                assert node.process is not None
                self.crashed.append(f"{node.id} ended with exit code {node.process.returncode}")
                node.start()

    # ------------------------------------------------------------ what is done to a node

    def _hurt(self, node: NodeProcess, first: bool) -> None:
        faults = (
            (5, "kill the node", self._kill),
            (5, "stop the node", self._stop_node),
            (4, "stop the supervisor", self._stop_supervisor),
            (5, "stop node and supervisor", self._stop_both),
            (1, "kill the supervisor", self._kill_supervisor),
            (1, "kill supervisor and keepers", self._kill_guards),
            (1, "kill all but the sentinel", self._kill_all_named),
            (2, "stop the node, then kill it", self._stop_and_kill),
        )
        _, what, fault = faults[0] if first else self._rng.choices(faults, [weight for weight, _, _ in faults])[0]
        long = self._rng.random() < (0.75 if what.startswith("stop") else 0.25)  # what is dead cannot outlive its lease
        seconds = self._rng.uniform(*(LONG_S if long else BRIEF_S))
        self._note(f"{time.monotonic() - self._began:6.1f} s  {node.id}: {what}, {seconds:.1f} s")
        self.done[what] += 1
        self._sick.add(node.id)
        fault(node, seconds)

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._later, (time.monotonic() + seconds, next(self._number), action))

    def _well(self, node: NodeProcess) -> None:
        self._sick.discard(node.id)

    def _kill(self, node: NodeProcess, seconds: float) -> None:
        self._killed.add(node.id)
        node.kill()

        def again() -> None:
            node.start()
            self._killed.discard(node.id)
            self._well(node)

        self._after(seconds, again)

    def _stop(self, node: NodeProcess, pids: list[int], seconds: float) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                self._stopped.add(pid)

        def again() -> None:
            for pid in pids:
                self._continue(pid)
            self._well(node)

        self._after(seconds, again)

    def _continue(self, pid: int) -> None:
        self._stopped.discard(pid)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    def _stop_node(self, node: NodeProcess, seconds: float) -> None:
        assert node.process is not None
        self._stop(node, [node.process.pid], seconds)

    def _stop_supervisor(self, node: NodeProcess, seconds: float) -> None:
        self._stop(node, supervisors(node), seconds)

    def _stop_both(self, node: NodeProcess, seconds: float) -> None:
        assert node.process is not None
        pids = [node.process.pid, *supervisors(node)]
        self._rng.shuffle(pids)
        self._stop(node, pids, seconds)

    def _kill_supervisor(self, node: NodeProcess, seconds: float) -> None:
        for pid in supervisors(node):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._after(seconds, lambda: self._well(node))

    def _kill_guards(self, node: NodeProcess, seconds: float) -> None:
        """All in one moment: each is stopped first, so that none sees the other go."""
        pids = [pid for found in guards(node) for pid in (found.supervisor, *found.keepers)]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        self._after(seconds, lambda: self._well(node))

    def _kill_all_named(self, node: NodeProcess, seconds: float) -> None:
        """As `pkill -9 -f raftsched` does: node, supervisor and keepers."""
        assert node.process is not None
        os.kill(node.process.pid, signal.SIGSTOP)
        self._kill_guards(node, seconds)
        self._kill(node, seconds)

    def _stop_and_kill(self, node: NodeProcess, seconds: float) -> None:
        """It wakes up dead; its supervisor, which was stopped with it, is left for its successor."""
        assert node.process is not None
        for pid in [node.process.pid, *supervisors(node)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                self._stopped.add(pid)
        self._after(seconds / 2, lambda: self._kill(node, seconds / 2))
