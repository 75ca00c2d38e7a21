"""Starts a thread of no concern to Python, and opens a file, while it is imported."""

import ctypes
import decimal
import os
import sys

held = os.open(os.devnull, os.O_RDONLY)
libc = ctypes.CDLL(None)
thread = ctypes.c_ulong()
wait = ctypes.cast(libc.pause, ctypes.c_void_p)
libc.pthread_create(ctypes.byref(thread), None, wait, None)
decimal.getcontext().prec = 5
sys.setrecursionlimit(2_000)


def pid():
    return os.getpid(), decimal.getcontext().prec, sys.getrecursionlimit()


def spoils():
    decimal.getcontext().prec = 2
    sys.setrecursionlimit(3_000)
    return os.getpid()
