"""What the environment says of tracing, and that nothing of it is loaded where it is off."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from unittest.mock import patch

import pytest

from raftsched.errors import StartupError
from raftsched.system.clock import SystemClock
from raftsched.tracing.starting import endpoint_of, start_tracing
from tests.support.patience import patient


def refused(**environ: str) -> str:
    with pytest.raises(StartupError) as error:
        start_tracing("n1", SystemClock(), environ)
    return error.value.detail


def test_settings_that_cannot_be() -> None:
    assert "otlp or console or none" in refused(OTEL_TRACES_EXPORTER="zipkin")
    assert "4318" in refused(OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
    assert "http/protobuf" in refused(
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf", OTEL_EXPORTER_OTLP_TRACES_PROTOCOL="x"
    )


def test_bad_values_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "0")
    assert "OTEL_" in refused()


def test_it_can_be_turned_off_by_the_usual_variables() -> None:
    for environ in ({"OTEL_SDK_DISABLED": "True"}, {"OTEL_TRACES_EXPORTER": "none"}):
        assert start_tracing("n1", SystemClock(), environ) is None


def test_without_the_packages_it_says_what_to_do() -> None:
    with patch.dict(sys.modules, {"opentelemetry.sdk.resources": None}):
        assert "pip install 'raftsched[otel]'" in refused()


def test_who_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(**environ: str) -> dict[str, object]:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        started = start_tracing("n1", SystemClock(), environ)
        assert started is not None
        tracer, stop = started
        span = tracer.start("x")
        asyncio.run(stop())
        return dict(span.resource.attributes)  # type: ignore[attr-defined]

    own = of()
    assert (own["service.name"], own["service.instance.id"]) == ("raftsched", "n1")
    told = of(OTEL_SERVICE_NAME="jobs", OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test")
    assert (told["service.name"], told["deployment.environment.name"]) == ("jobs", "test")
    assert told["service.instance.id"] == "n1"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (None, "http://localhost:4318"),
        ("https://user:secret@collector.example:4318/x?key=secret", "https://collector.example:4318/x"),
        ("http://c:4318", "http://c:4318"),
    ],
)
def test_no_password_of_the_address_is_logged(url: str | None, shown: str) -> None:
    assert endpoint_of({} if url is None else {"OTEL_EXPORTER_OTLP_ENDPOINT": url}) == shown


def test_nothing_of_it_is_loaded_where_it_is_off() -> None:
    code = (
        "import sys, raftsched.node.node, raftsched.remote.process, raftsched.embedded.process\n"
        "sys.exit(' '.join(m for m in sys.modules if m.startswith(('opentelemetry', 'requests'))) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=patient(120), check=False
    )
    assert done.returncode == 0, done.stderr
