"""What a keeper says when nothing could be started: whose fault it is, and whether anything of the run was at work."""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from raftsched.output.format.spool import STDOUT
from raftsched.system.clock import SystemClock
from raftsched.worker.processes import tree as trees
from raftsched.worker.processes import wire
from raftsched.worker.processes.keeper import keep_attempt
from raftsched.worker.processes.lease import LeaseSlot
from raftsched.worker.processes.linux import become_subreaper, term_tree
from raftsched.worker.processes.options import Options
from raftsched.worker.processes.service import Confines, Shared, _become_service
from raftsched.worker.processes.tree import CannotStart, KeeperContext, Tree
from tests.support.patience import patient

OPTIONS = Options(python_runs_max=1, python_memory_max=1, pids_max=1, nice=0)
LAUNCH = wire.Launch(7, 1, "exec", 60_000, 1_000, b"")


@pytest.fixture
def context(tmp_path: Path) -> Iterator[KeeperContext]:
    slot, slot_fd = LeaseSlot.create()
    slot.store(1, SystemClock().boot_ms() + 60_000)
    life, life_end = os.pipe()
    yield KeeperContext(slot, life, life, str(tmp_path), OPTIONS)
    for fd in (slot_fd, life, life_end):
        os.close(fd)
    slot.close()


def end_of(context: KeeperContext, number: int) -> wire.Finished:
    """What is told of an attempt whose spawn fails with this error."""

    def spawn(out: int, err: int, says: int) -> int:
        raise OSError(number, os.strerror(number))

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        keep_attempt(context, theirs, LAUNCH, spawn)
        packet = wire.receive(ours)
    assert packet
    assert packet[:1] == wire.END
    done = wire.decode_up(packet[1:])
    assert isinstance(done, wire.Finished)
    return done


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC])
def test_want_of_something_is_the_node_s(context: KeeperContext, number: int) -> None:
    end = end_of(context, number)
    assert (end.token, end.outcome, end.begun, end.started_at_ms) == (7, wire.KILLED, False, None)
    assert end.error == f"this node cannot start a process: {os.strerror(number)}"


def test_anything_else_is_the_run_s(context: KeeperContext) -> None:
    end = end_of(context, errno.EACCES)
    assert (end.outcome, end.begun) == (wire.FAILED, True)


def test_what_is_only_forked_does_not_seem_to_handle_sigterm(context: KeeperContext) -> None:
    """And what is sent meanwhile is not lost."""
    seen: list[bool] = []
    before = signal.getsignal(signal.SIGTERM)

    def spawn(out: int, err: int, says: int) -> int:
        seen.append(signal.getsignal(signal.SIGTERM) == before)
        os.kill(os.getpid(), signal.SIGTERM)
        seen.append(signal.SIGTERM in signal.sigpending())
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        tree = Tree(context, theirs, LAUNCH.session)
        with pytest.raises(CannotStart):
            tree.start(spawn)
    assert seen == [True, True]
    assert tree._term_came
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_a_service_is_reached_by_sigterm() -> None:
    """It was forked with the signal blocked."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def serve(work: socket.socket, shared: Shared) -> None:
        work.send(repr(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []))).encode())

    with ours:
        with theirs:
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
            shared, keeper = Shared(), os.getpid()
            pid = os.fork()
            if pid == 0:
                _become_service(keeper, 1, 2, theirs, shared, serve, Confines(), OPTIONS)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        ours.settimeout(patient(20))
        assert ours.recv(1_000) == b"[]"
        os.waitpid(pid, 0)


def _in_a_tree(program: str, if_caught: bool) -> tuple[bool, int]:
    """Starts the shell program below a process of its own that ends its tree. Returns whether it sent SIGTERM, and the
    program's exit code."""
    told, tells = os.pipe()
    pid = os.fork()
    if pid == 0:
        main = 0
        try:
            become_subreaper()
            ready, says = os.pipe()
            actions = [(os.POSIX_SPAWN_DUP2, says, 1)]
            main = os.posix_spawn(
                "/bin/sh", ["sh", "-c", program], {"PATH": os.defpath}, file_actions=actions, setpgroup=0
            )
            os.read(ready, 1)  # it has set its handler, if it has one
            sent = term_tree(main, if_caught=if_caught)
            if not sent:
                os.kill(main, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(os.waitpid(main, 0)[1])
            os.write(tells, f"{int(sent)} {code}".encode())
            main = 0
        finally:
            if main:
                os.killpg(main, signal.SIGKILL)
            os._exit(0)
    os.close(tells)
    with os.fdopen(told) as said:
        sent, code = said.read().split()
    os.waitpid(pid, 0)
    return sent == "1", int(code)


@pytest.mark.parametrize(
    ("program", "if_caught", "expected"),
    [
        ("trap 'exit 7' TERM; echo; while :; do sleep 0.01; done", True, (True, 7)),
        ("trap 'exit 7' TERM; echo; while :; do sleep 0.01; done", False, (True, 7)),
        ("echo; exec sleep 60", True, (False, -signal.SIGKILL)),
        ("echo; exec sleep 60", False, (True, -signal.SIGTERM)),
    ],
)
def test_a_tree_is_told_to_end_when_something_in_it_listens(
    program: str, if_caught: bool, expected: tuple[bool, int]
) -> None:
    assert _in_a_tree(program, if_caught) == expected


@pytest.mark.parametrize("comes", [True, False])
def test_sigterm_for_the_whole_node_may_come_later_to_its_keeper(
    context: KeeperContext, monkeypatch: pytest.MonkeyPatch, comes: bool
) -> None:
    """A run that died of it waits for the keeper's own. Only where that comes it was meant for the node."""
    ours, theirs = socket.socketpair()
    tree = Tree(context, theirs, 1)
    tree.status = signal.SIGTERM  # as waitpid(2) says it
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if comes:
            tree._note_term(signal.SIGTERM, None)

    monkeypatch.setattr(trees, "time", SimpleNamespace(sleep=sleep))
    assert tree.for_node is comes
    assert waited == [trees._TERM_LATE_S]
    ours.close()
    theirs.close()


def test_who_goes_on_printing_outside_of_the_tree_does_not_delay_its_end(context: KeeperContext) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.write(write, b"the last word\n")
    taken: list[bytes] = []

    def take(stream: int, data: bytes, now_ms: int) -> None:
        taken.append(data)
        if len(taken) < 10:
            os.write(write, b"more\n")

    with ours, theirs:
        tree = Tree(context, theirs, 1)
        tree._streams = {read: STDOUT}
        tree.capture.write = take  # type: ignore[method-assign]
        tree.drain()
        tree.close()
    os.close(write)
    assert taken == [b"the last word\n"]
