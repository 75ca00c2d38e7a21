"""Sends what runs on a remote worker print to a node: in pieces while a run goes on, the rest at its end.

A run that is over soon and printed little costs no request: its report carries what it printed. The worker keeps its
own copy until the report is answered, and sends again from wherever a node says that it has it up to: another node
begins at 0.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from raftsched.core.model import OutputRef
from raftsched.errors import RaftschedError
from raftsched.output.format.spool import HEAD, NOTE, STDERR, live_name
from raftsched.output.keeping.store import OutputStore
from raftsched.output.reading.text import Span, Text
from raftsched.remote import frames
from raftsched.remote.frames import Piece
from raftsched.remote.server_port import NoAnswer, Refused, Server, SessionOver, WrongOffset
from raftsched.surface.worker_sessions import PRINTED_MAX, OutputPlace, Printed
from raftsched.system import background

LOOK_S = 0.25  # how often is looked for more of what runs print
LIVE_AFTER_S = 1.0  # a run that is over by then is not sent in pieces
LIVE_BYTES = 64 * 1024  # unless it prints so much
PIECE_BYTES = 256 * 1024
INLINE_BYTES = 16 * 1024  # that a report carries itself
AT_ONCE = 4  # requests
ANSWER_S = 15.0  # for the answer of a node
RETRY_S = 0.25  # before another node is asked, at least and at most
RETRY_MAX_S = 2.0
GIVE_UP_S = 60.0  # without any node that takes more of it
RESTARTS_MAX = 100  # of one output: behind an address that leads to another node each time there is no end
TIDY_BYTES = 16 * 1024 * 1024  # of outputs that nobody asks for any more

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Upload:
    """A run's output, as far as it was sent."""

    session: str
    token: int
    began: float
    at: int = 0  # the place up to which the node has it
    sent: bool = False  # something was: a node may have a copy
    restarts: int = 0
    moved: float = 0.0  # when a node last took something, once the run has ended
    place: OutputPlace | None = None
    stopped: str = ""  # why no more of it is sent, in words
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None  # sends pieces while the run goes on


class Uploads:
    """The outputs of all runs of a worker (remote.server_port.Outputs). `store`: the worker's own, of which nobody else
    reads. To be used in one event loop."""

    def __init__(self, store: OutputStore, servers: Sequence[Server]) -> None:
        self._store = store
        self._servers = list(servers)  # the one that is asked first is the first
        self._uploads: dict[int, _Upload] = {}
        self._requests = asyncio.Semaphore(AT_ONCE)
        self._looking: asyncio.Task[None] | None = None
        self._tidying: asyncio.Task[int] | None = None

    async def close(self) -> None:
        tasks = [self._looking, self._tidying, *(upload.task for upload in self._uploads.values())]
        running = [task for task in tasks if task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._uploads.clear()

    # ------------------------------------------------------------ the worker's calls

    def begin(self, session: str, token: int) -> None:
        """A run was started: it may be printing from now on."""
        loop = asyncio.get_running_loop()
        self._uploads[token] = _Upload(session, token, loop.time())
        if self._looking is None:
            self._looking = background.start("output", self._look())

    async def finish(self, session: str, token: int, output: OutputRef) -> OutputPlace | str | list[Printed] | None:
        """Returns what the report of the run's end is to carry; `output`: where it lies in the worker's own store.
        Gives up by itself, and never raises but when it is cancelled."""
        loop = asyncio.get_running_loop()
        upload = self._uploads.setdefault(token, _Upload(session, token, loop.time()))
        upload.ending.set()
        if upload.task is not None:
            await asyncio.wait([upload.task])
            upload.task = None
        upload.moved = loop.time()  # the patience is that of the end
        try:
            text = await asyncio.to_thread(self._store.open, output)
            if not upload.sent and output.size <= INLINE_BYTES and not output.truncated:
                inline = _inline(await asyncio.to_thread(text.spans, 0))
                if inline is not None:
                    return inline
            while upload.place is None and not upload.stopped:
                await self._send(upload, text, ended=True)
        except (RaftschedError, OSError) as error:
            upload.stopped = str(error)
        if upload.place is None:
            log.warning(
                "the output of attempt %d could not be sent: %s", token, upload.stopped, extra={"attempt": token}
            )
            return [Printed(stream="stderr", text=f"raftsched: the output could not be sent: {upload.stopped}\n")]
        return upload.place

    def forget(self, token: int) -> None:
        """The end is in the log, or the session is over: nobody asks for it any more."""
        upload = self._uploads.pop(token, None)
        if upload is not None and upload.task is not None:
            upload.task.cancel()
        if not self._uploads and self._tidying is None and self._store.size() > TIDY_BYTES:
            self._tidying = background.start("output", asyncio.to_thread(self._store.drop_before, 2**62))
            self._tidying.add_done_callback(self._tidied)

    def _tidied(self, task: asyncio.Task[int]) -> None:
        self._tidying = None

    # ------------------------------------------------------------ while runs go on

    async def _look(self) -> None:
        """Begins to send what runs print that go on for a while, or print much."""
        loop = asyncio.get_running_loop()
        try:
            while self._uploads:
                await asyncio.sleep(LOOK_S)
                for upload in self._uploads.values():
                    if upload.task is not None or upload.ending.is_set() or upload.stopped:
                        continue
                    size = self._printed(upload.token)
                    if size and (size > LIVE_BYTES or loop.time() - upload.began >= LIVE_AFTER_S):
                        upload.task = background.start("output", self._send_live(upload))
        finally:
            self._looking = None

    def _printed(self, token: int) -> int:
        try:
            return (self._store.live_directory / live_name(token)).stat().st_size
        except OSError:
            return 0

    async def _send_live(self, upload: _Upload) -> None:
        """Sends until the run ends. What cannot be sent now is tried again at the end."""
        try:
            text = await asyncio.to_thread(self._store.open_live, upload.token)
            while text is not None and not upload.ending.is_set() and not upload.stopped:
                if not await self._send(upload, text):
                    with suppress(TimeoutError):
                        await asyncio.wait_for(upload.ending.wait(), LOOK_S)
        except (RaftschedError, OSError) as error:
            log.warning(
                "what attempt %d prints cannot be read: %s", upload.token, error, extra={"attempt": upload.token}
            )

    # ------------------------------------------------------------ pieces

    async def _send(self, upload: _Upload, text: Text, *, ended: bool = False) -> bool:
        """Sends the next piece. False: there is none, or a node has less than was thought, or none answered."""
        loop = asyncio.get_running_loop()
        async with self._requests:
            body, size = await asyncio.to_thread(_next, text, upload.at)
            end = ended and upload.at + size >= text.printed
            if not size and not end:
                return False
            server = self._servers[0]
            upload.sent = True
            slower = False
            try:
                async with asyncio.timeout(ANSWER_S):
                    answer = await server.upload(upload.session, upload.token, upload.at, body, end=end)
            except WrongOffset as wrong:
                upload.restarts += wrong.offset <= upload.at
                upload.at = wrong.offset
                if upload.restarts > RESTARTS_MAX:
                    upload.stopped = "no node has what was sent before; a worker is to be told the nodes, one by one"
                return False
            except SessionOver:
                upload.stopped = "the session is over"
                return False
            except Refused as refused:
                if refused.status == 404:
                    upload.stopped = str(refused)
                    return False
                slower = refused.status == 429
                why, wait_s = str(refused), max(RETRY_S, min(refused.after_s or RETRY_S, RETRY_MAX_S))
            except (NoAnswer, TimeoutError) as failed:
                why, wait_s = str(failed) or "no node answers", RETRY_S
            else:
                upload.at, upload.place, upload.moved = answer.offset, answer.output, loop.time()
                return True
        if ended and loop.time() - upload.moved >= GIVE_UP_S:
            upload.stopped = why
        if not (slower and upload.at):  # another node would have to be sent all of it again
            self._next_server(server)
        await asyncio.sleep(wait_s)
        return False

    def _next_server(self, failed: Server) -> None:
        if self._servers[0] is failed:  # else another upload has moved on already
            self._servers.append(self._servers.pop(0))


def _next(text: Text, at: int) -> tuple[bytes, int]:
    """Returns the frames from there on, of about PIECE_BYTES with their heads, and how far they go. Where a run prints
    single bytes to both streams in turn, most of it is heads; it must stay below what a node takes at once."""
    found: list[bytes] = []
    size, begin = 0, at
    while size < PIECE_BYTES:
        spans = text.spans(at)
        if not spans:
            break
        for span in spans:
            if span.printed > at:
                found.append(frames.encode(Piece(NOTE, b"", span.printed - at)))
            found.append(frames.encode(Piece(span.stream, span.data)))
            size += HEAD.size + len(span.data)
            at = span.printed + len(span.data)
    return b"".join(found), at - begin


def _inline(spans: Sequence[Span]) -> str | list[Printed] | None:
    """Returns the output as a report carries it. None: it cannot."""
    try:
        told = [
            Printed(stream="stderr" if span.stream == STDERR else "stdout", text=span.data.decode()) for span in spans
        ]
    except UnicodeDecodeError:
        return None
    if len(told) == 1 and told[0].stream == "stdout":
        return told[0].text
    return told if len(told) <= PRINTED_MAX else None
