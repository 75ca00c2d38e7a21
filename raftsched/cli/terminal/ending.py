"""Commands that leave nothing behind when they are told to end: what they have in $TMPDIR is the cluster's secrets."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NUMBERS = (signal.SIGTERM, signal.SIGHUP)
_BY_SIGNAL = 128  # and its number: the exit code, as a shell says of what a signal ended


def _end(number: int, frame: FrameType | None) -> None:
    for one in _NUMBERS:
        signal.signal(one, signal.SIG_IGN)  # another one must not break the cleaning off
    sys.exit(_BY_SIGNAL + number)


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Makes SIGTERM and SIGHUP end what is under way as Ctrl-C does, with all `finally` and `with` on the way."""
    if threading.current_thread() is not threading.main_thread():  # Python lets no other one set handlers
        yield
        return
    before = {number: signal.getsignal(number) for number in _NUMBERS}
    try:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:  # as nohup wants it
                signal.signal(number, _end)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
