"""Whatever becomes of the collector: nobody waits for it, and the log hears of it once."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from raftsched.tracing.exporting import Exporting
from raftsched.tracing.tracer import Tracer
from tests.support.clock import ManualClock
from tests.support.patience import patient

LOUD = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")


class Collector(SpanExporter):
    def __init__(self) -> None:
        self.works = True
        self.raises = False
        self.goes_on = threading.Event()  # cleared: it hangs
        self.goes_on.set()
        self.hangs = threading.Event()
        self.got: list[str] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if not self.goes_on.is_set():
            self.hangs.set()
            assert self.goes_on.wait(patient(60))
        if self.raises:
            raise OSError("no route")
        if not self.works:
            LOUD.error("connection refused")
            return SpanExportResult.FAILURE
        self.got += [span.name for span in spans]
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        pass


@contextmanager
def tracing(collector: Collector) -> Iterator[tuple[Exporting, Tracer]]:
    exporting = Exporting(collector, "http://collector:4318")
    try:
        yield exporting, Tracer(ManualClock(), Resource.create({}), exporting)
    finally:
        collector.goes_on.set()
        exporting.shutdown()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [f"{record.levelname} {record.getMessage()}" for record in caplog.records]
    caplog.clear()
    return found


def test_failures_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    collector = Collector()
    collector.works = False
    with tracing(collector) as (exporting, tracer):
        for _ in range(3):
            tracer.start("x").end()
            exporting.force_flush()
        assert lines(caplog) == [
            "WARNING spans do not get to http://collector:4318, and are dropped: connection refused"
        ]
        collector.works = True
        for _ in range(3):
            tracer.start("y").end()
            exporting.force_flush()
        assert lines(caplog) == ["INFO spans get to http://collector:4318 again"]
        collector.raises = True
        tracer.start("z").end()
        exporting.force_flush()
        (line,) = lines(caplog)
        assert line.endswith("dropped: OSError: no route")
    assert collector.got == ["y"] * 3


def test_what_others_log_of_their_spans_stays(caplog: pytest.LogCaptureFixture) -> None:
    with tracing(Collector()):
        LOUD.error("the program's own")
    assert lines(caplog) == ["ERROR the program's own"]


def test_a_collector_that_hangs_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
    collector = Collector()
    collector.goes_on.clear()
    with tracing(collector) as (exporting, tracer):
        tracer.start("first").end()
        assert collector.hangs.wait(patient(60))
        for _ in range(100):
            tracer.start("more").end()
        (full,) = lines(caplog)
        assert "slower than spans come" in full
        asyncio.run(exporting.stop(within_s=0.01))
        assert lines(caplog) == ["WARNING the last spans did not get through within 0.01 s, and are dropped"]


def test_the_last_spans_get_through() -> None:
    collector = Collector()
    with tracing(collector) as (exporting, tracer):
        tracer.start("last").end()
        asyncio.run(exporting.stop())
        assert collector.got == ["last"]
