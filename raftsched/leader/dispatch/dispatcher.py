"""Assigns ready instances to nodes: by priority and age over all lanes, first come first served, least load first.

The queue is the READY table; in memory are only counts, what was proposed and not yet applied, and where to look. The
lane of a blocked queue is not looked at until something about the queue changes. Instances that no node could take are
put aside, into a lane of their own, and looked at again when the nodes change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from raftsched.core.commands import Assign, Command, NoteUnplaceable, Recheck, SortReady, Split
from raftsched.core.limits import TARGETS_MAX
from raftsched.core.model import Instance, Outcome, Placement, Policy
from raftsched.core.rows import decode_node_rule
from raftsched.core.subjects.cluster import Session
from raftsched.core.tables import LANE_FREE, LANE_NOBODY, ReadView, Table, after, from_ready, lane_key, u64
from raftsched.leader.dispatch.cycle import (
    BATCH,
    PASS_OVER,
    PASSED_MAX,
    SPLITS_MAX,
    Cycle,
    Requirements,
    Waiting,
    has_parts,
    lacking_of,
)
from raftsched.leader.dispatch.lanes import Lane, LaneWalk, Place, lanes_in_use, waiting
from raftsched.leader.dispatch.placement import NO_RULE, NodeLoad, candidates, choose
from raftsched.leader.dispatch.queue_limits import QueueLimits

Read = Callable[[], AbstractContextManager[ReadView]]

# A walk follows each turn of the log, up to some hundred a second, and shares the event loop with consensus. It takes
# 5 us for a row that it reads the first time, and 0.7 us for one whose need is known (512 rows passed over, tables in
# memory): with PASSED_MAX rows 5 ms once, and 0.7 ms from then on.
KNOWN_MAX = 10_000  # needs remembered of those that were passed over: ten times PASSED_MAX, else each walk reads anew
PARKED_MAX = 1_000  # instances that no node could take, and that are not put aside yet: as many as one walk steps over
NOTE_AFTER_MS = 10_000  # a node that restarts is back by then
# Between two looks, while all others are full, for what only the leader's own node could take. A look after each turn
# took 42 % of the event loop in a burst of 10,000; nobody sees 20 ms beside the time that all others stay full.
LEADER_LOOK_MS = 20
# Instances that a walk passes over before it counts as a search for those that the free nodes could take. With 32 of
# them a walk takes 0.02 ms, which is little beside the rest of a turn. It was set by that, and not by trials.
FRONT = 32
SEARCH_MS = 10  # between two searches, after one that found nothing: with 0.7 ms each they take 7 % of the event loop


@dataclass(slots=True)
class _Pending:
    """An assignment that is proposed and not applied."""

    session: int
    queues: tuple[str, ...]  # with limits, in which it counts
    lane: int


@dataclass(frozen=True, slots=True)
class _Parked:
    since_ms: int
    detail: str


class Dispatcher:
    """The nodes' loads and the lanes of one leadership, from the tables as of `view` on. `now_ms` is wall time."""

    def __init__(self, read: Read, leader_node: str, view: ReadView) -> None:
        self._read = read
        self._leader_node = leader_node
        self._nodes: dict[int, NodeLoad] = {}
        self._rules = {key.decode(): decode_node_rule(raw) for key, raw in view.scan(Table.NODE_RULES)}
        self._limits = QueueLimits(view)
        self._proposed: dict[bytes, _Pending] = {}
        self._live: dict[int, int] = {}  # token -> session, of attempts that were applied in this leadership
        self._ended: set[int] = set()  # tokens of attempts whose ends are known and not applied: they take no slot
        self._moving: set[bytes] = set()  # instances that are about to leave their place in READY
        self._noting: dict[bytes, int] = {}  # of these, those to be put aside -> the value of `_node_changes` then
        self._node_changes = 0  # how often nodes have come or changed
        self._retry_notes = False  # a note was refused: the nodes have changed since
        self._parked: dict[bytes, _Parked] = {}  # no node could take them, busy or not
        self._known: dict[bytes, tuple[Requirements, Policy, str]] = {}  # of those passed over
        self._lanes: dict[int, Lane] = {}
        self._find_lanes = True
        self._review: Place | None = b""  # from where to look again at what was put aside; None: nothing to do
        self._leader_full_ms = -LEADER_LOOK_MS  # when the leader's own node, alone with free slots, could take nothing
        self._searched_ms = -SEARCH_MS  # when a search found nothing that the free nodes could take
        self._busy: dict[Requirements, Waiting] = {}  # what the last walk passed over for want of a free node
        self.backlog = True  # READY may hold instances that something could be proposed for now

    # ------------------------------------------------------------ nodes

    def opened(self, session: Session, running: int) -> None:
        rule = self._rules.get(session.node, NO_RULE)
        leads = session.node == self._leader_node
        self._nodes[session.id] = NodeLoad(session, running, leader=leads, rule=rule)
        self._nodes_changed()

    def closed(self, session: int) -> None:
        self._nodes.pop(session, None)

    def rule_changed(self, node: str) -> None:
        """Reads a node's rule again."""
        with self._read() as view:
            raw = view.get(Table.NODE_RULES, node.encode())
        rule = NO_RULE if raw is None else decode_node_rule(raw)
        self._rules[node] = rule
        for load in self._nodes.values():
            if load.node == node:
                load.follow(rule)
        self._nodes_changed()

    def _nodes_changed(self) -> None:
        """Looks at READY again: what no node could take may be taken by one now."""
        self._node_changes += 1
        self._searched_ms = -SEARCH_MS
        self._parked.clear()
        self._review = b""
        self._find_lanes = True
        self.backlog = True

    @property
    def own_session(self) -> int:
        """The session of the leader's own node; 0: it has none."""
        return next((n.session.id for n in self._nodes.values() if n.leader), 0)

    def loads(self) -> dict[str, NodeLoad]:
        """Returns each node's load by node id."""
        return {n.node: n for n in self._nodes.values()}

    # ------------------------------------------------------------ ready instances

    def ready(self, key: bytes, lane: int, score_ms: int) -> None:
        """An instance became ready (again)."""
        self._parked.pop(key, None)
        self._moving.discard(key)
        self._known.pop(key, None)
        pending = self._proposed.get(key)
        if pending is not None:
            pending.lane = lane  # it is on its way already
            return
        low = u64(score_ms) + key
        known = self._lanes.get(lane)
        if known is None:
            known = self._lanes[lane] = Lane(lane, low)
        known.look_from(low)
        if not known.blocked:
            self.backlog = True

    def queue_changed(self, name: str) -> None:
        """A queue's limits changed, or what it counts."""
        lane = self._limits.changed(name)
        known = None if lane is None else self._lanes.get(lane)
        if known is not None and known.blocked:
            self._unblock(known)

    @property
    def unblocked_at_ms(self) -> int | None:
        """Returns when the rate of a blocked queue next lets a run start; None: no queue is blocked by its rate."""
        times = (lane.unblocked_at_ms for lane in self._lanes.values() if lane.blocked)
        return min((at_ms for at_ms in times if at_ms is not None), default=None)

    def unblock_lanes(self, now_ms: int) -> None:
        """Unblocks the lanes whose rate lets runs start again; also when the clock went back."""
        for lane in self._lanes.values():
            if lane.blocked and lane.is_unblocked_by(now_ms):
                self._unblock(lane)

    def _unblock(self, lane: Lane) -> None:
        lane.blocked = False
        self.backlog = True
        self._searched_ms = -SEARCH_MS  # what is in it may be for the nodes that are free

    # ------------------------------------------------------------ assignments

    def place(
        self, starts: Iterable[tuple[bytes, Policy, str]], assignable: Callable[[int], bool], now_ms: int
    ) -> list[Assign]:
        """Makes assignments for instances that are about to become ready, the first ones first; those without one wait
        in READY. `starts`: their keys, policies and namespaces."""
        if self._limits.stale:
            with self._read() as view:
                self._limits.refresh(view)
        nodes = [n for n in self._nodes.values() if assignable(n.session.id)]
        cycle = Cycle(nodes, tuple(self._nodes.values()), now_ms, 0)
        assigns: list[Assign] = []
        for key, policy, namespace in starts:
            queues = self._limits.of(policy, namespace)
            lane = self._limits.first_lane(queues)
            if lane is not None and (lane in self._lanes or not self._limits.has_room(queues, now_ms)):
                continue
            found = cycle.eligible(policy, namespace)
            node = choose(found[0], prefer=policy.prefer)
            if node is not None:
                assigns.append(self._take(key, node, found, LANE_FREE if lane is None else lane, queues))
        return assigns

    def _take(
        self,
        key: bytes,
        node: NodeLoad,
        found: tuple[list[NodeLoad], int],
        lane: int,
        queues: tuple[str, ...],
        avoid: str = "",
    ) -> Assign:
        """Makes the assignment and counts it. `found`: what Cycle.eligible says of the instance."""
        eligible, nodes = found
        avoided = avoid if avoid != node.node and any(n.node == avoid and n.free > 0 for n in eligible) else ""
        placement = Placement(node.running, node.slots, len(eligible), nodes, avoided)
        self._known.pop(key, None)
        node.running += 1
        node.scheduled += 1
        self._limits.proposed(queues)
        self._proposed[key] = _Pending(node.session.id, queues, lane)
        return Assign(key, node.session.id, placement)

    # ------------------------------------------------------------ the walk over READY

    def pump(self, assignable: Callable[[int], bool], now_ms: int) -> list[Command]:
        """Makes assignments for what waits in READY, about BATCH, and commands that move or note what cannot start."""
        if not self.backlog:
            return []
        nodes = [n for n in self._nodes.values() if assignable(n.session.id)]
        free = sum(max(0, n.free) for n in candidates(nodes))
        last_resort = free == 0 and self._looks_for_the_leader(nodes, now_ms)
        everyone = tuple(self._nodes.values())
        cycle = Cycle(nodes, everyone, now_ms, sum(max(0, n.free) for n in nodes) if last_resort else free)
        if not cycle.free and self._review is None:
            return []
        with self._read() as view:
            self._limits.refresh(view)
            if self._find_lanes:
                self._find_lanes_in_use(view)
            if cycle.free and (self._searches(now_ms) or not self._all_busy(cycle)):
                self._walk(view, cycle)
                if last_resort and not cycle.commands:
                    self._leader_full_ms = now_ms
            if self._review is not None:
                self._review_parked(view, self._review, cycle)
        if cycle.moves:
            self._moving.update(cycle.moves)
            cycle.commands.append(SortReady(tuple(cycle.moves)))
        self.backlog = self._review is not None or any(not lane.blocked for lane in self._lanes.values())
        return cycle.commands

    def _looks_for_the_leader(self, nodes: list[NodeLoad], now_ms: int) -> bool:
        """Returns whether a walk may look for what only the leader's own node could take; also when the clock went
        back."""
        if self._leader_full_ms <= now_ms < self._leader_full_ms + LEADER_LOOK_MS:
            return False
        others = [n.offer for n in nodes if not (n.leader or n.offer.drained)]
        return not any(other.takes_all_of(n.offer) for n in nodes if n.leader for other in others)

    def _find_lanes_in_use(self, view: ReadView) -> None:
        self._find_lanes = False
        for number in lanes_in_use(view):
            if number != LANE_NOBODY:
                self._lanes.setdefault(number, Lane(number)).look_from(b"")

    def _walk(self, view: ReadView, cycle: Cycle) -> None:
        """Goes through all lanes at once, the most urgent first. Where too many are passed over, the next cycles leave
        these lanes out until the others were walked.

        Nodes that are free for other runs than those at the front have the walk search for these. Where there are none,
        that would be most of the work of each end of a run, so a search that found nothing is not repeated at once."""
        walks: dict[int, LaneWalk] = {}
        heap = [(lane.low, lane.number) for lane in self._lanes.values() if not lane.blocked and not lane.postponed]
        heapify(heap)
        searches = self._searches(cycle.now_ms)
        at_front: int | None = None  # what was found before the search began
        while heap and not cycle.is_over:
            if at_front is None and cycle.passed >= FRONT:
                at_front = cycle.found
                if not searches:
                    break
            low, number = heap[0]
            lane = self._lanes[number]
            if self._is_blocked(lane, cycle.now_ms):
                heappop(heap)
                continue
            walk = walks.get(number)
            if walk is None:
                walk = walks[number] = LaneWalk(view, lane, self._is_taken_care_of, PASS_OVER)
            if walk.head == low:
                self._decide(view, walk, lane, cycle)
            if walk.done:
                heappop(heap)
            else:
                assert walk.head is not None
                heapreplace(heap, (walk.head, number))  # others may come first now
        if searches and at_front is not None and at_front == cycle.found:
            self._searched_ms = cycle.now_ms
        self._busy = cycle.busy
        cut = cycle.passed >= PASSED_MAX
        for number, walk in walks.items():
            self._lanes[number].postponed = cut and walk.done
            if not walk.leave(self._lanes[number], cut):
                del self._lanes[number]
        if not cut:
            for lane in self._lanes.values():
                lane.postponed = False

    def _searches(self, now_ms: int) -> bool:
        """Returns whether a walk may search behind the front for what the free nodes could take; also when the clock
        went back."""
        return not self._searched_ms <= now_ms < self._searched_ms + SEARCH_MS

    def _all_busy(self, cycle: Cycle) -> bool:
        """Returns whether there is still no free node for anything that the last walk passed over."""
        return bool(self._busy) and not any(choose(cycle.eligible(*waits)[0]) for waits in self._busy.values())

    def _is_taken_care_of(self, key: bytes) -> bool:
        return key in self._proposed or key in self._parked or key in self._moving

    def _is_blocked(self, lane: Lane, now_ms: int) -> bool:
        name = self._limits.name(lane.number)
        reason = None if name is None else self._limits.blocked_reason(name, now_ms)
        if name is None or reason is None:
            return False
        lane.blocked = True
        lane.blocked_at_ms = now_ms
        lane.unblocked_at_ms = self._limits.unblocked_at_ms(name, now_ms) if reason == "rate" else None
        return True

    def _decide(self, view: ReadView, walk: LaneWalk, lane: Lane, cycle: Cycle) -> None:
        """Assigns the instance at which the walk stands, moves it, or leaves it where it is."""
        assert walk.head is not None
        key = walk.head[8:]
        known = self._known.get(key)
        if known is not None and known[0] in cycle.busy and self._limits.lane_of(*known[1:]) in (None, lane.number):
            cycle.passed += 1
            walk.passed()
            return
        instance, policy, namespace = waiting(view, key)
        if instance is None or policy is None:
            cycle.passed += 1
            walk.passed()
            return
        queues = self._limits.of(policy, namespace)
        own = self._limits.first_lane(queues)
        if own is not None and own != lane.number:  # its queue was given limits since
            cycle.moves.append(key)
            walk.taken()
            return
        if len(queues) > 1 and not self._limits.has_room(queues, cycle.now_ms):  # its namespace runs as many as it may
            cycle.passed += 1
            walk.passed()
            return
        if has_parts(instance, policy) and self._split(key, instance, policy, namespace, walk, cycle):
            return
        only = instance.only_on
        avoid = _avoid(instance)
        found = cycle.eligible(policy, namespace, only)
        node = choose(found[0], avoid, policy.prefer)
        if node is not None and not has_parts(instance, policy):
            cycle.commands.append(self._take(key, node, found, lane.number, queues, avoid))
            cycle.free -= 1
            walk.taken()
            return
        able = cycle.able(policy, namespace)
        if instance.parent is not None and only:
            able = [n for n in able if n.node == only]
        elif only and not any(n.node == only and not n.offer.drained for n in able):
            self._moving.add(key)
            cycle.commands.append(Recheck(key))
            walk.taken()
            return
        if not able:
            self._park(key, lacking_of(instance, policy, namespace, cycle), cycle)
            walk.taken()
        else:
            need = cycle.requirements(policy, namespace, only)
            cycle.busy[need] = policy, namespace, only
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[key] = (need, policy, namespace)
            cycle.passed += 1
            walk.passed()

    def _split(
        self, key: bytes, instance: Instance, policy: Policy, namespace: str, walk: LaneWalk, cycle: Cycle
    ) -> bool:
        """Has a run split into its parts when its turn has come. Returns False when it waits as any other."""
        targets: tuple[str, ...] = ()
        if instance.parts is None and policy.on_all:
            targets = cycle.targets(policy, namespace)[:TARGETS_MAX]
            ready = bool(targets)
        else:
            ready = choose(cycle.eligible(policy, namespace)[0]) is not None
        if not ready:
            return False
        if cycle.splits >= SPLITS_MAX:
            cycle.passed += 1
            walk.passed()
            return True
        cycle.splits += 1
        self._moving.add(key)
        cycle.commands.append(Split(key, targets))
        walk.taken()
        return True

    # ------------------------------------------------------------ instances that no node could take

    def _park(self, key: bytes, detail: str, cycle: Cycle) -> None:
        """Remembers an instance that no node can take. It is noted after a while; at once where there are many, because
        every walk has to step over them."""
        if len(self._parked) < PARKED_MAX:
            self._parked[key] = _Parked(cycle.now_ms, detail)
        else:
            cycle.commands.append(self._note(key, detail))

    def _note(self, key: bytes, detail: str) -> NoteUnplaceable:
        self._moving.add(key)
        self._noting[key] = self._node_changes
        return NoteUnplaceable(key, detail)

    def notes(self, now_ms: int) -> list[Command]:
        """Makes the commands that put aside what no node could take for NOTE_AFTER_MS; also when the clock went
        back."""
        if self._retry_notes:
            self._retry_notes = False
            self._find_lanes = self.backlog = True
        due = [k for k, p in self._parked.items() if not p.since_ms <= now_ms < p.since_ms + NOTE_AFTER_MS][:BATCH]
        return [self._note(key, self._parked.pop(key).detail) for key in due]

    def _review_parked(self, view: ReadView, start: Place, cycle: Cycle) -> None:
        """Looks again at a bounded part of what was put aside: a node may be there for it now."""
        seen = 0
        for row, _ in view.scan(Table.READY, lane_key(LANE_NOBODY) + start):
            if seen >= PASS_OVER:
                self._review = row[4:]
                return
            seen += 1
            key = from_ready(row)
            instance, policy, namespace = (None, None, "") if key in self._moving else waiting(view, key)
            if instance is None or policy is None:
                continue
            able = cycle.able(policy, namespace)
            if instance.parent is not None and instance.only_on:
                able = [n for n in able if n.node == instance.only_on]
            if able:
                cycle.moves.append(key)
            elif (detail := lacking_of(instance, policy, namespace, cycle)) != instance.error:
                cycle.commands.append(self._note(key, detail))
        self._review = None

    # ------------------------------------------------------------ answers and ends

    def applied(self, key: bytes, session: int, queues: Iterable[str], token: int) -> None:
        """An assignment was applied. It was counted when it was proposed; one that an earlier leadership left behind in
        the log is counted here, instead of what was proposed for the same instance since."""
        for queue in filter(None, queues):
            self.queue_changed(queue)
        self._live[token] = session
        pending = self._proposed.pop(key, None)
        if pending is not None:
            self._uncount(pending)
            if pending.session == session:
                return
            self._freed(pending.session)
        node = self._nodes.get(session)
        if node is not None:
            node.running += 1

    def answered(self, command: Command, accepted: bool | None) -> None:
        """A proposed command was applied or refused; None: that is not known."""
        match command:
            case Assign():
                if not accepted:
                    self._refused(command.instance)
            case SortReady():
                self._moving.difference_update(command.instances)
                if not accepted:
                    self._nodes_changed()
            case NoteUnplaceable() | Recheck() | Split():
                self._moving.discard(command.instance)
                known = self._noting.pop(command.instance, self._node_changes)
                if accepted is None:
                    self._nodes_changed()
                elif not accepted:
                    self._retry_notes = True  # with the next tick
                elif (
                    known != self._node_changes
                ):  # the look at what was put aside has passed it over, it was on its way
                    self._review = b""
                    self.backlog = True
            case _:
                pass

    def _refused(self, key: bytes) -> None:
        pending = self._proposed.pop(key, None)
        if pending is None:
            return
        self._uncount(pending)
        self._freed(pending.session)
        lane = self._lanes.setdefault(pending.lane, Lane(pending.lane))
        lane.look_from(b"")
        self.backlog = True

    def _uncount(self, pending: _Pending) -> None:
        for queue in pending.queues:
            self._limits.answered(queue)
            self.queue_changed(queue)

    def ended(self, session: int, tokens: Iterable[int]) -> None:
        """A worker has ended these attempts: their slots are free, though the tables do not show it yet."""
        for token in tokens:
            if self._live.get(token) == session:
                del self._live[token]
                self._ended.add(token)
                self._freed(session)

    def attempt_ended(self, session: int, queues: Iterable[str], token: int) -> None:
        """The end of an attempt was applied. `queues`: "" stands for none."""
        for queue in filter(None, queues):
            self.queue_changed(queue)
        self._live.pop(token, None)
        if token in self._ended:
            self._ended.discard(token)
        else:
            self._freed(session)

    def _freed(self, session: int) -> None:
        node = self._nodes.get(session)
        if node is not None and node.running > 0:
            node.running -= 1


def count_running(view: ReadView, session: int) -> int:
    """Returns how many live attempts a session has."""
    prefix = u64(session)
    return sum(1 for _ in view.scan(Table.ASSIGNED, prefix, after(prefix)))


def _avoid(instance: Instance) -> str:
    """Returns the node of the last attempt, if that failed, or was lost: for the next one another is preferred."""
    last = instance.attempts[-1] if instance.attempts else None
    return "" if last is None or last.outcome in (Outcome.SUCCEEDED, Outcome.SNOOZED) else last.node
