"""Assigns ready instances to nodes: by priority and age over all lanes, first come first served, least load first.

The queue is the READY table; only counts, what was proposed and not yet applied, and where to look are in memory. A
lane whose queue lets nothing start is not looked at until something about the queue changes; what no node there is
could take is put aside, into a lane of its own, and looked at again when the nodes change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace

from raftsched.core.cluster import Session
from raftsched.core.commands import Assign, Command, NoteUnplaceable, Recheck, SortReady
from raftsched.core.eligibility import lacking
from raftsched.core.model import Condition, Instance, Outcome, Placement, Policy
from raftsched.core.rows import decode_node_rule
from raftsched.core.tables import LANE_FREE, LANE_NOBODY, ReadView, Table, after, from_ready, lane_key, u64
from raftsched.leader.gates import Gates
from raftsched.leader.lanes import Lane, LaneWalk, Place, lanes_in_use, waiting
from raftsched.leader.placement import NO_RULE, NodeLoad, candidates, choose

Read = Callable[[], AbstractContextManager[ReadView]]

BATCH = 500  # instances that one walk proposes something for
PASS_OVER = 256  # ready instances of a lane that one walk leaves where they are; the next one goes on behind them
PASSED_MAX = 4 * PASS_OVER  # the same, over all lanes; at least what one lane may take, twice PASS_OVER
KNOWN_MAX = 10_000  # needs remembered of those that were passed over
PARKED_MAX = 1_000  # found to be for nobody, and not put aside yet
NOTE_AFTER_MS = 10_000  # a node that restarts is back by then
LEADER_LOOK_MS = 20  # between two looks, while all others are full, for what only the leader's own node could take


@dataclass(slots=True)
class _Given:
    """An assignment that is proposed and not applied."""

    session: int
    queues: tuple[str, ...]  # with limits, in which it counts
    lane: int


# What a node must have: the handler, labels, a user to run it as, and "" or the one node that it must be; where nodes
# restrict what jobs may name, that as well.
_Need = tuple[str, tuple[tuple[str, str], ...], str, str, str, str, tuple[Condition, ...]]


@dataclass(slots=True)
class _Round:
    """One walk: what there is to give, and what is proposed."""

    nodes: list[NodeLoad]
    now_ms: int
    free: int  # slots; the leader's own while no others are free
    commands: list[Command] = field(default_factory=list)
    moves: list[bytes] = field(default_factory=list)  # to other lanes
    busy: set[_Need] = field(default_factory=set)  # of which no node is free: none gets freer while it lasts
    passed: int = 0
    _eligible: dict[_Need, tuple[list[NodeLoad], int]] = field(default_factory=dict)
    _looked_at: dict[tuple[str, bool], bool] = field(default_factory=dict)  # what any node's rules have to do with

    def need(self, policy: Policy, only: str = "") -> _Need:
        kind = policy.handler_need, bool(policy.conditions)
        looked_at = self._looked_at.get(kind)
        if looked_at is None:
            looked_at = self._looked_at[kind] = any(n.offer.looks_at(policy) for n in self.nodes)
        named = (policy.target, policy.cwd, policy.conditions) if looked_at else ("", "", ())
        return policy.handler_need, policy.node_labels, policy.user, only, *named

    def eligible(self, policy: Policy, only: str = "") -> tuple[list[NodeLoad], int]:
        """Who would be given it, were they free, and how many are given anything."""
        need = self.need(policy, only)
        known = self._eligible.get(need)
        if known is None:
            nodes = [n for n in self.nodes if n.node == only] if only else self.nodes
            known = self._eligible[need] = candidates(nodes, policy), len(candidates(nodes))
        return known

    @property
    def full(self) -> bool:
        return self.free <= 0 or self.passed >= PASSED_MAX or len(self.commands) + len(self.moves) >= BATCH


@dataclass(frozen=True, slots=True)
class _Parked:
    since_ms: int
    detail: str


class Dispatcher:
    """Counts of one leadership, from the tables as of `view` on. `now_ms` is wall time everywhere."""

    def __init__(self, read: Read, leader_node: str, view: ReadView) -> None:
        self._read = read
        self._leader_node = leader_node
        self._nodes: dict[int, NodeLoad] = {}
        self._rules = {key.decode(): decode_node_rule(raw) for key, raw in view.scan(Table.NODE_RULES)}
        self._gates = Gates(view)
        self._proposed: dict[bytes, _Given] = {}
        self._live: dict[int, int] = {}  # token -> session, of attempts that were applied in this leadership
        self._over: set[int] = set()  # of these, those whose ends are known and not applied: they take no slot
        self._moving: set[bytes] = set()  # something else is proposed for them: they are about to leave their place
        self._noting: dict[bytes, int] = {}  # of these, those to be put aside -> which change of the nodes was known
        self._changes = 0  # of the nodes
        self._again = False  # something was refused that was decided by nodes that have changed
        self._parked: dict[bytes, _Parked] = {}  # no node there is could take them, busy or not
        self._known: dict[bytes, tuple[_Need, Policy, str]] = {}  # of those passed over: need, policy, namespace
        self._lanes: dict[int, Lane] = {}
        self._find_lanes = True
        self._review: Place | None = b""  # where to look again at what was put aside; None: nothing to do
        self._vain_ms = -LEADER_LOOK_MS  # when a walk found nothing for the leader's own node, the only one with slots
        self.backlog = True  # READY may hold instances that something could be proposed for now

    # ------------------------------------------------------------ nodes

    def opened(self, session: Session, running: int) -> None:
        rule = self._rules.get(session.node, NO_RULE)
        leads = session.node == self._leader_node
        self._nodes[session.id] = NodeLoad(session, running, leader=leads, rule=rule)
        self._look_anew()

    def closed(self, session: int) -> None:
        self._nodes.pop(session, None)

    def rule_changed(self, node: str) -> None:
        """What is said about the node."""
        with self._read() as view:
            raw = view.get(Table.NODE_RULES, node.encode())
        rule = NO_RULE if raw is None else decode_node_rule(raw)
        self._rules[node] = rule
        for load in self._nodes.values():
            if load.node == node:
                load.follow(rule)
        self._look_anew()

    def _look_anew(self) -> None:
        """What was for nobody may be for somebody now."""
        self._changes += 1
        self._parked.clear()
        self._review = b""
        self._find_lanes = True
        self.backlog = True

    @property
    def own_session(self) -> int:
        """That of the leader's own node; 0: it has none."""
        return next((n.session.id for n in self._nodes.values() if n.leader), 0)

    def loads(self) -> dict[str, NodeLoad]:
        """By node id."""
        return {n.node: n for n in self._nodes.values()}

    # ------------------------------------------------------------ what waits

    def ready(self, key: bytes, lane: int, score_ms: int) -> None:
        """An instance waits (again)."""
        self._parked.pop(key, None)
        self._moving.discard(key)
        self._known.pop(key, None)
        given = self._proposed.get(key)
        if given is not None:
            given.lane = lane  # it is on its way already
            return
        low = u64(score_ms) + key
        known = self._lanes.get(lane)
        if known is None:
            known = self._lanes[lane] = Lane(lane, low)
        known.again(low)
        if not known.shut:
            self.backlog = True

    def queue_changed(self, name: str) -> None:
        """Its limits, or what it counts."""
        lane = self._gates.changed(name)
        known = None if lane is None else self._lanes.get(lane)
        if known is not None and known.shut:
            known.shut = False
            self.backlog = True

    @property
    def opens_at_ms(self) -> int | None:
        """When a queue's rate lets the next of those that wait start."""
        return min((n.opens_at_ms for n in self._lanes.values() if n.shut and n.opens_at_ms is not None), default=None)

    def open_lanes(self, now_ms: int) -> None:
        """Those whose time has come; also when the clock went back."""
        for lane in self._lanes.values():
            if lane.shut and lane.opens_at_ms is not None and not lane.shut_at_ms <= now_ms < lane.opens_at_ms:
                lane.shut = False
                self.backlog = True

    # ------------------------------------------------------------ assignments

    def place(
        self, starts: Iterable[tuple[bytes, Policy, str]], assignable: Callable[[int], bool], now_ms: int
    ) -> list[Assign]:
        """Assignments for instances that are about to become ready, the first ones first; the others have to queue.
        `starts`: their keys, policies and namespaces."""
        if self._gates.stale:
            with self._read() as view:
                self._gates.refresh(view)
        now = _Round([n for n in self._nodes.values() if assignable(n.session.id)], now_ms, 0)
        given: list[Assign] = []
        for key, policy, namespace in starts:
            queues = self._gates.of(policy, namespace)
            lane = self._gates.first_lane(queues)
            if lane is not None and (lane in self._lanes or not self._gates.let_in(queues, now_ms)):
                continue
            node = choose(now.eligible(policy)[0])
            if node is not None:
                given.append(self._take(key, node, policy, now, LANE_FREE if lane is None else lane, queues))
        return given

    def _take(
        self,
        key: bytes,
        node: NodeLoad,
        policy: Policy,
        now: _Round,
        lane: int,
        queues: tuple[str, ...],
        avoid: str = "",
        only: str = "",
    ) -> Assign:
        eligible, nodes = now.eligible(policy, only)
        avoided = avoid if avoid != node.node and any(n.node == avoid and n.free > 0 for n in eligible) else ""
        placement = Placement(node.running, node.slots, len(eligible), nodes, avoided)
        self._known.pop(key, None)
        node.running += 1
        node.scheduled += 1
        self._gates.proposed(queues)
        self._proposed[key] = _Given(node.session.id, queues, lane)
        return Assign(key, node.session.id, placement)

    # ------------------------------------------------------------ the walk over READY

    def pump(self, assignable: Callable[[int], bool], now_ms: int) -> list[Command]:
        """Assignments for what waits in READY, about BATCH, and what else is to be said about it."""
        if not self.backlog:
            return []
        nodes = [n for n in self._nodes.values() if assignable(n.session.id)]
        free = sum(max(0, n.free) for n in candidates(nodes))
        last_resort = free == 0 and not self._vain_ms <= now_ms < self._vain_ms + LEADER_LOOK_MS
        now = _Round(nodes, now_ms, sum(max(0, n.free) for n in nodes) if last_resort else free)
        if not now.free and self._review is None:
            return []
        with self._read() as view:
            self._gates.refresh(view)
            if self._find_lanes:
                self._find(view)
            if now.free:
                self._walk(view, now)
                if last_resort and not now.commands:
                    self._vain_ms = now_ms
            if self._review is not None:
                self._look_again(view, self._review, now)
        if now.moves:
            self._moving.update(now.moves)
            now.commands.append(SortReady(tuple(now.moves)))
        self.backlog = self._review is not None or any(not lane.shut for lane in self._lanes.values())
        return now.commands

    def _find(self, view: ReadView) -> None:
        self._find_lanes = False
        for number in lanes_in_use(view):
            if number != LANE_NOBODY:
                self._lanes.setdefault(number, Lane(number)).again(b"")

    def _walk(self, view: ReadView, now: _Round) -> None:
        """Through all lanes at once, the most urgent first. Where too many are passed over, the next walks leave these
        lanes out until the others have had their turn."""
        walks: dict[int, LaneWalk] = {}
        heap = [(lane.low, lane.number) for lane in self._lanes.values() if not lane.shut and not lane.waits]
        heapify(heap)
        while heap and not now.full:
            low, number = heap[0]
            lane = self._lanes[number]
            if self._shut(lane, now.now_ms):
                heappop(heap)
                continue
            walk = walks.get(number)
            if walk is None:
                walk = walks[number] = LaneWalk(view, lane, self._settled, PASS_OVER)
            if walk.head == low:
                self._decide(view, walk, lane, now)
            if walk.done:
                heappop(heap)
            else:
                assert walk.head is not None
                heapreplace(heap, (walk.head, number))  # others may come first now
        cut = now.passed >= PASSED_MAX
        for number, walk in walks.items():
            self._lanes[number].waits = cut and walk.done
            if not walk.leave(self._lanes[number], cut):
                del self._lanes[number]
        if not cut:
            for lane in self._lanes.values():
                lane.waits = False

    def _settled(self, key: bytes) -> bool:
        return key in self._proposed or key in self._parked or key in self._moving

    def _shut(self, lane: Lane, now_ms: int) -> bool:
        name = self._gates.name(lane.number)
        why = None if name is None else self._gates.shut(name, now_ms)
        if name is None or why is None:
            return False
        lane.shut = True
        lane.shut_at_ms = now_ms
        lane.opens_at_ms = self._gates.opens_at_ms(name, now_ms) if why == "rate" else None
        return True

    def _decide(self, view: ReadView, walk: LaneWalk, lane: Lane, now: _Round) -> None:
        """About the row at which the walk stands."""
        assert walk.head is not None
        key = walk.head[8:]
        known = self._known.get(key)
        if known is not None and known[0] in now.busy and self._gates.lane_of(*known[1:]) in (None, lane.number):
            now.passed += 1
            walk.passed()
            return
        instance, policy, namespace = waiting(view, key)
        if instance is None or policy is None:
            now.passed += 1
            walk.passed()
            return
        queues = self._gates.of(policy, namespace)
        own = self._gates.first_lane(queues)
        if own is not None and own != lane.number:  # its queue was given limits since
            now.moves.append(key)
            walk.taken()
            return
        if len(queues) > 1 and not self._gates.let_in(queues, now.now_ms):  # its namespace runs as many as it may
            now.passed += 1
            walk.passed()
            return
        only = instance.only_on
        avoid = _avoid(instance)
        node = choose(now.eligible(policy, only)[0], avoid)
        if node is not None:
            now.commands.append(self._take(key, node, policy, now, lane.number, queues, avoid, only))
            now.free -= 1
            walk.taken()
            return
        able = [n for n in self._nodes.values() if n.can(policy)]
        if only and not any(n.node == only and not n.offer.drained for n in able):
            self._moving.add(key)
            now.commands.append(Recheck(key))
            walk.taken()
        elif not able:
            self._park(key, self._lacking(policy), now)
            walk.taken()
        else:
            need = now.need(policy, only)
            now.busy.add(need)
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[key] = (need, policy, namespace)
            now.passed += 1
            walk.passed()

    # ------------------------------------------------------------ what no node could take

    def _lacking(self, policy: Policy) -> str:
        return lacking([n.offer for n in self._nodes.values()], policy)

    def _park(self, key: bytes, detail: str, now: _Round) -> None:
        """Noted after a while; at once where there are many: every walk has to step over them."""
        if len(self._parked) < PARKED_MAX:
            self._parked[key] = _Parked(now.now_ms, detail)
        else:
            now.commands.append(self._note(key, detail))

    def _note(self, key: bytes, detail: str) -> NoteUnplaceable:
        self._moving.add(key)
        self._noting[key] = self._changes
        return NoteUnplaceable(key, detail)

    def notes(self, now_ms: int) -> list[Command]:
        """What is to be put aside by now; also when the clock went back."""
        if self._again:
            self._again = False
            self._find_lanes = self.backlog = True
        due = [k for k, p in self._parked.items() if not p.since_ms <= now_ms < p.since_ms + NOTE_AFTER_MS][:BATCH]
        return [self._note(key, self._parked.pop(key).detail) for key in due]

    def _look_again(self, view: ReadView, start: Place, now: _Round) -> None:
        """At what was put aside, a bounded part of it."""
        seen = 0
        for row, _ in view.scan(Table.READY, lane_key(LANE_NOBODY) + start):
            if seen >= PASS_OVER:
                self._review = row[4:]
                return
            seen += 1
            key = from_ready(row)
            instance, policy, _ = (None, None, "") if key in self._moving else waiting(view, key)
            if instance is None or policy is None:
                continue
            if any(n.can(policy) for n in self._nodes.values()):
                now.moves.append(key)
            elif (detail := self._lacking(policy)) != instance.error:
                now.commands.append(self._note(key, detail))
        self._review = None

    # ------------------------------------------------------------ what became of it

    def applied(self, key: bytes, session: int, queues: Iterable[str], token: int) -> None:
        """Assigned: what was counted beforehand is true now. What an earlier leadership left behind in the log is
        counted here, instead of what was proposed for the same instance since."""
        self._count_anew(queues)
        self._live[token] = session
        given = self._proposed.pop(key, None)
        if given is not None:
            self._settle_queue(given)
            if given.session == session:
                return
            self._freed(given.session)
        node = self._nodes.get(session)
        if node is not None:
            node.running += 1

    def answered(self, command: Command, accepted: bool | None) -> None:
        """What was proposed was applied or refused; None: it is not known."""
        match command:
            case Assign():
                if not accepted:
                    self._refused(command.instance)
            case SortReady():
                self._moving.difference_update(command.instances)
                if not accepted:
                    self._look_anew()
            case NoteUnplaceable() | Recheck():
                self._moving.discard(command.instance)
                known = self._noting.pop(command.instance, self._changes)
                if accepted is None:
                    self._look_anew()
                elif not accepted:
                    self._again = True  # with the next tick: a node came, or it is gone
                elif known != self._changes:  # the look at what was put aside has passed it over, it was on its way
                    self._review = b""
                    self.backlog = True
            case _:
                pass

    def _refused(self, key: bytes) -> None:
        given = self._proposed.pop(key, None)
        if given is None:
            return
        self._settle_queue(given)
        self._freed(given.session)
        lane = self._lanes.setdefault(given.lane, Lane(given.lane))
        lane.again(b"")
        self.backlog = True

    def _settle_queue(self, given: _Given) -> None:
        for queue in given.queues:
            self._gates.settled(queue)
            self.queue_changed(queue)

    def over(self, session: int, tokens: Iterable[int]) -> None:
        """Their worker has ended these; their slots are free, though the tables do not show it yet."""
        for token in tokens:
            if self._live.get(token) == session:
                del self._live[token]
                self._over.add(token)
                self._freed(session)

    def _count_anew(self, queues: Iterable[str]) -> None:
        """`queues`: "" stands for none."""
        for queue in queues:
            if queue:
                self.queue_changed(queue)

    def attempt_ended(self, session: int, queues: Iterable[str], token: int) -> None:
        self._count_anew(queues)
        self._live.pop(token, None)
        if token in self._over:
            self._over.discard(token)
        else:
            self._freed(session)

    def _freed(self, session: int) -> None:
        node = self._nodes.get(session)
        if node is not None and node.running > 0:
            node.running -= 1


def count_running(view: ReadView, session: int) -> int:
    """Live attempts of a session."""
    prefix = u64(session)
    return sum(1 for _ in view.scan(Table.ASSIGNED, prefix, after(prefix)))


def _avoid(instance: Instance) -> str:
    """The node of an attempt that did not succeed: for the next one another is preferred."""
    last = instance.attempts[-1] if instance.attempts else None
    return "" if last is None or last.outcome is Outcome.SUCCEEDED else last.node
