"""Functions that need no module which a process for python has not loaded: its user may have no way to others."""

import os
import signal


def who():
    return os.getuid()


def stay(fifo):
    fd = os.open(fifo, os.O_WRONLY)
    os.write(fd, b"%d\n" % os.getpid())
    os.close(fd)
    while True:
        signal.pause()
