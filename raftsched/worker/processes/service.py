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
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from raftsched.bounds import OUTPUT_MAX
from raftsched.worker.processes import cgroup, wire
from raftsched.worker.processes.lease import SharedWords
from raftsched.worker.processes.limits import confine, enter_group
from raftsched.worker.processes.linux import close_all_but, die_with_parent, give_way, raise_oom_score
from raftsched.worker.processes.options import Options
from raftsched.worker.processes.pages import Page, RunsPage
from raftsched.worker.processes.run_outputs import RunOutputs
from raftsched.worker.processes.tree import CannotStart, KeeperContext, Tree
from raftsched.worker.processes.users import User, become, dress, enter_home

PACKET_HEAD = struct.Struct("<QB")  # token, what to do with it; for OP_RUN the encoded task follows
OP_RUN, OP_KILL, OP_TIMEOUT = 1, 2, 3


HIDDEN_MAX = 64 * 1024  # bytes; the values of one run take half of it at most
ANSWER_MAX = 64 * 1024  # bytes; a result and an error take a sixth of it

_encode_hidden = msgspec.msgpack.Encoder().encode
_hidden_decoder = msgspec.msgpack.Decoder(tuple[str, ...])


def _decode_hidden(raw: bytes) -> tuple[str, ...]:
    return _hidden_decoder.decode(raw) if raw else ()


@dataclass(frozen=True, slots=True)
class Confines:
    """The confines of a service beside those of all runs. They hold from its first moment on: it could not enter them
    later."""

    user: User | None = None  # None: the node's own
    group: str | None = None  # a cgroup
    memory: int | None = None  # bytes
    oom_score: int | None = None
    nice: int = 0  # beyond the node


class Shared(SharedWords):
    """Some words that keeper and service share, and what the keeper has to hide."""

    def __init__(self) -> None:
        super().__init__()
        self.outputs_fd = -1  # where a service that takes several runs at a time writes what they print
        self._hidden = mmap.mmap(-1, HIDDEN_MAX)
        self._answer = mmap.mmap(-1, ANSWER_MAX)

    @property
    def reads(self) -> int:
        """The number of times that the keeper began to read output; raised before it reads."""
        return self._words[0]

    def count_read(self) -> None:
        self._words[0] += 1

    @property
    def hidden_version(self) -> int:
        """Another one when there are other values to hide."""
        return self._words[1]

    @property
    def hidden(self) -> tuple[str, ...]:
        """The values that the keeper must not show of what the attempt prints."""
        return _decode_hidden(self._hidden[: self._words[2]])

    @property
    def answer(self) -> bytes:
        """The last one, of a service that could not send it any more; empty: there is none."""
        return self._answer[: self._words[3]]

    @answer.setter
    def answer(self, packet: bytes) -> None:
        self._answer[: len(packet)] = packet
        self._words[3] = len(packet)

    def hide(self, values: tuple[str, ...]) -> None:
        """Writes down values to be hidden, before the attempt prints anything."""
        if values or self._words[2]:
            raw = _encode_hidden(values) if values else b""
            self._hidden[: len(raw)] = raw
            self._words[2] = len(raw)
            self._words[1] += 1


def keep_service(
    context: KeeperContext,
    control: socket.socket,
    work: socket.socket,
    session: int,
    serve: Callable[[socket.socket, Shared], None],
    page: Page | RunsPage,
    confines: Callable[[], Confines] = Confines,
) -> None:
    """The whole life of the keeper of a service. `work` is the service's end of its socket."""
    tree = Tree(context, control, session)
    shared = Shared()
    confined = confines()
    outputs: RunOutputs | None = None
    if isinstance(page, RunsPage):
        outputs = tree.lines = RunOutputs(page, context.live_directory)
        tree.capture = outputs.unclaimed
    page.keep_from_children()
    context.lease.keep_from_children()

    def spawn(out: int, err: int, says: int) -> int:
        keeper = os.getpid()
        shared.outputs_fd = says
        pid = os.fork()
        if pid == 0:
            _become_service(keeper, out, err, work, shared, serve, confined, context.options)
        return pid

    def collected() -> wire.Collected:
        if outputs is not None or not isinstance(page, Page):
            return wire.Collected(b"", False, 0, "" if outputs is None else outputs.last_words())
        tail = tree.capture.tail()
        return wire.Collected(*tree.capture.finish(page.token), tail)

    def send(message: wire.Collected | wire.ServiceExited) -> None:
        with suppress(OSError):
            control.send(wire.encode(message))

    hides = 0  # the version that it knows

    def learn() -> None:
        """Takes over what the page says, before anything is read: what is there to be read was printed after it was
        said."""
        nonlocal hides
        if not isinstance(page, Page):
            return  # what its runs print says it by itself
        tree.capture.keep(page.output_max or OUTPUT_MAX)
        if hides != shared.hidden_version:
            hides = shared.hidden_version
            tree.capture.hide(shared.hidden)

    def before_read() -> None:
        shared.count_read()
        learn()

    def kill_first() -> None:
        learn()  # the rest is read now
        cgroup.kill(confined.group)

    def collect(tokens: bytes) -> None:
        if outputs is not None:
            tree.read_said()
            for at in range(0, len(tokens), 8):
                send(outputs.finish(int.from_bytes(tokens[at : at + 8], "little")))
            return
        learn()
        tree.drain()
        send(collected())

    def timers(now: int) -> int | None:
        return None if outputs is None else outputs.flush(now)

    try:
        tree.start(spawn)
    except CannotStart as exc:
        cgroup.leave(confined.group)
        send(wire.ServiceExited(1, tree.lost, collected(), not_begun=str(exc)))
        return
    finally:
        work.close()
    tree.kill_first = kill_first
    tree.watch(timers, lambda: page.token if isinstance(page, Page) else 0, before_read, collect)
    killed_for_memory = cgroup.leave(confined.group)
    code = tree.exit_code
    for one in outputs.rest() if outputs is not None else ():
        send(one)
    for_node = tree.asked is None and (code != 0 or tree.cut) and tree.for_node
    exited = wire.ServiceExited(
        code, tree.lost, collected(), tree.used_cpu_s, killed_for_memory, "", shared.answer, for_node
    )
    send(exited)


def _become_service(
    keeper: int,
    out: int,
    err: int,
    work: socket.socket,
    shared: Shared,
    serve: Callable[[socket.socket, Shared], None],
    confined: Confines,
    options: Options,
) -> None:
    """Never returns. What is the service's own dies with its keeper even if somebody kills that one."""
    code = 1
    try:
        os.setsid()
        os.dup2(out, 1)
        os.dup2(err, 2)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        close_all_but({0, 1, 2, work.fileno(), *([] if shared.outputs_fd < 0 else [shared.outputs_fd])})
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        _confine(confined, options.pids_max)
        die_with_parent()  # only now: a change of the user takes it back (prctl(2), PR_SET_PDEATHSIG)
        if os.getppid() != keeper:
            os._exit(1)
        gc.enable()
        serve(work, shared)
        code = 0
    except SystemExit:
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _confine(confined: Confines, pids_max: int) -> None:
    """Confines the service, in it. Raises OSError."""
    user, memory = confined.user, confined.memory
    give_way(confined.nice)
    if confined.oom_score is not None:
        raise_oom_score(confined.oom_score)  # before the user changes: the file is the node's then
    enter_group(confined.group, memory, pids_max, own_user=user is None)
    if user is not None:
        environment = dict(os.environ)
        dress(environment, user)
        os.environ.clear()
        os.environ.update(environment)
    become(user)
    if user is not None:
        enter_home(user)
    if memory is not None:
        confine(wire.Limits(memory))
