"""The step from the node's user to the one that a run is of, which cannot be taken back: credentials(7),
capabilities(7), prctl(2).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import msgspec

from raftsched.worker.processes.linux import change_process, last_error

_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_CAPABILITY_V3 = 0x20080522
# Numbers of setgroups, setresgid, setresuid (syscalls(2)): the C library's functions are for all threads at once.
_GENERIC = (159, 149, 147)
_THREAD_CALLS = {"x86_64": (116, 119, 117), "aarch64": _GENERIC, "riscv64": _GENERIC}
_libc = ctypes.CDLL(None, use_errno=True)


class User(msgspec.Struct, array_like=True, frozen=True):
    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str

    def variables(self) -> dict[str, str]:
        """Returns the variables that a login sets in the environment (environ(7))."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "SHELL": self.shell}


def gain_nothing(*, allow_new_privileges: bool) -> None:
    """Takes rights from the process above all runs: programs that are started below it get no more rights than whoever
    starts them (no_new_privs), and none of the node's capabilities."""
    if not allow_new_privileges:
        change_process(_PR_SET_NO_NEW_PRIVS, 1)
    with suppress(OSError):  # before Linux 4.3 there were none
        change_process(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)


def become(user: User | None) -> None:
    """This process is the user's from here on, and has no capability; None: its own user's. Raises OSError."""
    if user is not None:
        os.setgroups(user.groups)
        os.setresgid(user.gid, user.gid, user.gid)
        os.setresuid(user.uid, user.uid, user.uid)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it would hold the secrets of the run
    if os.geteuid() != 0:
        _drop_capabilities()


@contextmanager
def thread_as(user: User | None) -> Iterator[None]:
    """The thread that enters it, and no other, finds the files that this user finds, with none of the node's
    capabilities; None: as it is. Raises OSError."""
    if user is None:
        yield
        return
    calls = _THREAD_CALLS.get(platform.machine())
    if calls is None:
        raise OSError(errno.ENOSYS, "one thread cannot be another user's on this machine")
    setgroups, setresgid, setresuid = calls
    own_groups, own_uid, own_gid = os.getgroups(), os.geteuid(), os.getegid()
    try:
        _call(setgroups, len(user.groups), _ids(user.groups))
        _call(setresgid, -1, user.gid, -1)
        _call(setresuid, -1, user.uid, -1)  # the last one: it takes the right to do the others
        yield
    finally:
        _call(setresuid, -1, own_uid, -1)  # the saved one is still the node's
        _call(setresgid, -1, own_gid, -1)
        _call(setgroups, len(own_groups), _ids(own_groups))


def _ids(ids: Sequence[int]) -> ctypes.Array[ctypes.c_uint32]:
    return (ctypes.c_uint32 * len(ids))(*ids)


def _call(number: int, *arguments: object) -> None:
    if _libc.syscall(number, *arguments) != 0:
        raise last_error(f"syscall {number}")


def _drop_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_V3, 0)
    if _libc.capset(header, (ctypes.c_uint32 * 6)()) != 0:
        raise last_error("capset")


def dress(environment: dict[str, str], user: User) -> None:
    """Makes an environment that of the user: the node's own home and directories for temporary files are not."""
    environment.pop("TMPDIR", None)
    environment.update(user.variables())


def enter_home(user: User) -> None:
    """Leaves a working directory that the user has no way into, for its home or else the root."""
    if os.access(".", os.X_OK):
        return
    for place in (user.home, "/"):
        with suppress(OSError):
            os.chdir(place)
            return
