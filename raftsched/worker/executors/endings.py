"""Makes the end of a python run of what its function returned or raised."""

from __future__ import annotations

import builtins
import sys

from msgspec import Struct

from raftsched.output.format.redaction import redact_text
from raftsched.run import Teller, Word
from raftsched.worker.executors.functions import Refused
from raftsched.worker.executors.raised import described, error_of
from raftsched.worker.executors.returned import NotRun
from raftsched.worker.processes import wire
from raftsched.worker.processes.limits import blamed

_LAST_WORDS = 300  # characters of a traceback that say what it came to
_EXIT_AT_IMPORT = "the module of the function ended the process when it was imported, and nothing was called"


class Ending(Struct):
    """The end of a run. `flags`: what wire says of a process after it."""

    outcome: int = wire.SUCCEEDED
    exit_code: int | None = None
    error: str | None = None
    result: bytes | None = None
    flags: int = 0
    verdict: int = 0
    delay_ms: int | None = None

    def finished(self, token: int, started_at_ms: int, now_ms: int, teller: Teller) -> wire.Finished:
        """Returns it as the supervisor is told of it, with the last that the run said of itself."""
        said = None
        if self.verdict or teller.said:
            said = wire.SelfReport(teller.percent, teller.text, teller.kept, self.verdict, self.delay_ms)
        error = None if self.error is None else wire.shorten(self.error)
        ended = max(now_ms, started_at_ms)
        return wire.Finished(token, self.outcome, started_at_ms, ended, self.exit_code, error, self.result, said=said)


class Endings:
    """Knows the process as it was before any function was called in it."""

    def __init__(self) -> None:
        self._builtins = dict(vars(builtins))

    def of(self, exc: BaseException, task: wire.Python, *, called: bool) -> Ending:
        """Returns the end of a run that raised this, and prints what there is to be said of it. `called`: its function
        was; else importing it raised, and the process is half imported and begins anew."""
        dirty = 0 if called else wire.DIRTY
        if isinstance(exc, Refused | NotRun):
            _write_error(f"raftsched: {exc}\n")
            return Ending(wire.FAILED, error=str(exc), flags=wire.DIRTY)
        if isinstance(exc, SystemExit):
            return _exited(exc, task, called=called)
        if isinstance(exc, Word):
            error = redact_text(_reason_of(exc), task.hidden) or None
            return Ending(wire.FAILED, error=error, flags=dirty, verdict=exc.verdict, delay_ms=exc.delay_ms)
        error, sound = self._told(exc, task)
        return Ending(wire.FAILED, error=error, flags=dirty if sound else wire.DIRTY)

    def _told(self, exc: BaseException, task: wire.Python) -> tuple[str, bool]:
        """Prints what a function raised. Returns the error of its run, and whether the process is fit for another."""
        try:
            text = redact_text(described(exc), task.hidden) or ""  # before it is cut: a piece would not be found
            error = error_of(exc, task.hidden, blamed(task.limits, None, text.rstrip()[-_LAST_WORDS:]))
            sound = True
        except BaseException as failed:  # something that the interpreter needs was replaced in this process
            error, sound = f"{type(exc).__name__}: <cannot be described: {type(failed).__name__}>", False
            text = f"{error}\n"
        return error, _write_error(text) and sound and vars(builtins) == self._builtins


def _exited(exc: SystemExit, task: wire.Python, *, called: bool) -> Ending:
    exit_code, said = _exit_of(exc)
    if said is not None:
        _write_error(f"{said}\n")
    last = redact_text(said or "", task.hidden) or ""
    if not called:
        what = f"{_EXIT_AT_IMPORT}: exit code {exit_code}"
        return Ending(wire.FAILED, exit_code, wire.failure(what, last), flags=wire.DIRTY)
    if exit_code:
        return Ending(wire.FAILED, exit_code, wire.failure(f"exit code {exit_code}", last))
    return Ending(exit_code=exit_code)


def _exit_of(exc: SystemExit) -> tuple[int, str | None]:
    """The exit code of a process that ends by it, and what it says on stderr (as CPython's handle_system_exit)."""
    code: object = exc.code
    if code is None:
        return 0, None
    if isinstance(code, int):
        return (code & 0xFF if -(1 << 63) <= code < 1 << 63 else 0xFF), None
    try:
        text = str(code)
    except BaseException:  # an object of the function's
        text = f"<{type(code).__name__} object, str() failed>"
    return 1, text.encode("utf-8", "backslashreplace").decode()


def _reason_of(exc: Word) -> str:
    try:
        return str(exc)
    except BaseException:  # of a subclass of the function's own
        return ""


def _write_error(text: str) -> bool:
    """Returns False where stderr, which is the job's, did not take it."""
    try:
        sys.stderr.write(text)
    except BaseException:
        return False
    return True
