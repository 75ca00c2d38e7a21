"""A cluster of replicas in one process on virtual time, with faults: the network, the disks and the clock are made up.

Connections keep order and lose everything on their way when they break; a late frame of an older connection may still
arrive, with that connection's number. A write of the store takes a while and is lost when its node is killed before,
and so is what was applied since the newest checkpoint.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from raftsched.raft import codec, snapshots
from raftsched.raft.guards import ALL, Guards
from raftsched.raft.options import RaftOptions
from raftsched.raft.replica import Replica
from raftsched.raft.writer import Done
from tests.support.inline_writer import InlineWriter
from tests.support.raft_replica import numbers, unique
from tests.support.raft_store import MemoryStore

OPTIONS = RaftOptions(
    election_min_ms=300,
    election_max_ms=600,
    heartbeat_ms=50,
    keep_entries=20,
    memory_max_entries=30,
    snapshot_chunk_bytes=2_000,
    snapshot_window_bytes=8_000,
    snapshot_retry_ms=1_000,
    snapshot_keep_ms=3_000,
    snapshot_reserve_bytes=0,
)


class Violation(AssertionError):
    """Something that must never happen did."""


class Thread:
    """A writer of a node: one job after another, each done after a while, and known to be so another while later."""

    def __init__(self, node: Node, delays: list[float]) -> None:
        self._node = node
        self._delays = delays
        self._jobs: deque[tuple[Callable[[], Any], Done]] = deque()
        self._outcomes: deque[Callable[[], None]] = deque()

    def submit(self, job: Callable[[], Any], done: Done) -> None:
        self._jobs.append((job, done))
        if len(self._jobs) == 1:
            self._begin()

    def close(self) -> None:
        """A node that is killed closes nothing."""

    def _begin(self) -> None:
        net = self._node.net
        net.at(net.rng.choice(self._delays) * net.slowness.get(self._node.name, 1.0), self._run)

    def _run(self) -> None:
        net = self._node.net
        if not self._node.alive:
            return
        job, done = self._jobs[0]
        InlineWriter().submit(job, lambda result, error: self._outcomes.append(partial(done, result, error)))
        net.at(net.rng.choice([0.0, 0.001, 0.01]), self._finish)
        self._jobs.popleft()
        if self._jobs:
            self._begin()

    def _finish(self) -> None:
        node = self._node
        if not node.alive:
            return
        if node.paused:
            node.net.at(0.05, self._finish)
            return
        self._outcomes.popleft()()
        node.wake()


class Node:
    """One running incarnation of a member."""

    def __init__(self, net: Net, name: str) -> None:
        self.net = net
        self.name = name
        self.alive = True
        self.listens = False  # once its start is on its disk: nobody meets a start that a kill makes undone
        self.paused_until = 0.0
        self.inbox: list[tuple[str, int, codec.Frame]] = []
        self._awake = False
        snapshots.clear(net.directory / name)
        net.stores[name].crash()
        self.replica = Replica(
            store=net.stores[name],  # type: ignore[arg-type]
            node_id=name,
            peers={n: f"127.0.0.1:{4000 + ord(n)}" for n in net.names},
            http="",
            links=self,
            clock=net,
            rng=random.Random(net.rng.random()),
            options=net.options_of[name],
            guards=net.guards,
            writer=Thread(self, [0.0005, 0.002, 0.02]),
            side=Thread(self, [0.0005, 0.002, 0.02, 0.1]),
            checkpoint_writer=Thread(self, [0.002, 0.02, 0.5]),
            snapshot_dir=net.directory / name,
            on_fatal=self._fatal,
        )
        self.replica.subscribe(lambda _: net.check_applied(name))
        self.replica.subscribe_role(self._check_leader)
        self.replica.hold(self._listen)
        net.at(0.0, self._tick)
        self.wake()

    def _listen(self) -> None:
        self.listens = True
        for other in self.net.names:
            if other != self.name:
                self.net.at(self.net.rng.uniform(0.005, 0.05), self.net.connect, self.name, other)

    def _fatal(self, error: BaseException) -> None:
        raise Violation(f"{self.name} stopped: {error!r}") from error

    def _check_leader(self) -> None:
        engine = self.replica.engine
        if engine.is_leader and self.net.leaders.setdefault(engine.term, self.name) != self.name:
            raise Violation(f"term {engine.term} is led by {self.name} and {self.net.leaders[engine.term]}")

    # ---- Links

    def send(self, peer: str, frame: codec.Frame) -> bool:
        return self.net.send(self.name, peer, frame)

    def members_changed(self) -> None:
        self.wake()

    def flush(self) -> None:
        pass

    def wake(self) -> None:
        if not self._awake:
            self._awake = True
            self.net.at(0.0, self._pump)

    @property
    def snapshot_phase(self) -> str:
        """What this node does about a snapshot now."""
        replica = self.replica
        if replica.engine.installing:
            return "swapping"
        if replica.installer.incoming is not None:
            return "preparing" if replica.installer.incoming.complete else "receiving"
        return replica.sender.phase

    # ---- life

    @property
    def paused(self) -> bool:
        return self.net.now < self.paused_until

    def _pump(self) -> None:
        if not self.alive:
            return
        if self.paused:
            self.net.at(0.05, self._pump)
            return
        self._awake = False
        inbox, self.inbox = self.inbox, []
        for peer, number, frame in inbox:
            self.replica.receive(peer, number, frame)
        self.replica.pump()

    def _tick(self) -> None:
        if not self.alive:
            return
        if not self.paused:
            self.replica.tick()
        self.net.at(self.net.rng.uniform(0.01, 0.03), self._tick)


class Net:
    def __init__(
        self,
        directory: Path,
        seed: int,
        names: str = "abc",
        guards: Guards = ALL,
        options: RaftOptions = OPTIONS,
    ) -> None:
        self.rng = random.Random(seed)
        self.names = names
        self.guards = guards
        self.options = options
        self.options_of = dict.fromkeys(names, options)  # a node's own from its next start on
        self.directory = directory
        self.now = 1000.0
        self.stores = {name: MemoryStore() for name in names}
        self.nodes: dict[str, Node] = {}
        self.links: dict[tuple[str, str], int] = {}  # pair -> number of the live connection
        self.cut: set[tuple[str, str]] = set()
        self.arrivals: dict[tuple[str, str], float] = {}
        self.leaders: dict[int, str] = {}
        self.committed: dict[int, tuple[int, bytes]] = {}
        self.checked = dict.fromkeys(names, 0)
        self.acknowledged: set[int] = set()
        self.asked = 0
        self.faults = 0
        self.slowness: dict[str, float] = {}  # factor on the time that a job of a writer takes
        self._hunts: list[tuple[str, Callable[[str], None], float]] = []  # phase, whom to tell, until when
        self.phases: Counter[str] = Counter()  # of snapshots, in which a fault hit
        self.on_send: Callable[[str, str, codec.Frame], None] | None = None
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0
        self._connection = 0
        for name in names:
            (directory / name).mkdir(parents=True, exist_ok=True)
            self.start(name)

    # ---- Clock

    def wall_ms(self) -> int:
        return int(self.now * 1000) + 1_700_000_000_000

    def monotonic(self) -> float:
        return self.now

    def boot_ms(self) -> int:
        return int(self.now * 1000)

    # ---- events

    def at(self, delay: float, call: Callable[..., None], *args: Any) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + delay, self._count, call, args))

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """True when `until` came true."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            when, _, call, args = heapq.heappop(self._events)
            self.now = max(self.now, when)
            call(*args)
            if self._hunts:
                self._look()
            if until is not None and until():
                return True
        self.now = max(self.now, end)
        return False

    # ---- network

    def pair(self, a: str, b: str) -> tuple[str, str]:
        return (a, b) if a < b else (b, a)

    def connect(self, a: str, b: str) -> None:
        pair = self.pair(a, b)
        if not all(name in self.nodes and self.nodes[name].listens for name in pair) or pair in self.links:
            return  # who is not there yet dials once it is
        if pair in self.cut:
            self.at(0.2, self.connect, a, b)
            return
        one, two = self.nodes[a].replica, self.nodes[b].replica
        if one.formation.refusal(two.hello()) or two.formation.refusal(one.hello()):
            self.at(0.5, self.connect, a, b)
            return
        self._connection += 1
        self.links[pair] = self._connection
        hellos = one.hello(), two.hello()
        one.connected(hellos[1], self._connection)
        two.connected(hellos[0], self._connection)

    def disconnect(self, a: str, b: str) -> None:
        pair = self.pair(a, b)
        number = self.links.pop(pair, None)
        if number is None:
            return
        for me, other in ((a, b), (b, a)):
            if me in self.nodes:
                self.nodes[me].replica.disconnected(other, number)
        self.at(self.rng.uniform(0.01, 0.3), self.connect, a, b)

    def send(self, a: str, b: str, frame: codec.Frame) -> bool:
        number = self.links.get(self.pair(a, b))
        if number is None:
            return False
        if self.on_send is not None:
            self.on_send(a, b, frame)
        body = codec.payload(frame)
        when = max(self.arrivals.get((a, b), 0.0), self.now + self.rng.choice([0.0003, 0.001, 0.003, 0.02, 0.05]))
        self.arrivals[a, b] = when
        self.at(when - self.now, self._deliver, a, b, number, body)
        return True

    def _deliver(self, a: str, b: str, number: int, body: bytes) -> None:
        pair = self.pair(a, b)
        if self.links.get(pair) != number:
            if self.rng.random() < 0.3:  # an old connection that the kernel still reads
                self.at(self.rng.choice([0.0, 0.1, 1.0]), self._deliver_late, a, b, number, body)
            return
        if pair in self.cut:
            return  # black hole: noticed by silence only
        node = self.nodes[b]
        node.inbox.append((a, number, codec.decode(body)))
        node.wake()

    def _deliver_late(self, a: str, b: str, number: int, body: bytes) -> None:
        node = self.nodes.get(b)
        if node is not None and a in node.replica.connections:
            node.inbox.append((a, number, codec.decode(body)))
            node.wake()

    # ---- faults

    def start(self, name: str) -> None:
        if name in self.nodes:
            return
        self.checked[name] = 0
        self.nodes[name] = Node(self, name)

    def kill(self, name: str) -> None:
        node = self.nodes.pop(name, None)
        if node is None:
            return
        node.alive = False
        for unfinished in ("send-1.snap", "receive-1-00.snap"):
            (self.directory / name / unfinished).write_bytes(b"half")
        for other in self.names:
            if other != name:
                self.disconnect(name, other)

    def hunt(self, phase: str, caught: Callable[[str], None], patience: float) -> None:
        """Calls `caught` with the first node that is in this phase of a snapshot after any event."""
        self._hunts.append((phase, caught, self.now + patience))

    def _look(self) -> None:
        hunts, self._hunts = self._hunts, []
        for phase, caught, until in hunts:
            names = [name for name, node in self.nodes.items() if node.snapshot_phase == phase]
            if names:
                self.phases[phase] += 1
                caught(self.rng.choice(names))
            elif self.now < until:
                self._hunts.append((phase, caught, until))

    def partition(self, a: str, b: str, notice: float | None = None) -> None:
        """Nothing passes from now on; the ends notice after `notice` seconds."""
        self.cut.add(self.pair(a, b))
        self.at(self.rng.uniform(0.0, 1.0) if notice is None else notice, self._noticed, a, b)

    def _noticed(self, a: str, b: str) -> None:
        if self.pair(a, b) in self.cut:
            self.disconnect(a, b)

    def heal(self, a: str, b: str) -> None:
        """What got lost meanwhile breaks the connection: TCP does not skip."""
        if self.pair(a, b) in self.cut:
            self.cut.discard(self.pair(a, b))
            self.disconnect(a, b)

    def leader(self) -> Node | None:
        leading = [node for node in self.nodes.values() if node.replica.leading]
        return max(leading, key=lambda node: node.replica.engine.term) if leading else None

    def propose(self, name: str, timeout: float = 2.0) -> int:
        """One unique command at a node; acknowledged numbers gather in `acknowledged`."""
        self.asked += 1
        number = self.asked

        def reply(answers: Any, error: Any) -> None:
            if error is None:
                self.acknowledged.add(number)

        command = unique(number, self.rng.choice([0, 50, 400]))
        self.nodes[name].replica.propose([command], self.now + timeout, reply)
        return number

    # ---- checks

    def check_applied(self, name: str) -> None:
        store = self.stores[name]
        if store.applied_twice:
            raise Violation(f"{name} applied entries {store.applied_twice} twice")
        for index in range(self.checked[name] + 1, store.applied_index + 1):
            mine = store.history[index]
            if self.committed.setdefault(index, mine) != mine:
                raise Violation(f"{name} committed another entry {index} than the others")
        self.checked[name] = store.applied_index

    def check_all(self) -> None:
        """After calm: everybody has everything, nothing acknowledged is lost or doubled."""
        for name, store in self.stores.items():
            self.check_applied(name)
            if store.damaged:
                raise Violation(f"{name} received {store.damaged} snapshots that were none")
            found = [n for _, data in store.history.values() for n in numbers(data)]
            lost = self.acknowledged - set(found)
            if lost:
                raise Violation(f"{len(lost)} acknowledged writes are not on {name}: {sorted(lost)[:5]}")
        states = [(store.applied_index, store.tables) for store in self.stores.values()]
        if any(state != states[0] for state in states):
            raise Violation(f"states differ: applied {[index for index, _ in states]}")
