"""Defines the messages between node, supervisor, keepers and executors.

Between node and supervisor runs a byte stream of messages, each behind its length (4 bytes, little endian); all that
is due goes out in one write. Below the supervisor every message is one packet (SOCK_SEQPACKET). Messages bound for
the node are encoded where they arise and passed on as they are.

`outcome` holds numbers of core.model.Outcome, which the supervisor does not load.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import msgspec

from raftsched.bounds import OUTPUT_MAX

SUCCEEDED, FAILED, TIMED_OUT, KILLED, LOST = 1, 2, 3, 4, 5
SYSTEM = "_system"  # core.subjects.notices.SYSTEM_NAMESPACE, which the supervisor does not load either
NODE_STOPPED = "Its node stopped."  # the error of what is handed back for that

PACKET_MAX = 160 * 1024  # under the default socket buffer
ERROR_MAX = 1024  # bytes of UTF-8
_CUT = " ... "  # in place of what is left out of a line

# ---------------------------------------------------------------- what to run


class Limits(msgspec.Struct, array_like=True, frozen=True):
    """The limits of each process of a run; None: as the node itself has it. See limits.py."""

    memory: int | None = None  # bytes
    cpu_s: int | None = None
    open_files: int | None = None


class Exec(msgspec.Struct, array_like=True, frozen=True, tag="exec"):
    argv: tuple[str, ...]
    env: dict[str, str]  # on top of the base environment
    cwd: str | None = None
    limits: Limits | None = None
    hidden: tuple[str, ...] = ()  # not to be shown in what it prints
    within: tuple[str, ...] | None = None  # `cwd` has to lie in one of these directories, links followed


class Python(msgspec.Struct, array_like=True, frozen=True, tag="python"):
    function: str  # "package.module:function"
    params: bytes  # JSON object: the keyword arguments
    env: dict[str, str]
    cwd: str | None = None
    limits: Limits | None = None
    hidden: tuple[str, ...] = ()
    fresh: bool = False  # a process of its own
    within: tuple[str, ...] | None = None
    allowed: tuple[str, ...] | None = None  # patterns of functions, and of modules that functions are defined in
    concurrency: int = 1  # runs of this function at a time in one process

    @property
    def shares_process(self) -> bool:
        """Returns whether other runs of the function may be in its process: a run that has a directory, limits or a
        process of its own has it for itself."""
        return self.concurrency > 1 and not self.fresh and self.cwd is None and self.limits is None


class Http(msgspec.Struct, array_like=True, frozen=True, tag="http"):
    method: str
    url: str
    headers: dict[str, str]
    body: bytes
    expect: tuple[int, ...]  # statuses; empty: any 2xx
    keep: int = 0  # bytes of the response that are read; 0: as many as are kept of what a run prints
    hidden: tuple[str, ...] = ()


TLS_LATER, TLS_AT_ONCE, TLS_NONE = 1, 2, 3  # numbers of core.subjects.webhook.Tls


class Mail(msgspec.Struct, array_like=True, frozen=True, tag="mail", repr_omit_defaults=True):
    host: str
    port: int
    tls: int
    sender: str
    to: tuple[str, ...]
    message: bytes
    user: str = ""  # empty: without logging in
    password: str = ""
    hidden: tuple[str, ...] = ()


Task = Exec | Python | Http | Mail

# ---------------------------------------------------------------- node -> supervisor


class Launch(msgspec.Struct, array_like=True, frozen=True, tag=1):
    token: int
    session: int
    kind: str  # tag of the task
    timeout_ms: int
    grace_ms: int  # from TERM to KILL
    task: bytes  # an encoded Task
    fresh: bool = False  # of python: a process of its own
    stop_ms: int | None = None  # what it gets at most when its node stops; None: as much as the node gives
    namespace: str = ""  # of its job: processes for python serve one
    user: str = ""  # as whom; "": as the node's own
    memory: int | None = None  # limits.memory of the task
    output_max: int = OUTPUT_MAX  # bytes that are kept of what it prints
    function: str = ""  # of python: with whose runs it may share a process; "": it has one for itself
    concurrency: int = 1  # how many of those there are in a process at a time


class Kill(msgspec.Struct, array_like=True, frozen=True, tag=2):
    token: int
    reason: str


class Fence(msgspec.Struct, array_like=True, frozen=True, tag=3):
    number: int


class Ping(msgspec.Struct, array_like=True, frozen=True, tag=4):
    number: int


class Stop(msgspec.Struct, array_like=True, frozen=True, tag=5):
    pass


class WindDown(msgspec.Struct, array_like=True, frozen=True, tag=6):
    """The node stops: what it was given has so long to come to an end."""

    grace_ms: int


# ---------------------------------------------------------------- supervisor -> node


class Ready(msgspec.Struct, array_like=True, frozen=True, tag=10):
    pid: int


class Started(msgspec.Struct, array_like=True, frozen=True, tag=11):
    token: int
    at_ms: int


class SelfReport(msgspec.Struct, array_like=True, frozen=True):
    """The words of a run about itself, as in core.subjects.self_report, which the supervisor does not load."""

    percent: int | None = None
    text: str | None = None
    kept: bytes | None = None  # JSON
    verdict: int = 0  # at its end: what is to become of it, as in core.model.Verdict; 0: it does not say
    delay_ms: int | None = None  # of a snooze, or as an answer of HTTP asks for


class Finished(msgspec.Struct, array_like=True, frozen=True, tag=12):
    """The end of an attempt; nothing of it is left. Its output is in `frames`, or spooled, or there is none."""

    token: int
    outcome: int
    started_at_ms: int | None
    ended_at_ms: int
    exit_code: int | None = None
    error: str | None = None
    result: bytes | None = None
    frames: bytes = b""
    spooled: bool = False
    truncated: int = 0
    begun: bool = True  # False: the node could not start it, and nothing of it ever ran; the outcome is KILLED then
    alone: bool = False  # LOST for itself, and not because the lease is no longer what it was taken for
    said: SelfReport | None = None  # the last of it


class Fenced(msgspec.Struct, array_like=True, frozen=True, tag=13):
    number: int


class Pong(msgspec.Struct, array_like=True, frozen=True, tag=14):
    number: int


class Progress(msgspec.Struct, array_like=True, frozen=True, tag=15):
    """Reports what a run says while it runs."""

    token: int
    said: SelfReport


# ---------------------------------------------------------------- keeper of a service -> supervisor


class Collected(msgspec.Struct, array_like=True, frozen=True, tag=20):
    """The output of the run that just ended."""

    frames: bytes
    spooled: bool
    truncated: int
    tail: str
    token: int = 0  # of a process that has several; 0: of the only one


class ServiceExited(msgspec.Struct, array_like=True, frozen=True, tag=21):
    """Nothing of the service is left."""

    exit_code: int
    lost: bool  # killed because of the lease, a fence, or a pipe's end
    output: Collected
    used_cpu_s: float = 0.0
    killed_for_memory: bool = False
    not_begun: str = ""  # why the node could not even start it
    answer: bytes = b""  # that it could not send itself
    for_node: bool = False  # ended by what was meant for its node


# One byte in front of what a service answers about a run: 0, or several of
WROTE = 1  # printed something
DIRTY = 2  # left something behind
STALE = 4  # its code is out of date, nothing was run
SAYS = 8  # alone: no answer yet, but a Progress

# From the supervisor to a keeper: one byte, and for kill, timeout and stop the grace period (4 bytes, milliseconds);
# for collect the tokens (8 bytes each), of which the keeper of a single run needs none
CMD_KILL, CMD_TIMEOUT, CMD_STOP, CMD_FENCE, CMD_COLLECT = b"k", b"t", b"s", b"f", b"c"

# One byte in front of what a keeper of runs says to the supervisor, which passes the rest on as it is
NEWS, END, END_AND_STAYS = b"n", b"e", b"s"  # of a run that goes on; its end; its end, and the keeper takes another one

encode = msgspec.msgpack.Encoder().encode
decode_task = msgspec.msgpack.Decoder(Task).decode
decode_down = msgspec.msgpack.Decoder(Launch | Kill | Fence | Ping | Stop | WindDown).decode
decode_up = msgspec.msgpack.Decoder(Ready | Started | Finished | Fenced | Pong | Progress).decode
decode_service = msgspec.msgpack.Decoder(Collected | ServiceExited).decode


def receive(sock: socket.socket) -> bytes | None:
    """A packet; empty when the other side is gone; None when there is none now."""
    while True:
        try:
            return sock.recv(PACKET_MAX, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except ConnectionResetError:
            # The other side went without reading all; said once, and before what it sent itself, which is still there.
            continue


_LENGTH = struct.Struct("<I")


def frame(message: bytes) -> bytes:
    return _LENGTH.pack(len(message)) + message


def framed(packet: bytes | memoryview) -> Iterator[bytes | memoryview]:
    """The messages that travelled in one packet. ValueError for what is no row of frames."""
    at, end = 0, len(packet)
    while at < end:
        if end - at < _LENGTH.size:
            raise ValueError("a frame is cut off")
        (size,) = _LENGTH.unpack_from(packet, at)
        at += _LENGTH.size
        if size > end - at:
            raise ValueError("a frame is cut off")
        yield packet[at : at + size]
        at += size


class Splitter:
    """Puts the messages of a byte stream together again."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The messages that are complete with this data. To be used up before the next call."""
        held = self._held
        held += data
        at = 0
        while len(held) - at >= 4:
            (size,) = _LENGTH.unpack_from(held, at)
            if len(held) - at - 4 < size:
                break
            yield bytes(held[at + 4 : at + 4 + size])
            at += 4 + size
        del held[:at]


def not_begun(token: int, why: str, now_ms: int) -> Finished:
    """The node could not start it: it is handed back, to be run elsewhere or later."""
    return Finished(token, KILLED, None, now_ms, None, shorten(why), begun=False)


def shorten(text: str) -> str:
    """Returns the text; of one of more than ERROR_MAX bytes the beginning, which says what happened, and the end."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= ERROR_MAX:
        return raw.decode("utf-8")
    what, _, rest = text.partition("\n")
    if rest.strip():
        return failure(what, rest)
    half = (ERROR_MAX - len(_CUT)) // 2
    return f"{_begin(raw, half)}{_CUT}{_end(raw, half)}"


def failure(what: str, rest: str) -> str:
    """Returns what happened, and under it as much of the end of the rest as there is room for: at most ERROR_MAX bytes.
    Of what happened the beginning is kept, at least half of them."""
    head, tail = what.encode("utf-8", "replace"), rest.rstrip().encode("utf-8", "replace")
    room = max(ERROR_MAX - len(tail) - 1, ERROR_MAX // 2)
    said = head.decode("utf-8") if len(head) <= room else _begin(head, room - len(_CUT)) + _CUT.rstrip()
    return f"{said}\n{_end(tail, ERROR_MAX - len(said.encode()) - 1)}".rstrip()


def _begin(raw: bytes, size: int) -> str:
    return raw[:size].decode("utf-8", "ignore")


def _end(raw: bytes, size: int) -> str:
    return raw[max(0, len(raw) - size) :].decode("utf-8", "ignore")
