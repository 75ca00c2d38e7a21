"""Looks at conditions when the leader asks, and reports what it found.

Looks run in a few threads of the node, for a file system may hang: what takes too long is given up and said so, and
its thread counts as taken from its namespace until it comes back. A namespace has a few of them, so that what one looks
at holds up no other's looks. What is no news is not reported. Nothing is repeated here: as long as the instance waits,
the leader asks again.

The leader's question may come before the entry that made the instance, and whose it is says as whom to look. So a
question waits until all is applied here that the leader had applied.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from raftsched.bounds import ERROR_MAX
from raftsched.core.commands import ReportConditions, encode
from raftsched.core.ids import instance_text
from raftsched.core.model import Instance, Job
from raftsched.core.rows import INSTANCES, job_of
from raftsched.core.rules.allowed import Allowed
from raftsched.core.subjects.checking import Check, decode
from raftsched.core.tables import ReadView
from raftsched.errors import RaftschedError
from raftsched.worker.conditions.probe import ConditionProbe, GivenUp
from raftsched.worker.ports import Applied
from raftsched.worker.processes.run_as import RunAs
from raftsched.worker.processes.users import User
from raftsched.worker.tasks.tasks import NODES_OWN, BadJob, user_of

THREADS = 4  # for one namespace
THREADS_ALL = 12  # for all: each that is at work takes some of the interpreter from the node
HANGING_MAX = 48  # that were given up and have not come back: so many do not count among them, for they are at rest
LIMIT_MS = 5_000  # for one look
WAITING_MAX = 1_000  # instances of a namespace that no thread has taken up yet; of the others the leader asks again
EARLY_MAX = 1_000  # instances that are not applied here yet; of the others, too,
EARLY_S = 10.0  # and when they have waited for so long

log = logging.getLogger(__name__)


class Raft(Protocol):
    """The part of the raft room that is needed."""

    @property
    def applied_index(self) -> int: ...

    def submit(self, commands: Sequence[bytes]) -> None: ...

    def subscribe(self, on_applied: Callable[[Sequence[Applied]], None]) -> None: ...

    def on_message(self, kind: str, handler: Callable[[str, bytes], None]) -> None: ...


class _NotThere(Exception):
    """There is no such instance, not yet or not any more."""


class _Namespace:
    """Its instances that are asked about."""

    __slots__ = ("hanging", "looking", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[bytes, Check] = {}  # by instance
        self.looking: dict[bytes, ConditionProbe] = {}  # by instance, until the thread is back
        self.hanging = 0  # of these, given up


class ConditionProbes:
    def __init__(
        self,
        node_id: str,
        raft: Raft,
        read: Callable[[], AbstractContextManager[ReadView]],
        *,
        limit_ms: int = LIMIT_MS,
        allowed: Allowed | None = None,
        run_as: RunAs = NODES_OWN,
    ) -> None:
        """`allowed`: where it may look; None: anywhere. `run_as`: as whom jobs run here, and so who looks for the paths
        of their conditions: these must not tell what a run cannot see."""
        self._run_as = run_as
        self._allowed = allowed or Allowed(http=("any",))
        self._node_id = node_id
        self._raft = raft
        self._read = read
        self._limit_s = limit_ms / 1000
        self._namespaces: dict[str, _Namespace] = {}  # that are asked about
        self._looking: dict[bytes, ConditionProbe] = {}  # by instance, of all namespaces
        self._early: dict[bytes, tuple[Check, float]] = {}  # by instance, with the loop's time when it is dropped
        self._stopped = False

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._raft.subscribe(self._on_applied)
        self._raft.on_message("check", self._on_check)

    def stop(self) -> None:
        """Nothing is reported any more. Threads that hang do not keep the process from ending."""
        self._stopped = True
        self._namespaces.clear()
        self._early.clear()
        for look in self._looking.values():
            look.give_up()

    def _on_check(self, peer: str, payload: bytes) -> None:
        try:
            check = decode(payload)
        except msgspec.DecodeError:
            log.warning("malformed check from %s dropped", peer, extra={"peer": peer})
            return
        if check.applied <= self._raft.applied_index:
            self._take(check)
        elif not self._stopped and (check.instance in self._early or len(self._early) < EARLY_MAX):
            self._early[check.instance] = check, self._loop.time() + EARLY_S

    def _on_applied(self, results: Sequence[Applied]) -> None:
        """Takes up the questions that came before what they are about. `results` may be those of a snapshot: none."""
        if not self._early:
            return
        index, now = self._raft.applied_index, self._loop.time()
        for key, (check, until) in list(self._early.items()):
            if check.applied <= index or until <= now:
                del self._early[key]
            if check.applied <= index and now < until:
                self._take(check)

    def _take(self, check: Check) -> None:
        if self._stopped or check.instance in self._looking:
            return
        _, job = self._rows_of(check)
        name = "" if job is None else job.namespace
        of = self._namespaces.setdefault(name, _Namespace())
        if of.hanging >= THREADS or self._hanging() >= THREADS_ALL + HANGING_MAX:
            own = of.hanging >= THREADS
            nothing = f"nothing more for the namespace {name}" if own else "nothing more"
            doing = next(iter((of.looking if own else self._looking).values())).doing
            self._report(
                check, f"{self._node_id} can look at {nothing}: all of its looks hang. {doing} is one of them."
            )
        elif check.instance in of.waiting or len(of.waiting) < WAITING_MAX:
            of.waiting[check.instance] = check
            self._next()

    def _next(self) -> None:
        while len(self._looking) - min(self._hanging(), HANGING_MAX) < THREADS_ALL:
            ready = [of for of in self._namespaces.values() if of.waiting and len(of.looking) < THREADS]
            if not ready:
                return
            of = min(ready, key=lambda one: len(one.looking))
            key = next(iter(of.waiting))
            check = of.waiting.pop(key)
            try:
                look = ConditionProbe(check.conditions, self._limit_s, self._allowed, self._user_of(check))
            except BadJob as why:
                self._report(check, f"{self._node_id} does not look: {why}.")
                continue
            except _NotThere:
                continue
            self._looking[key] = of.looking[key] = look
            limit = self._loop.call_later(self._limit_s, self._too_long, check, look, of)
            # A daemon: a thread that hangs must not hold up the end of the node.
            thread = threading.Thread(target=self._run, args=(check, look, limit, of), name="look", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the machine has none to give: the leader asks again
                self._over(check, limit, of)
                self._report(check, f"{self._node_id} does not look: {error}.")

    def _hanging(self) -> int:
        return sum(of.hanging for of in self._namespaces.values())

    def _user_of(self, check: Check) -> User | None:
        """None: the node's own. Raises BadJob, _NotThere."""
        if not self._run_as.users:
            return None
        instance, job = self._rows_of(check)
        if instance is None:
            raise _NotThere
        if job is None:
            raise BadJob("the job's definition is gone")
        return self._run_as.users.get(user_of(job, self._run_as.of))

    def _rows_of(self, check: Check) -> tuple[Instance | None, Job | None]:
        """Returns what this node has of the instance and its job."""
        with self._read() as view:
            instance = INSTANCES.get(view, check.instance)
            return instance, None if instance is None else job_of(view, instance)

    def _run(self, check: Check, look: ConditionProbe, limit: asyncio.TimerHandle, of: _Namespace) -> None:
        """Runs in a thread of its own."""
        try:
            missing = look.missing()
        except GivenUp:
            missing = ""
        except Exception as error:
            log.exception("a look at conditions failed", extra={"instance": instance_text(check.instance)})
            missing = f"{look.doing} failed on {self._node_id}: {error}"
        try:
            self._loop.call_soon_threadsafe(self._back, check, look, limit, of, missing)
        except RuntimeError:
            pass  # the node has ended meanwhile

    def _back(
        self, check: Check, look: ConditionProbe, limit: asyncio.TimerHandle, of: _Namespace, missing: str | None
    ) -> None:
        self._over(check, limit, of)
        if self._stopped:
            return
        if look.given_up:
            of.hanging -= 1
        else:
            self._report(check, missing)
        self._next()
        self._namespaces = {name: one for name, one in self._namespaces.items() if one.waiting or one.looking}

    def _over(self, check: Check, limit: asyncio.TimerHandle, of: _Namespace) -> None:
        limit.cancel()
        del self._looking[check.instance], of.looking[check.instance]

    def _too_long(self, check: Check, look: ConditionProbe, of: _Namespace) -> None:
        if self._stopped:
            return
        of.hanging += 1
        look.give_up()
        self._report(check, f"{look.doing} on {self._node_id} took longer than {self._limit_s:g}s.")
        self._next()

    def _report(self, check: Check, missing: str | None) -> None:
        if missing is not None:
            missing = missing[:ERROR_MAX]
            instance, _ = self._rows_of(check)
            if instance is not None and instance.error == missing:
                return
        report = ReportConditions(check.instance, check.until_ms, self._node_id, missing is None, missing)
        try:
            self._raft.submit([encode(report)])
        except RaftschedError as error:
            log.info(
                "%s: what was found about conditions is dropped: %s",
                self._node_id,
                error,
                extra={"instance": instance_text(check.instance)},
            )
