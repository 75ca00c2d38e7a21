"""Functions that the runner tests call."""

import asyncio
import builtins
import os
import resource
import signal
import subprocess
import sys
import threading
import time

import raftsched


def echo(**params):
    return params


def stay(fifo):
    fd = os.open(fifo, os.O_WRONLY)
    os.write(fd, b"%d\n" % os.getpid())
    os.close(fd)
    while True:
        signal.pause()


def leaves(fifo):
    """A child tells its pid: this process itself goes with its keeper."""
    if os.fork() == 0:
        stay(fifo)
    signal.pause()


def naps(seconds):
    time.sleep(seconds)


def stubborn(fifo):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    stay(fifo)


def scatters(fifo):
    """This process, a child in a session of its own, and an orphan without a descriptor."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 256)
        stay(fifo)
    stay(fifo)


def prints(out="", err="", below=False):
    print(out)
    print(err, file=sys.stderr)
    if below:
        os.write(1, b"by descriptor\n")
        subprocess.run(["/bin/echo", "by a child"], check=True)


def fails():
    raise ValueError("the reason")


def fails_at_length(size):
    raise RuntimeError("A" * size)


def counts():
    print("never printed")
    yield 1


async def counts_later():
    yield 1


def returns_work():
    return (print(x) for x in "never printed")


async def forgets_to_wait():
    return later(1)


def not_a_number():
    return {"x": float("nan"), "pid": os.getpid()}


def patches(what):
    """Replaces a function of the interpreter's by one that does another thing."""
    setattr(builtins, what, lambda *given, **more: 7)
    return os.getpid()


def exits(code):
    sys.exit(code)


def dies(code):
    os._exit(code)


def crashes():
    os.kill(os.getpid(), signal.SIGSEGV)


def leaves_a_process(fifo):
    script = "echo $$ > $1; while :; do sleep 1000; done"
    subprocess.Popen(["/bin/sh", "-c", script, "sh", fifo], start_new_session=True)
    return os.getpid()


def leaves_a_thread():
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    return os.getpid()


def forks_and_returns():
    if os.fork():
        return "parent"
    return "child"


def closes_its_output():
    os.close(1)
    os.close(2)
    return os.getpid()


def pid():
    return os.getpid()


def env(*names, **params):
    return {name: os.environ.get(name) for name in params["names"]}


def oom_score():
    with open("/proc/self/oom_score_adj") as file:
        return int(file.read())


def whole_env():
    return dict(os.environ)


def changes_env(takes, gives):
    for name in takes:
        del os.environ[name]
    os.environ.update(gives)


def changes_process(what):
    if what == "handler":
        signal.signal(signal.SIGTERM, lambda number, frame: None)
    elif what == "ignored":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    elif what == "alarm":
        signal.setitimer(signal.ITIMER_REAL, 1000)
    elif what == "limit":
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
    return os.getpid()


def where():
    return os.getcwd()


def large(size):
    return "x" * size


def deep(levels):
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


def not_json():
    return object()


async def later(value):
    await asyncio.sleep(0)
    return value


def takes_memory(mib):
    return len(bytearray(mib << 20))


def is_killed(runs):
    with open(f"{runs}/python-{os.getppid()}/memory.events", "w") as events:
        events.write("oom_kill 1\n")
    os.kill(os.getpid(), signal.SIGKILL)


def spins():
    while True:
        pass


def opens_files():
    kept = []
    while True:
        kept.append(os.dup(0))


def limits():
    return os.getpid(), resource.getrlimit(resource.RLIMIT_CPU), resource.getrlimit(resource.RLIMIT_NOFILE)


number = 5


def length(x):
    return len(x)


def says(word, secret=""):
    if word == "cancel":
        raise raftsched.Cancel("nothing to do")
    if word == "fail":
        raise raftsched.Fail(f"no {secret}")
    raise raftsched.Snooze(word)


def tells(rows):
    before = raftsched.state()
    for row in range(rows):
        raftsched.progress(100 * row // rows, f"row {row}")
    raftsched.save_state({"row": rows})
    return before, raftsched.state()
