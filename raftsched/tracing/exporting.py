"""Exports spans to the collector. It may be slow, or gone: nobody waits for it, and the log hears of it once.

The queue (OTEL_BSP_MAX_QUEUE_SIZE, 2,048 spans) is emptied by a thread of its own; what does not fit is dropped.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import Span

FLUSH_S = 2.0  # that the last spans have to get through, when a node stops
# Where the packages log that spans do not get through, each time anew.
_LOUD = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.common.http",
    "opentelemetry.sdk._shared_internal",
    "opentelemetry.sdk.trace.export",
)

log = logging.getLogger("raftsched.tracing")


class _Ours(threading.local):
    """Knows whether this thread is exporting spans of ours: `heard` is told what the packages say of it."""

    heard: Callable[[str], None] | None = None


_ours = _Ours()


def _not_ours(record: logging.LogRecord) -> bool:
    """Takes what is said of our spans out of the log. A program around a node may export spans of its own."""
    if _ours.heard is None:
        return True
    _ours.heard(record.getMessage())
    return False


class _Told(SpanExporter):
    """An exporter that logs once when spans no longer get through, and once when they do again."""

    def __init__(self, inner: SpanExporter, where: str) -> None:
        self._inner = inner
        self._where = where
        self.why = ""  # in the words of the package that sends them
        self._failing = False

    def _heard(self, message: str) -> None:
        self.why = message

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            with heard_by(self._heard):
                result = self._inner.export(spans)
        except Exception as error:  # it is a package's, and its thread has to go on
            self.why = f"{type(error).__name__}: {error}"
            result = SpanExportResult.FAILURE
        failing = result is not SpanExportResult.SUCCESS
        if failing and not self._failing:
            log.warning("spans do not get to %s, and are dropped: %s", self._where, self.why[:300] or "no reason given")
        elif self._failing and not failing:
            log.info("spans get to %s again", self._where)
        self._failing = failing
        return result

    def shutdown(self) -> None:
        with heard_by(self._heard):
            self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)


class Exporting(SpanProcessor):
    """A batch processor (settings OTEL_BSP_*) whose end takes a bounded time. Raises ValueError for bad settings."""

    def __init__(self, exporter: SpanExporter, where: str) -> None:
        """`where`: the collector, in words."""
        for name in _LOUD:
            logging.getLogger(name).addFilter(_not_ours)  # the same one is added once
        self._exporter = _Told(exporter, where)
        self._batches = BatchSpanProcessor(self._exporter)
        self._full = False

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        pass

    def on_end(self, span: ReadableSpan) -> None:
        with heard_by(self._note_full):
            self._batches.on_end(span)

    def _note_full(self, message: str) -> None:
        if not self._full:
            self._full = True
            log.warning("the collector is slower than spans come: %s (said once)", message)

    def shutdown(self) -> None:
        self._batches.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._batches.force_flush(timeout_millis)

    async def stop(self, within_s: float = FLUSH_S) -> None:
        """Sends what is left, within that time. What does not get through is dropped; the thread that sends it is not
        waited for, at the end of the process neither."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def flush() -> None:
            self.shutdown()
            loop.call_soon_threadsafe(done.set)

        threading.Thread(target=_unless_closed, args=(flush,), name="tracing-flush", daemon=True).start()
        try:
            async with asyncio.timeout(within_s):
                await done.wait()
        except TimeoutError:
            log.warning("the last spans did not get through within %g s, and are dropped", within_s)
            threading.Thread(target=self._exporter.shutdown, name="tracing-stop", daemon=True).start()


def _unless_closed(flush: Callable[[], None]) -> None:
    """The loop may have ended meanwhile: nobody waits any more."""
    try:
        flush()
    except RuntimeError:
        pass


def heard_by(heard: Callable[[str], None]) -> AbstractContextManager[None]:
    """Tells `heard` what the packages would log in this thread."""

    @contextmanager
    def listening() -> Iterator[None]:
        before, _ours.heard = _ours.heard, heard
        try:
            yield
        finally:
            _ours.heard = before

    return listening()
