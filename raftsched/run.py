"""Lets the function or program of a run speak of itself, from inside.

    import raftsched

    @raftsched.handler("fetch")
    def fetch(urls: list[str]) -> None:
        done = (raftsched.state() or {}).get("done", 0)
        for number, url in enumerate(urls[done:], done):
            if busy(url):
                raise raftsched.Snooze("10m")
            raftsched.progress(100 * number // len(urls), url)
            raftsched.save_state({"done": number + 1})

Each exception ends the attempt, whatever else would have come of it (docs/runs.md). Outside of a run progress is shown
nowhere, and what is saved is there as long as the process is: a function works the same in a test. This imports next to
nothing: whoever runs a function pays for no more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

from raftsched.quantities import parse_duration
from raftsched.system.clock import SystemClock

FAIL, CANCEL, SNOOZE = 3, 4, 5  # numbers of core.model.Verdict, which a process for functions does not load
SNOOZE_MIN_MS, SNOOZE_MAX_MS = 1_000, 30 * 24 * 3_600_000  # this and what follows as core.limits has it
STATE_MAX = 4 * 1024  # bytes of JSON
TEXT_MAX = 200  # characters
REPORT_FILE = "RAFTSCHED_REPORT_FILE"  # where a program writes its lines
STATE = "RAFTSCHED_STATE"  # what earlier attempts of the run have saved
EVERY_S = 1.0  # between two reports of progress: what comes in between is told with the next one


_clock = SystemClock()


class Word(Exception):
    """The run says what is to become of it. Raised as one of the classes below."""

    verdict = 0
    delay_ms: int | None = None

    def __init__(self, reason: str = "") -> None:
        """`reason`: for people, who read it as the error of the attempt."""
        super().__init__(reason)


class Cancel(Word):
    """Ends the run: there is nothing to do, now or later. It is KILLED, reason "cancelled", and no dead letter."""

    verdict = CANCEL


class Fail(Word):
    """Ends the run: no retry would help. It is FAILED, and a dead letter."""

    verdict = FAIL


class Snooze(Word):
    """Puts the run off: it goes on after `delay`, with another attempt that uses no retry."""

    verdict = SNOOZE

    def __init__(self, delay: str | timedelta, reason: str = "") -> None:
        """`delay`: 1s to 30d, as "10m" or a timedelta. ValueError for anything else."""
        super().__init__(reason)
        try:
            ms = delay // timedelta(milliseconds=1) if isinstance(delay, timedelta) else parse_duration(delay)
        except ValueError as exc:
            raise ValueError(f"the delay of a snooze {exc}") from None
        if not SNOOZE_MIN_MS <= ms <= SNOOZE_MAX_MS:
            raise ValueError(f"the delay of a snooze is 1s to 30d, not {delay}")
        self.delay_ms = ms


class Teller:
    """Tells what one run says, and remembers the last of it. `send` gets percent, text and state; None: nothing new."""

    def __init__(self, send: Callable[[int | None, str | None, bytes | None], None] | None = None) -> None:
        self.percent: int | None = None
        self.text: str | None = None
        self.kept: bytes | None = None  # JSON
        self._send = send
        self._next_at = 0.0

    @property
    def said(self) -> bool:
        """Returns whether there is anything."""
        return self.percent is not None or self.text is not None or self.kept is not None

    def progress(self, percent: int | None, text: str) -> None:
        self.percent, self.text = percent, text
        now = _clock.monotonic()
        if self._send is not None and now >= self._next_at:
            self._next_at = now + EVERY_S
            self._send(percent, text, None)

    def save(self, kept: bytes) -> None:
        self.kept = kept
        if self._send is not None:
            self._send(self.percent, self.text, kept)


in_context: ContextVar[Teller | None] = ContextVar("teller", default=None)  # of a run inside the node's own process
in_process: Teller | None = None  # of the run that this process is at, or of a program


def progress(percent: float | None = None, text: str = "") -> None:
    """Shows how far the run is: a number from 0 to 100, a text, or both. Call it as often as you like: it is passed on
    once a second, and is in the cluster once in ten. Raises ValueError."""
    if percent is not None and not 0 <= percent <= 100:
        raise ValueError(f"progress goes from 0 to 100; this is {percent}")
    _teller().progress(None if percent is None else int(percent), _well_formed(str(text))[:TEXT_MAX])


def _well_formed(text: str) -> str:
    """Returns it with a question mark for each half of a surrogate pair, which no message can carry."""
    return text.encode("utf-8", "replace").decode()


def save_state(value: Any) -> None:
    """Keeps a value for the next attempts of this run: what JSON can hold, at most 4 KiB of it. None takes it away. It
    is in the cluster when the attempt ends, and before that within some ten seconds. Raises ValueError, TypeError."""
    kept = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    if len(kept) > STATE_MAX:
        raise ValueError(f"the state takes {len(kept):,} bytes as JSON; {STATE_MAX:,} is the limit")
    _teller().save(kept)


def state() -> Any:
    """Returns what this run, or an earlier attempt of it, saved last; None: nothing."""
    kept = _teller().kept
    if kept is not None:
        return json.loads(kept)
    from raftsched.handlers import run_variables

    given = run_variables().get(STATE)
    return json.loads(given) if given else None


def trace_context() -> dict[str, str]:
    """Returns the context of this run's trace, as `opentelemetry.propagate.extract` takes it: traceparent, and
    tracestate where there is one (W3C Trace Context). Empty where the cluster does not trace, and outside of a run."""
    from raftsched.handlers import run_variables

    given = run_variables()
    return {name: given[name.upper()] for name in ("traceparent", "tracestate") if given.get(name.upper())}


def _teller() -> Teller:
    global in_process
    found = in_context.get() or in_process
    if found is None:
        path = os.environ.get(REPORT_FILE)
        found = in_process = Teller(_Lines(path) if path else None)
    return found


class _Lines:
    """Writes lines of JSON, as any program may."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, percent: int | None, text: str | None, kept: bytes | None) -> None:
        parts = []
        if percent is not None:
            parts.append(f'"progress":{percent}')
        if text is not None:
            parts.append(f'"text":{json.dumps(text)}')
        if kept is not None:
            parts.append(f'"state":{kept.decode()}')
        try:
            with open(self._path, "ab", buffering=0) as file:
                file.write(f"{{{','.join(parts)}}}\n".encode())
        except OSError:
            pass  # a process below the run whose descriptors were closed: what it says is heard by nobody
