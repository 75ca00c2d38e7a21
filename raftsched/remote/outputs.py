"""The output of runs on remote workers, as the node keeps it that they send it to: a spool file while the run lasts, a
record of a segment from then on, as of the node's own runs.

An offset counts the bytes that both streams printed, as they were sent, with those that were left out; a piece begins
where the node's copy ends. A worker that changes nodes begins again at 0, and the other members are told who has it
now. What a worker says of the place of an output need not be true: a record carries the token of its run, and is read
for no other one (records.checked). That needs no key, and holds for whatever stands in the log.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import msgspec

from raftsched import names
from raftsched.core.model import OutputRef
from raftsched.core.subjects.cluster import Session
from raftsched.core.tables import ReadView, Table, assigned_key
from raftsched.errors import RaftschedError, WrongOffset
from raftsched.output.format.spool import FLUSH_AFTER_MS, INLINE_MAX, NOTE, STDERR, STDOUT, Capture, pack
from raftsched.output.keeping.output_rules import OutputRules
from raftsched.output.keeping.owner_record import OutputOwner, owner_of_run
from raftsched.output.keeping.store import OutputStore, Record
from raftsched.output.keeping.together import Appender, Kept
from raftsched.remote.frames import Piece
from raftsched.remote.session_secrets import session_of
from raftsched.surface.worker_sessions import OUTPUT_INLINE_MAX, OutputPlace, Printed, UploadOut
from raftsched.system import background
from raftsched.system.clock import Clock

HELD_MAX = 256 * 1024 * 1024  # bytes of the last parts of outputs that are in memory, all together
PUTS_MAX = 32  # pieces of one session at one time
LIVE_MIN = 16  # outputs at one time, however large one may be
KNOWN_MAX = 10_000  # outputs of which is remembered which node has them
LOOK_S = 0.25
GONE_S = 2.0  # how often is looked for runs that are over
_THREADS = 4
_INTEGER_MAX = 2**53
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_STREAMS = {"stdout": STDOUT, "stderr": STDERR}

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(int)


class _Copy:
    """A copy of an output, as this node has it."""

    def __init__(self, session: int, run: OutputOwner, capture: Capture, held_max: int) -> None:
        self.session = session
        self.run = run
        self.capture: Capture | None = capture  # None: it has ended, or is not wanted any more
        self.held_max = held_max  # bytes of it that may be in memory
        self.lock = asyncio.Lock()
        self.offset = 0
        self.last = 0  # where the last piece began
        self.place: OutputPlace | None = None  # once it has ended


class Outputs:
    def __init__(
        self,
        node_id: str,
        store: OutputStore,
        read: Callable[[], AbstractContextManager[ReadView]],
        clock: Clock,
        *,
        short_of_disk: Callable[[], bool] = lambda: False,
        tell: Callable[[bytes], None] = lambda message: None,
        rules: OutputRules | None = None,
    ) -> None:
        """`tell`: sends a message to `on_elsewhere` of all other members. `rules`: how much is kept of an attempt;
        None: as the store has it."""
        self._node_id = node_id
        self._store = store
        self._read = read
        self._clock = clock
        self._short_of_disk = short_of_disk
        self._tell = tell
        self._copies: dict[int, _Copy] = {}  # by token
        self._puts: Counter[int] = Counter()  # that are under way, by session
        self._rules = rules
        self._elsewhere: OrderedDict[int, str] = OrderedDict()  # token -> who had it last
        self._disk = ThreadPoolExecutor(_THREADS, thread_name_prefix="remote-output")
        self._appender = Appender("workers", store, self._disk)
        self._looking: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        """Drops what has not ended: its worker begins again elsewhere."""
        await background.end(self._looking)
        await self._appender.drain()
        await asyncio.to_thread(self._disk.shutdown)
        for copy in self._copies.values():
            if copy.capture is not None:
                copy.capture.drop()
        self._copies.clear()

    # ------------------------------------------------------------ pieces

    async def put(
        self,
        session: str,
        token: int,
        offset: int,
        pieces: Sequence[Piece],
        *,
        end: bool = False,
        size: int | None = None,
        check: Callable[[Session], None] = lambda row: None,
        owner: str = "",
    ) -> UploadOut:
        """Keeps what was printed from `offset` on. The same may be sent again. `size`: how far the pieces go; None:
        that is counted here. `check`: raises when the caller may not speak for the session. `owner`: of the token that
        came with it. Raises RaftschedError: session-over, not-found (no run of this session), wrong-offset, too-many,
        disk-full, invalid-body (more than 2^53 bytes)."""
        row, run = self.admit(session, token, check=check, owner=owner)
        if size is None:
            size = sum(piece.printed for piece in pieces)
        if offset + size > _INTEGER_MAX:
            raise RaftschedError("invalid-body", f"An output has {_INTEGER_MAX:,} bytes at most, with gaps.")
        if self._puts[row.id] >= PUTS_MAX:
            raise RaftschedError("too-many", f"{PUTS_MAX} pieces of this session are being written; wait for one.")
        self._puts[row.id] += 1
        taking = asyncio.ensure_future(self._take(row.id, run, token, offset, pieces, size, end))
        taking.add_done_callback(lambda done: self._put_over(row.id))
        return await asyncio.shield(taking)  # who hangs up in the middle leaves it as whole as who waits

    def _put_over(self, session: int) -> None:
        self._puts[session] -= 1
        if not self._puts[session]:
            del self._puts[session]

    def admit(
        self, session: str, token: int, *, check: Callable[[Session], None] = lambda row: None, owner: str = ""
    ) -> tuple[Session, OutputOwner]:
        """Returns the session, and whose run it is. Raises what `put` raises where the session is not open, or the run
        is not its own: before the pieces are read."""
        with self._read() as view:
            row = session_of(view, session, owner)
            run = None if row is None else owner_of_run(view, row.id, token)
        if row is None:
            raise RaftschedError("session-over")
        check(row)
        if run is None:
            raise RaftschedError("not-found", f"This session has no run {token}: it is over, or another's.")
        return row, run

    async def _take(
        self, session: int, run: OutputOwner, token: int, offset: int, pieces: Sequence[Piece], size: int, end: bool
    ) -> UploadOut:
        copy = self._copies.get(token)
        if copy is None:
            if offset:
                raise WrongOffset(0)
            if not size:
                return UploadOut(offset=0)
            copy = self._begin(session, run, token)
        async with copy.lock:
            if copy.place is not None:
                if end and offset + size == copy.offset:
                    return UploadOut(offset=copy.offset, output=copy.place)
                raise WrongOffset(copy.offset, ended=True)
            if copy.capture is None:  # another node has it now
                raise WrongOffset(0)
            if offset != copy.offset:
                if not size or (offset, offset + size) != (copy.last, copy.offset):
                    raise WrongOffset(copy.offset)
                pieces = ()  # it was here before
            elif self._short_of_disk() and size:
                raise RaftschedError("disk-full", f"The disk of {self._node_id} is full; another node may take it.")
            if pieces:
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(self._disk, self._write, copy.capture, token, pieces, end)
                copy.last, copy.offset = copy.offset, copy.offset + size
            if end:
                await self._end(token, copy, copy.capture)
            return UploadOut(offset=copy.offset, output=copy.place)

    def _begin(self, session: int, run: OutputOwner, token: int) -> _Copy:
        with self._read() as view:
            most = self._max_of(view, run.namespace)
        going = [copy.held_max for copy in self._copies.values() if copy.capture is not None]
        if len(going) >= LIVE_MIN and sum(going) + most // 2 > HELD_MAX:
            raise RaftschedError(
                "too-many", f"{self._node_id} takes {len(going)} outputs at a time; try again, or another node."
            )
        self._store.hold(token)
        self._store.bound(token, most)
        capture = Capture(str(self._store.live_directory), most)
        copy = self._copies[token] = _Copy(session, run, capture, most // 2)
        self._elsewhere.pop(token, None)
        self._tell(_encode(token))
        if self._looking is None:
            self._looking = background.start("workers", self._look())
        return copy

    def _max_of(self, view: ReadView, namespace: str) -> int:
        return self._store.max_attempt_bytes if self._rules is None else self._rules.max_of(view, namespace)

    def _write(self, capture: Capture, token: int, pieces: Sequence[Piece], end: bool) -> None:
        now = self._clock.boot_ms()
        for piece in pieces:
            if piece.stream == NOTE:
                capture.leave_out(piece.left_out, now)
            else:
                capture.write(piece.stream, piece.data, now)
            if capture.urgent:
                capture.flush(token, now)
        # Readers see it at once, but for the last part, which is written anew each time.
        if not end and capture.flush_at is not None and capture.flush_at - now <= FLUSH_AFTER_MS:
            capture.flush(token, now)

    async def _end(self, token: int, copy: _Copy, capture: Capture) -> None:
        loop = asyncio.get_running_loop()
        frames, spooled, left_out = await loop.run_in_executor(self._disk, capture.finish, token)
        copy.capture = None
        record = Record(token, self._clock.wall_ms(), frames, spooled, left_out, copy.run.namespace, copy.run)
        try:
            ref = await self._append(record)
        except BaseException:
            self._copies.pop(token, None)
            self._store.discard(token)
            raise
        if ref is not None:
            copy.place = place_of(self._node_id, ref)

    # ------------------------------------------------------------ reports

    async def store(
        self, token: int, run: OutputOwner | None, ended_at_ms: int, output: str | Sequence[Printed]
    ) -> OutputRef | None:
        """Keeps what a report carries itself. None: it is empty. Raises RaftschedError invalid-body, disk-full."""
        printed = [("stdout", output)] if isinstance(output, str) else [(one.stream, one.text) for one in output]
        pieces = [(_STREAMS[stream], text.encode("utf-8", "replace")) for stream, text in printed if text]
        if sum(len(text) for _, text in printed) > OUTPUT_INLINE_MAX:
            raise RaftschedError("invalid-body", f"output must have {OUTPUT_INLINE_MAX:,} characters at most.")
        size = sum(len(data) for _, data in pieces)
        namespace = "" if run is None else run.namespace
        with self._read() as view:
            most = self._max_of(view, namespace)
        if size <= min(INLINE_MAX, most // 2):
            frames, spooled, left_out = b"".join(pack(stream, data) for stream, data in pieces), False, 0
        else:
            loop = asyncio.get_running_loop()
            frames, spooled, left_out = await loop.run_in_executor(self._disk, self._bounded, token, pieces, most)
        if not frames and not spooled:
            return None
        return await self._append(Record(token, ended_at_ms, frames, spooled, left_out, namespace, run))

    def _bounded(self, token: int, pieces: Sequence[tuple[int, bytes]], most: int) -> tuple[bytes, bool, int]:
        capture = Capture(str(self._store.live_directory), most)
        for stream, data in pieces:
            capture.write(stream, data, 0)
        return capture.finish(token)

    def verify(self, place: OutputPlace) -> tuple[str, OutputRef]:
        """Returns the node that has it, and the place there. Whether it is the run's own is seen when it is read.
        Raises RaftschedError invalid-body: no node has ever answered such a place."""
        numbers = (place.segment, place.offset, place.size, place.truncated)
        is_one = names.NODE.allows(place.node) and _SHA256.fullmatch(place.sha256)
        if not is_one or min(numbers) < 0 or max(numbers) > _INTEGER_MAX:
            raise RaftschedError("invalid-body", "output must be what a node answered to the end of an upload.")
        sha256 = bytes.fromhex(place.sha256)
        return place.node, OutputRef(place.segment, place.offset, place.size, sha256, place.truncated)

    # ------------------------------------------------------------ the disk

    async def _append(self, record: Record) -> OutputRef | None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Kept] = loop.create_future()
        self._appender.add(record, lambda kept: None if future.done() else future.set_result(kept))
        kept = await future
        if isinstance(kept, Exception):
            raise _unkept(kept)
        return kept

    # ------------------------------------------------------------ what is not wanted any more

    def on_elsewhere(self, peer: str, message: bytes) -> None:
        """Another member has begun a copy: the worker has changed nodes."""
        try:
            token = _decode.decode(message)
        except msgspec.DecodeError:
            return
        copy = self._copies.get(token)
        if copy is not None and copy.place is None:
            self._forget_soon(token, copy)
        self.note_elsewhere(token, peer)

    def note_elsewhere(self, token: int, node: str) -> None:
        """Notes that the node has a copy of it, or had."""
        self._elsewhere[token] = node
        self._elsewhere.move_to_end(token)
        while len(self._elsewhere) > KNOWN_MAX:
            self._elsewhere.popitem(last=False)

    def who_has(self, token: int) -> str | None:
        """Returns the other member that had it last; None: that is not known."""
        return self._elsewhere.get(token)

    async def _look(self) -> None:
        """Writes what waits, and drops the copies of runs that are over, as long as there are copies."""
        loop = asyncio.get_running_loop()
        checked = loop.time()
        try:
            while self._copies:
                await asyncio.sleep(LOOK_S)
                now = self._clock.boot_ms()
                for token, copy in list(self._copies.items()):
                    capture = copy.capture
                    if capture is None or capture.flush_at is None or capture.flush_at > now:
                        continue
                    try:
                        async with copy.lock:
                            if copy.capture is not None:
                                await loop.run_in_executor(self._disk, copy.capture.flush, token, now)
                    except Exception as error:  # the others' copies are not its fault
                        background.note("workers", error, f"output of attempt {token}")
                        self._forget_soon(token, copy)
                if loop.time() - checked >= GONE_S:
                    checked = loop.time()
                    try:
                        self.drop_ended()
                    except Exception as error:
                        background.note("workers", error)
        finally:
            self._looking = None

    def drop_ended(self) -> None:
        """Drops the copies of attempts that have ended, and of sessions that are over."""
        with self._read() as view:
            for token, copy in list(self._copies.items()):
                if view.get(Table.ASSIGNED, assigned_key(copy.session, token)) is None:
                    self._forget_soon(token, copy)

    def _forget_soon(self, token: int, copy: _Copy) -> None:
        if copy.capture is None:
            self._copies.pop(token, None)
        elif not copy.lock.locked():
            copy.capture.drop()
            copy.capture = None
            self._copies.pop(token, None)
            self._store.discard(token)


def place_of(node: str, ref: OutputRef) -> OutputPlace:
    """Returns what a report carries of it."""
    return OutputPlace(
        node=node,
        segment=ref.segment,
        offset=ref.offset,
        size=ref.size,
        sha256=ref.sha256.hex(),
        truncated=ref.truncated,
    )


def _unkept(error: Exception) -> RaftschedError:
    if isinstance(error, OSError):
        return RaftschedError("disk-full", f"The output could not be kept: {error.strerror}.")
    return RaftschedError("internal", "The output could not be kept; the node's log says more.")
