"""SIGHUP: a process reads its files and its configuration again, says what has changed, and goes on in any case."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from raftsched.config.differences import changes
from raftsched.config.values import ConfigError
from raftsched.embedded.systemd import Systemd
from raftsched.system import background

log = logging.getLogger("raftsched.reload")

Settings = Mapping[str, Any]

_early = threading.Event()  # SIGHUP came before anybody was there to take it


class Source(NamedTuple):
    """Names where a configuration is from. `read` returns its settings as all places say them now, and raises
    ConfigError; `build` checks them, and does so, too. `settings`: as they were read at the start. `name`: of the file
    among these places; None: there is none."""

    read: Callable[[], Settings]
    build: Callable[[Settings], Any]
    settings: Settings
    name: str | None = None


class Reload:
    """Does what SIGHUP asks for, one after the other. `ask` is for a signal's handler in the event loop."""

    def __init__(
        self,
        source: Source | None,
        taken: frozenset[str],
        take: Callable[[Any, tuple[str, ...]], None],
        files: Callable[[], Awaitable[int]],
        systemd: Systemd,
    ) -> None:
        """`source`: None: there is nothing to read but files. `taken`: names of settings that `take` takes; it is
        called with the new configuration and the names of what has changed. `files`: reads all files again, says what
        is new in them, and returns how many are."""
        self._source = source
        self._settings = None if source is None else dict(source.settings)
        self._taken = taken
        self._take = take
        self._files = files
        self._systemd = systemd
        self._asked = asyncio.Event()
        if _early.is_set():
            self._asked.set()
        self._busy = False
        self._going: asyncio.Task[None] | None = None

    def ask(self) -> None:
        """Asks for it. What is asked for before `start` is done then."""
        self._asked.set()

    def start(self) -> None:
        """Does what is asked for, from now on."""
        self._going = background.start("other", self._go_on())

    async def stop(self) -> None:
        if self._going is not None:
            self._going.cancel()
            await asyncio.wait([self._going])

    async def _go_on(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            self._busy = True
            self._systemd.reloading()
            try:
                await self._once()
            except Exception as error:  # whatever it is: the process goes on as it was
                background.note("other", error, "reading files again")
            finally:
                self._systemd.reloaded()
                self._busy = False

    async def _once(self) -> None:
        new = await self._files()
        settings = await self._changed_settings()
        if not new and settings == 0:
            log.info("SIGHUP: nothing has changed")

    async def _changed_settings(self) -> int | None:
        """Returns how many settings have changed; None: they cannot be read."""
        source, before = self._source, self._settings
        if source is None or before is None:
            return 0
        where = source.name or "the settings"
        try:
            after = dict(await asyncio.to_thread(source.read))
            found = await asyncio.to_thread(changes, before, after, source.build, self._taken)
            # What a restart takes is compared with what is in use each time, so it is said each time.
            now = {name: value for name, value in before.items() if name not in found.taken}
            now.update((name, after[name]) for name in found.taken if name in after)
            config = source.build(now) if found.taken else None
        except ConfigError as error:
            log.error("SIGHUP: %s: %s; the settings that were read before stay in use", where, error)
            return None
        if found.taken:
            self._take(config, found.taken)
            self._settings = now
            log.info("SIGHUP: %s: in use from now on: %s", where, ", ".join(found.taken))
        if found.later:
            log.warning("SIGHUP: %s: changed, and taken at the next start: %s", where, ", ".join(found.later))
        return len(found.taken) + len(found.later)


def wait_until_ready() -> None:
    """Keeps SIGHUP from ending a process that is not there yet to take it: what was asked for is done once it is."""
    if threading.current_thread() is threading.main_thread():  # Python lets no other one set handlers
        signal.signal(signal.SIGHUP, _note)


def hear(ask: Callable[[], None]) -> None:
    """Has SIGHUP call `ask` in the event loop that runs. Not by that loop's own means: when it closes it would leave
    the signal to the kernel, which ends the process, and what it answers with to whoever stops it."""
    loop = asyncio.get_running_loop()

    def on_signal(*_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(ask)

    signal.signal(signal.SIGHUP, on_signal)


def hear_no_more() -> None:
    """Keeps SIGHUP from ending a process that has stopped. Nothing is started by it any more."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the interpreter, as it ends, takes back any other handler


def _note(*_: object) -> None:
    """A handler, and not SIG_IGN, which programs would inherit."""
    _early.set()
