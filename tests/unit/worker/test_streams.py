"""The streams of python runs, and the settings of the interpreter, are as they were for the next one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.patience import patient

STREAMS = """
import sys
from raftsched.worker.executors.interpreter import Streams
streams = Streams()
streams.put_back()
first = sys.stdout
print("one")
streams.put_back()
assert sys.stdout is first
sys.stdout.reconfigure({change})
print("two")
streams.flush()
streams.put_back()
print("three")
streams.flush()
"""

VALUES = """
import gc, sys
from raftsched.worker.executors.interpreter import Values
usual = Values()
{change}
assert Values() != usual
usual.put_back()
assert Values() == usual
"""


def _python(source: str) -> bytes:
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, check=False, timeout=patient(30))
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


@pytest.mark.parametrize(
    ("change", "two"), [('newline="\\r\\n"', b"two\r\n"), ('encoding="utf-16-le"', "two\n".encode("utf-16-le"))]
)
def test_how_a_run_writes_lines_is_its_own(change: str, two: bytes) -> None:
    assert _python(STREAMS.format(change=change)) == b"one\n" + two + b"three\n"


@pytest.mark.parametrize(
    "change",
    [
        "sys.set_int_max_str_digits(0)",
        "sys.setswitchinterval(2.0)",
        "sys.set_asyncgen_hooks(print, print)",
        "sys.set_coroutine_origin_tracking_depth(9)",
        "sys.breakpointhook = print",
        "gc.set_debug(gc.DEBUG_SAVEALL)",
    ],
)
def test_settings_of_a_run_are_put_back(change: str) -> None:
    _python(VALUES.format(change=change))
