"""Runs commands, and the answers of the stub that they speak to."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from click.testing import CliRunner, Result

from raftsched.cli.main import cli
from tests.support.stub_server import Request, Stub, problem

ID = "0d3k5xw2a9f4m"
INSTANCE = f"{ID}@1763600400000"
JOB = {
    "id": ID, "name": "tick", "namespace": "default", "state": "SCHEDULED", "revision": 3, "running": 0,
    "next_fire_at": "2026-11-20T12:00:00Z", "last_instance": None, "created_at": "2026-11-20T11:00:00Z",
    "trigger": {"cron": "0 12 * * *", "timezone": "Europe/Madrid"}, "handler": {"shell": "date"},
}  # fmt: skip


def listening(command: list[str]) -> list[str]:
    """The same command, which heeds Ctrl-C. What a shell starts in the background ignores it and passes that on: these
    tests may be started so."""
    heeds = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    return [sys.executable, "-S", "-c", heeds, *command]


def run(*args: str, input: str | bytes | None = None, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(cli, args, input=input, env=env)


def routes(table: dict[str, Any]) -> Callable[[Request], tuple[int, Any]]:
    """Answers by "METHOD path"; a plain value means 200."""

    def answer(request: Request) -> tuple[int, Any]:
        key = f"{request.method} {request.path}"
        found = table.get(key)
        if found is None:
            return problem(404, "not-found", f"No {key}.")
        return found if isinstance(found, tuple) else (200, found)

    return answer


def taking(status: int) -> Callable[[Request], tuple[int, Any]]:
    """Answers so to each PUT of a job, and compares as nodes of earlier versions do: not at all."""

    def answer(request: Request) -> tuple[int, Any]:
        return (status, JOB) if request.method == "PUT" else problem(404, "not-found", "no")

    return answer


def puts(stub: Stub) -> list[Request]:
    return [request for request in stub.requests if request.method == "PUT"]


def asked(stub: Stub) -> list[str]:
    return [f"{r.method} {r.path}" for r in stub.requests]


BY_NAME = "/v1/namespaces/default/jobs/tick"
