"""examples/fastapi as its README starts it, killed while a run is under way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.ports import free_ports
from tests.support.programs import Program, ask

pytestmark = pytest.mark.e2e


def test_what_an_endpoint_accepted_is_done_though_the_application_is_killed(tmp_path: Path) -> None:
    web, http = free_ports(2)
    sent = tmp_path / "sent"
    begun, done = sent / "invoice-7.begun", sent / "invoice-7.sent"
    settings = {"SHOP_DATA": str(tmp_path / "data"), "SHOP_HTTP": f"127.0.0.1:{http}", "SHOP_SENT": str(sent)}

    def start() -> Program:
        words = ["-m", "uvicorn", "app:app", "--port", str(web)]
        return Program("fastapi", words, tmp_path / "log", settings)

    sent.mkdir()
    (sent / "slow").touch()
    ready: Callable[[], bool] = lambda: ask(web, "GET", "/readyz") == (200, {"ready": True})  # noqa: E731
    app = start()
    try:
        app.wait("the application to be ready", ready)
        status, first = ask(web, "POST", "/invoices/7")
        assert status == 202, first
        app.wait("the run to begin", begun.exists)
        app.kill()
        assert not done.exists()
        (sent / "slow").unlink()
        app = start()
        app.wait("the application to be ready again", ready)
        app.wait("the invoice to be sent", done.exists)
        assert ask(web, "POST", "/invoices/7") == (202, first), "one key is one job"
        app.wait("the job to be over", lambda: ask(web, "GET", f"/jobs/{first['job']}")[1]["state"] == "EXPIRED")
        app.end()  # the server ends itself by the signal, after all
        assert app.printed.rstrip().splitlines()[-1].startswith("INFO:     Finished server process"), app.printed
        assert "Application shutdown complete." in app.printed
    finally:
        app.kill()
