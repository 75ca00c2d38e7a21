"""Renders exceptions of jobs' functions: whole for what their runs print, short for their errors."""

from __future__ import annotations

import importlib
import os
import traceback
import types
from collections.abc import Sequence

from raftsched.output.format.redaction import redact_text
from raftsched.worker.processes import wire

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_IMPORTING = (importlib.__file__, "<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")


def described(exc: BaseException) -> str:
    """Returns the exception with its traceback, as the interpreter shows it. Raises anything where a run has changed
    what the interpreter needs for that."""
    return "".join(traceback.format_exception(type(exc), exc, _outside(exc.__traceback__)))


def error_of(exc: BaseException, hidden: Sequence[str], note: str | None = None) -> str:
    """Returns the error of a run that ended by it: the whole traceback where there is room for it, else the exception
    with the beginning of its message, and the innermost frames. `hidden`: not to be shown. `note`: the last line.
    Raises what `described` does."""
    whole = _end(redact_text(described(exc), hidden) or "", note)
    if len(whole.encode("utf-8", "replace")) <= wire.ERROR_MAX:
        return wire.shorten(whole)
    lines = traceback.format_exception_only(type(exc), exc)
    what = next((line for line in lines if not line.startswith(" ")), lines[-1])
    frames = _innermost(traceback.format_tb(_outside(exc.__traceback__)))
    return wire.failure((redact_text(what, hidden) or "").rstrip(), _end(redact_text(frames, hidden) or "", note))


def _end(text: str, note: str | None) -> str:
    return text.rstrip() if note is None else f"{text.rstrip()}\n{note}"


def _innermost(frames: Sequence[str]) -> str:
    """Returns the last frames, in their order, as far as half of an error has room for them."""
    kept, room = "", wire.ERROR_MAX // 2
    for frame in reversed(frames):
        room -= len(frame.encode("utf-8", "replace"))
        if kept and room < 0:
            break
        kept = frame + kept
    return kept


def _outside(trace: types.TracebackType | None) -> types.TracebackType | None:
    """Returns it without the leading frames that are ours and the import machinery's."""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name not in _IMPORTING and not name.startswith(_OURS):
            break
        trace = trace.tb_next
    return trace
