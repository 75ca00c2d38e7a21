"""What is left after a python run, asked in one call and in many: the answers are the same."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path

import pytest

from raftsched.worker import native
from raftsched.worker.executors import remains

FUNCTIONS = Path(__file__).resolve().parents[2] / "integration" / "runner" / "functions"

# In a process for each of what is left: which of the two found something, by what was done.
SCRIPT = """
import json, os, resource, signal, socket, sys, tempfile, time
sys.path.insert(0, sys.argv[1])
import leftovers
from raftsched.worker.executors.remains import Remains
from raftsched.worker.processes.linux import become_subreaper

def alarm(which):
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(which, 1000)

def null_at(fd):
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, fd)
    os.close(null)

def child():
    if os.fork() == 0:
        time.sleep(1000)

MORE = {
    "nothing": lambda: None,
    "print": lambda: print("printed", flush=True),
    "answers": lambda: null_at(work.fileno()),
    "real timer": lambda: alarm(signal.ITIMER_REAL),
    "virtual timer": lambda: alarm(signal.ITIMER_VIRTUAL),
    "profiling timer": lambda: alarm(signal.ITIMER_PROF),
    "limit": lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
    "scheduler": lambda: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)),
    "ignored signal": lambda: signal.signal(signal.SIGUSR2, signal.SIG_IGN),
    "interrupts": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    "wakeup": lambda: signal.set_wakeup_fd(work.fileno(), warn_on_full_buffer=False),
    "child": child,
    "stdout": lambda: null_at(1),
}
answers, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
for what in json.loads(sys.argv[2]):
    if os.fork() == 0:
        os.setpgid(0, 0)
        for fd in (1, 2):
            read, write = os.pipe()
            os.dup2(write, fd)
        work, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        work.setblocking(False)
        become_subreaper()
        short, long = Remains(work.fileno()), Remains(work.fileno())
        long.in_one_call = None
        for one in (long, short):  # each is counted by the other
            one._descriptors = one._open_descriptors()
            one._known = {fd for fd in range(256) if os.path.exists(f"/proc/self/fd/{fd}")}
        before = [one.any(48 << 20, True) for one in (short, long)]
        MORE[what]() if what in MORE else leftovers.leaves(what, os.path.join(tempfile.mkdtemp(), "lock"))
        found, told = [], []
        for one in (short, long):
            if what == "wakeup":
                MORE[what]()  # the first that looks takes it away
            found.append(one.any(48 << 20, True))
            told.append((one.printed, one.can_answer))
        theirs.send(json.dumps([what, before, found, told]).encode())
        os.killpg(0, signal.SIGKILL)
    os.wait()
    print(answers.recv(4096, socket.MSG_DONTWAIT).decode(), flush=True)
"""
LEFT = [
    *("posix timer", "watchdog", "handler in C", "mask", "descriptor", "socket", "lock", "stdin", "no subreaper"),
    *("niceness", "thread", "memory", "real timer", "virtual timer", "profiling timer", "limit", "scheduler"),
    *("ignored signal", "interrupts", "wakeup", "child", "stdout"),
]


@pytest.mark.skipif(native.path("remains.so") is None, reason="it was not built here")
def test_one_call_finds_what_twenty_find() -> None:
    names = ["nothing", "print", "answers", *LEFT]
    argv = [sys.executable, "-c", SCRIPT, str(FUNCTIONS), json.dumps(names)]
    said = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=FUNCTIONS.parents[3])
    lines = [json.loads(line) for line in said.stdout.splitlines()]
    assert [line[0] for line in lines] == names, said.stderr
    for what, before, found, told in lines:
        assert before == [False, False], what
        assert found == [what in LEFT] * 2, what
        assert told == [[what in ("print", "stdout"), what != "answers"]] * 2, what


@pytest.mark.skipif(native.path("remains.so") is None, reason="it was not built here")
def test_a_library_of_another_version_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Larger(ctypes.Structure):
        _fields_ = (("usual", remains._Usual), ("more", ctypes.c_int))

    assert remains._in_one_call() is not None
    monkeypatch.setattr(remains, "_Usual", Larger)
    assert remains._in_one_call() is None
