"""Functions that the runner tests call."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time


def echo(**params):
    return params


def stay(fifo):
    fd = os.open(fifo, os.O_WRONLY)
    os.write(fd, b"%d\n" % os.getpid())
    os.close(fd)
    while True:
        signal.pause()


def stubborn(fifo):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    stay(fifo)


def prints(out="", err="", below=False):
    print(out)
    print(err, file=sys.stderr)
    if below:
        os.write(1, b"by descriptor\n")
        subprocess.run(["/bin/echo", "by a child"], check=True)


def fails():
    raise ValueError("the reason")


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


def where():
    return os.getcwd()


def large(size):
    return "x" * size


def not_json():
    return object()


async def later(value):
    await asyncio.sleep(0)
    return value


number = 5
