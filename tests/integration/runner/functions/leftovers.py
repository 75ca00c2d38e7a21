"""Functions that leave their process other than they found it, and one that looks at it."""

import asyncio
import atexit
import contextvars
import ctypes
import decimal
import faulthandler
import fcntl
import gc
import io
import locale
import os
import random
import signal
import socket
import sys
import tempfile
import threading
import time

import helping

libc = ctypes.CDLL(None)
kept = []
variable = contextvars.ContextVar("variable", default="none")


def look():
    """What a run sees of its process."""
    return {
        "cwd": os.getcwd(),
        "environ": dict(os.environ),
        "getenv": [ctypes.string_at(libc_getenv(name) or b"").decode() for name in (b"TZ", b"LEFT")],
        "zone": [time.strftime("%Z %z", time.localtime(0)), *time.tzname, time.timezone],
        "streams": [sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__, sys.stdin.read()],
        "stdout": [sys.stdout.encoding, sys.stdout.errors, sys.stdout.line_buffering],
        "path": list(sys.path),
        "argv": list(sys.argv),
        "recursion": sys.getrecursionlimit(),
        "timeout": socket.getdefaulttimeout(),
        "prec": decimal.getcontext().prec,
        "locale": locale.setlocale(locale.LC_ALL, None),
        "garbage": [gc.isenabled(), gc.get_threshold(), gc.get_debug()],
        "hook": [sys.excepthook is sys.__excepthook__, sys.breakpointhook is sys.__breakpointhook__],
        "generators": list(sys.get_asyncgen_hooks()),
        "origins": sys.get_coroutine_origin_tracking_depth(),
        "digits": sys.get_int_max_str_digits(),
        "switch": sys.getswitchinterval(),
        "traced": sys.gettrace() is not None,
        "umask": _umask(),
        "variable": variable.get(),
        "loop": _has_loop(),
    }


def libc_getenv(name):
    libc.getenv.restype = ctypes.c_void_p
    return libc.getenv(name)


def _umask():
    was = os.umask(0)
    os.umask(was)
    return was


def _has_loop():
    """As old code gets one."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            loop = asyncio.get_event_loop_policy().get_event_loop()
        except RuntimeError:
            return False
    loop.close()
    asyncio.set_event_loop(None)
    return True


def changes(what):
    """What is put back before the next run."""
    if what == "directory that is gone":
        with tempfile.TemporaryDirectory() as there:
            os.chdir(there)
    elif what == "zone":
        os.environ["TZ"] = "Asia/Tokyo"
        time.tzset()
    elif what == "zone, taken back":
        os.environ["TZ"] = "Asia/Tokyo"
        time.tzset()
        del os.environ["TZ"]
    elif what == "zone past the environment":
        os.putenv("TZ", "Asia/Tokyo")
        time.tzset()
    elif what == "environ":
        os.environ = {"LEFT": "1"}  # noqa: B003
        os.environb[b"LEFT"] = b"1"
    elif what == "stdout":
        sys.stdout = io.StringIO()
    elif what == "stderr":
        sys.stderr = sys.__stderr__ = io.StringIO()
    elif what == "stdout wrapped":
        sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="latin-1")
    elif what == "stdout other":
        sys.stdout.reconfigure(encoding="latin-1", errors="strict", line_buffering=False)
    elif what == "stdin":
        sys.stdin.close()
    elif what == "path":
        sys.path.insert(0, "/elsewhere")
        sys.argv.append("--more")
    elif what == "recursion":
        sys.setrecursionlimit(60)
    elif what == "digits":
        sys.set_int_max_str_digits(0)
        sys.setswitchinterval(2.0)
    elif what == "timeout":
        socket.setdefaulttimeout(0.001)
    elif what == "decimal":
        decimal.getcontext().prec = 3
    elif what == "locale":
        locale.setlocale(locale.LC_ALL, "C")
    elif what == "garbage":
        gc.disable()
        gc.set_threshold(7)
        gc.set_debug(gc.DEBUG_SAVEALL)
    elif what == "hooks":
        sys.excepthook = sys.breakpointhook = print
        sys.set_asyncgen_hooks(print, print)
        sys.set_coroutine_origin_tracking_depth(9)
        sys.settrace(lambda *about: None)
    elif what == "umask":
        os.umask(0o137)
    elif what == "variable":
        variable.set("left")
    elif what == "loop":
        asyncio.run(asyncio.sleep(0))
    return os.getpid()


def leaves(what, path=""):
    """What cannot be put back."""
    if what == "posix timer":
        timer = ctypes.c_void_p()
        libc.timer_create(0, None, ctypes.byref(timer))
        libc.timer_settime(timer, 0, (ctypes.c_long * 4)(0, 0, 1000, 0), None)
    elif what == "watchdog":
        faulthandler.dump_traceback_later(1000, exit=True)
    elif what == "handler in C":
        faulthandler.register(signal.SIGUSR1)
    elif what == "mask":
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN + 2])
    elif what == "descriptor":
        kept.append(os.open(os.devnull, os.O_RDONLY))
    elif what == "socket":
        listening = socket.create_server(("127.0.0.1", 0))
        kept.append(listening)
    elif what == "lock":
        kept.append(os.open(path, os.O_WRONLY | os.O_CREAT))
        fcntl.flock(kept[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    elif what == "stdin":
        os.dup2(os.open("/dev/zero", os.O_RDONLY), 0)
    elif what == "no subreaper":
        libc.prctl(36, 0, 0, 0, 0)
    elif what == "niceness":
        os.nice(1)
    elif what == "processors":
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    elif what == "thread":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    elif what == "memory":
        kept.append(b"x" * (64 << 20))
    return os.getpid()


def ties_a_knot():
    """Descriptors that only the garbage collector closes are not left behind."""
    knot = [open(os.devnull)]  # noqa: SIM115
    knot.append(knot)
    return os.getpid()


def waits_for_its_threads():
    for _ in range(20):
        thread = threading.Thread(target=time.sleep, args=(0,))
        thread.start()
        thread.join()
    return os.getpid()


def prints_in_c(text):
    libc.printf(b"%s", text.encode())


def prints(text):
    print(text)


def seeds():
    random.seed(1)
    return random.random()


def draws():
    return random.random()


def zone():
    return time.localtime(0).tm_hour


def exits(what):
    class Silent:
        def __str__(self):
            raise RuntimeError("no words")

    given = {"object": Silent(), "surrogate": "bad \udcff name", "long": "x" * 100_000, "huge": 10**30}
    sys.exit(given.get(what, what))


def closes_descriptors():
    print("said before")
    sys.stdout.flush()
    os.closerange(3, 4096)
    return "done"


def odd_number():
    class Odd(decimal.Decimal):
        def __str__(self):
            raise KeyError("no words")

    return Odd(1)


def raises_what_cannot_be_shown():
    class Hidden(Exception):
        def __str__(self):
            raise SystemExit(3)

    raise Hidden


def helped():
    return helping.VALUE, os.getpid()


def says_at_exit():
    atexit.register(print, "at exit")
    return os.getpid()


def keeps(what: str, path: str, port: int = 0, count: int = 1) -> int:
    """Opens descriptors which stay open with the module, and goes on with those that are there."""
    if what == "file":
        kept.extend(os.open(path, os.O_WRONLY | os.O_CREAT) for _ in range(count))
    elif what == "connection":
        kept.append(socket.create_connection(("127.0.0.1", port)))
    elif what == "then locks it":
        fcntl.flock(kept[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    elif what == "then a lock in its place":
        os.close(kept.pop())
        kept.append(os.open(path, os.O_WRONLY | os.O_CREAT))
        fcntl.flock(kept[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    elif what == "then fails":
        raise ValueError("on purpose")
    return os.getpid()
