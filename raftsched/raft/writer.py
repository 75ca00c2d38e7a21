"""Write batches: one thread writes what the event loop gathered, and what depends on it is released afterwards.

At most one batch is being written at a time; the next one is gathered meanwhile. An exception while writing ends this
node's part in the cluster: nothing that depended on the batch is released.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from raftsched.raft.consensus.journal import Journal
from raftsched.raft.guards import Guards
from raftsched.raft.measures import Times
from raftsched.store.write_batch import WriteBatch
from raftsched.system.clock import Clock

Action = Callable[[], None]
Done = Callable[[Any, BaseException | None], None]


class Writer(Protocol):
    """Runs jobs one after another in one thread; `done(result, error)` is called on the event loop."""

    def submit(self, job: Callable[[], Any], done: Done) -> None: ...
    def close(self) -> None: ...


class ThreadWriter:
    """One thread for the life of the node. `post` brings a call to the event loop, from any thread. The thread starts
    with the first job."""

    def __init__(self, post: Callable[..., object], name: str) -> None:
        self._post = post
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Done] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._started = False

    def submit(self, job: Callable[[], Any], done: Done) -> None:
        if not self._started:
            self._started = True
            self._thread.start()
        self._jobs.put((job, done))

    def close(self) -> None:
        """Waits for the running job."""
        if self._started:
            self._jobs.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, done = item
            try:
                result, error = job(), None
            except BaseException as raised:
                result, error = None, raised
            try:
                self._post(done, result, error)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return


class ContainedWriter:
    """A writer whose results come in through `safely`, like all other input."""

    def __init__(self, writer: Writer, safely: Callable[[Action], None]) -> None:
        self._writer = writer
        self._safely = safely

    def submit(self, job: Callable[[], Any], done: Done) -> None:
        self._writer.submit(job, lambda result, error: self._safely(partial(done, result, error)))

    def close(self) -> None:
        self._writer.close()


class BatchStore(Protocol):
    def write(self, batch: WriteBatch) -> None: ...


class WriteDriver:
    """Starts a write batch whenever the writer is idle and something is pending."""

    def __init__(
        self,
        store: BatchStore,
        journal: Journal,
        writer: Writer,
        guards: Guards,
        clock: Clock,
        *,
        on_written: Action,
        on_fatal: Callable[[BaseException], None],
        times: Times,
    ) -> None:
        """`times` is told how long write batches take."""
        self._store = store
        self._journal = journal
        self._writer = writer
        self._guards = guards
        self._clock = clock
        self._on_written = on_written
        self._on_fatal = on_fatal
        self._times = times
        self._held: list[Action] = []  # released by the write that is being gathered
        self._running_held: list[Action] = []  # released by the running write
        self._exclusive: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        self.busy = False
        self.busy_since_ms: int | None = None  # boot clock
        self.stopped = False

    def hold(self, action: Action) -> None:
        """Calls `action` once every change so far is durable; at once when there is nothing to wait for."""
        if not self._guards.hold_until_durable:
            action()
        elif self._journal.dirty and (self._guards.hold_for_gathered_turn or not self.busy):
            self._held.append(action)
        elif self.busy:
            self._running_held.append(action)
        else:
            action()

    def exclusive(self, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Runs a job in the writer thread between two batches. If it raises, or `done` does, the node stops."""
        self._exclusive.append((job, done))

    def pump(self) -> bool:
        """Starts a batch if one is due; returns whether it did."""
        if self.busy or self.stopped:
            return False
        if not self._journal.dirty:  # what was gathered first goes first: messages may be held for it
            if self._exclusive:
                self._start(*self._exclusive.pop(0))
                return True
            return False
        batch = self._journal.take()
        self._running_held, self._held = self._held, []
        began = self._clock.monotonic()
        self._start(lambda: self._store.write(batch), lambda _: self._written(batch, began))
        return True

    def _start(self, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.busy = True
        self.busy_since_ms = self._clock.boot_ms()
        self._writer.submit(job, lambda result, error: self._finished(result, error, done))

    def _written(self, batch: WriteBatch, began: float) -> None:
        self._times.add(self._clock.monotonic() - began)
        self._journal.done(batch)
        self._release()
        self._on_written()

    def _finished(self, result: Any, error: BaseException | None, done: Callable[[Any], None]) -> None:
        self.busy = False
        self.busy_since_ms = None
        if self.stopped:
            return
        if error is not None and self._guards.stop_on_apply_error:
            self.stopped = True
            self._on_fatal(error)
            return
        try:
            done(result)
            self._release()
        except Exception as raised:  # as of a state that was swapped in, and is of a level that this version knows not
            self.stopped = True
            self._on_fatal(raised)

    def _release(self) -> None:
        released, self._running_held = self._running_held, []
        for action in released:
            action()
