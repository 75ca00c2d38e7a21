"""A service: a process that stays and runs attempts as they come, in the care of a keeper of its own.

The supervisor talks to the service itself, so that a short run costs two packets; the keeper only watches. It reads
what runs print, and a page shared with the service tells whether a run printed anything: only then the supervisor has
to ask the keeper for it before the next run.
"""

from __future__ import annotations

import gc
import mmap
import os
import signal
import socket
import struct
import traceback
from collections.abc import Callable

import msgspec

from raftsched.worker import cgroup, wire
from raftsched.worker.keeper import CannotStart, Surroundings, Tree
from raftsched.worker.processes import close_all_but, die_with_parent

PACKET_HEAD = struct.Struct("<QB")  # token, what to do with it; for OP_RUN the encoded task follows
OP_RUN, OP_KILL, OP_TIMEOUT = 1, 2, 3


HIDDEN_MAX = 64 * 1024  # bytes; the values of one run take half of it at most
ANSWER_MAX = 64 * 1024  # bytes; a result and an error take a sixth of it

_encode_hidden = msgspec.msgpack.Encoder().encode
_hidden_decoder = msgspec.msgpack.Decoder(tuple[str, ...])


def _decode_hidden(raw: bytes) -> tuple[str, ...]:
    return _hidden_decoder.decode(raw) if raw else ()


class Shared:
    """Some words that keeper and service share, and what the keeper has to hide."""

    def __init__(self) -> None:
        self._words = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("Q")
        self._hidden = mmap.mmap(-1, HIDDEN_MAX)
        self._answer = mmap.mmap(-1, ANSWER_MAX)

    @property
    def reads(self) -> int:
        """How often the keeper began to read output; raised before it reads."""
        value: int = self._words[0]
        return value

    def count_read(self) -> None:
        self._words[0] += 1

    @property
    def token(self) -> int:
        """The attempt that runs now."""
        value: int = self._words[1]
        return value

    @token.setter
    def token(self, value: int) -> None:
        self._words[1] = value

    @property
    def hidden_version(self) -> int:
        """Another one when there are other values to hide."""
        value: int = self._words[2]
        return value

    @property
    def hidden(self) -> tuple[str, ...]:
        """What the keeper must not show of what the attempt prints."""
        return _decode_hidden(self._hidden[: self._words[3]])

    @property
    def answer(self) -> bytes:
        """The last one, of a service that could not send it any more; empty: there is none."""
        return self._answer[: self._words[4]]

    @answer.setter
    def answer(self, packet: bytes) -> None:
        self._answer[: len(packet)] = packet
        self._words[4] = len(packet)

    def hide(self, values: tuple[str, ...]) -> None:
        """Before the attempt prints anything."""
        if values or self._words[3]:
            raw = _encode_hidden(values) if values else b""
            self._hidden[: len(raw)] = raw
            self._words[3] = len(raw)
            self._words[2] += 1


def keep_service(
    around: Surroundings,
    control: socket.socket,
    work: socket.socket,
    session: int,
    serve: Callable[[socket.socket, Shared], None],
) -> None:
    """The whole life of the keeper of a service. `work` is the service's end of its socket."""
    tree = Tree(around, control, session)
    shared = Shared()

    def spawn(out: int, err: int) -> int:
        keeper = os.getpid()
        pid = os.fork()
        if pid == 0:
            _become_service(keeper, out, err, work, shared, serve)
        return pid

    def collected() -> wire.Collected:
        tail = tree.capture.tail()
        frames, spooled, truncated = tree.capture.finish(shared.token)
        return wire.Collected(frames, spooled, truncated, tail)

    def send(message: wire.Collected | wire.Gone) -> None:
        try:
            control.send(wire.encode(message))
        except OSError:
            pass

    hides = 0  # the version that it knows

    def learn() -> None:
        """Before anything is read: what is there to be read was printed after it was said."""
        nonlocal hides
        if hides != shared.hidden_version:
            hides = shared.hidden_version
            tree.capture.hide(shared.hidden)

    def before_read() -> None:
        shared.count_read()
        learn()

    def kill_first() -> None:
        learn()  # the rest is read now
        cgroup.kill(cgroup.of_run(around.cgroups, shared.token))

    def collect() -> None:
        learn()
        tree.drain()
        send(collected())

    try:
        tree.start(spawn)
    except CannotStart as exc:
        send(wire.Gone(1, tree.lost, collected(), not_begun=str(exc)))
        return
    finally:
        work.close()
    # Of all runs of a service at most its last one has a group: it ends with a run that has limits.
    tree.kill_first = kill_first
    tree.watch(lambda now: None, lambda: shared.token, before_read, collect)
    killed_for_memory = cgroup.leave(cgroup.of_run(around.cgroups, shared.token))
    code = tree.exit_code
    for_node = tree.asked is None and (code != 0 or tree.cut) and tree.for_node
    gone = wire.Gone(code, tree.lost, collected(), tree.used_cpu_s, killed_for_memory, "", shared.answer, for_node)
    send(gone)


def _become_service(
    keeper: int,
    out: int,
    err: int,
    work: socket.socket,
    shared: Shared,
    serve: Callable[[socket.socket, Shared], None],
) -> None:
    """Never returns. What is the service's own dies with its keeper even if somebody kills that one."""
    code = 1
    try:
        die_with_parent()
        if os.getppid() != keeper:
            os._exit(1)
        os.setsid()
        os.dup2(out, 1)
        os.dup2(err, 2)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        close_all_but((0, 1, 2, work.fileno()))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        gc.enable()
        serve(work, shared)
        code = 0
    except SystemExit:
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
