"""Keeps outputs together, each of which stands for itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from raftsched.core.model import OutputRef
from raftsched.output.keeping.store import OutputStore, Record
from raftsched.system import background

Kept = OutputRef | Exception | None  # where a record is kept; None: it has no output; the error: it is not kept


class Appender:
    """Keeps records as they come: one batch after the other, each with one fdatasync. For one event loop."""

    def __init__(self, name: background.TaskName, store: OutputStore, threads: Executor) -> None:
        self._name = name
        self._store = store
        self._threads = threads
        self._waiting: list[tuple[Record, Callable[[Kept], None]]] = []
        self._writing: asyncio.Task[None] | None = None

    def add(self, record: Record, then: Callable[[Kept], None]) -> None:
        """Calls `then` with what became of the record."""
        self._waiting.append((record, then))
        if self._writing is None:
            self._writing = background.start(self._name, self._write())

    async def drain(self) -> None:
        """Returns when it is known of each record what became of it."""
        while self._writing is not None:
            await asyncio.shield(self._writing)

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                records = [record for record, _ in batch]
                kept: Sequence[Kept]
                try:
                    kept = await loop.run_in_executor(self._threads, append_each, self._store, records)
                except Exception as error:  # such as no thread: each is told all the same
                    background.note(self._name, error)
                    kept = [error] * len(batch)
                for (_, then), one in zip(batch, kept, strict=True):
                    background.guarded(self._name, then)(one)
        finally:
            self._writing = None


def append_each(store: OutputStore, records: Sequence[Record]) -> list[Kept]:
    """Returns for each record where it is kept, None for one without any output, or the error: one that cannot be kept
    costs the others nothing. With one fdatasync, where all can be kept; blocks."""
    try:
        return list(store.append(records))
    except OSError as error:  # the disk takes none of them
        return [error] * len(records)
    except Exception as error:
        if len(records) > 1:
            return [kept for record in records for kept in append_each(store, [record])]
        background.note("output", error, f"attempt {records[0].token}")
        return [error]
