"""Runs that carry much: what the API lets through arrives whole, and what is more fails with words."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from raftsched.core.limits import RUN_MAX
from raftsched.core.model import Outcome
from raftsched.worker.processes.wire import PACKET_MAX, Exec, Http, Python, Task
from raftsched.worker.tasks.tasks import VALUES_MAX
from tests.integration.runner.bed import Bed
from tests.integration.runner.test_http import Server

ENVIRONMENT_MAX = 8 * 1024  # bytes of what a run is told of itself, and of its encoding
MIB = 1 << 20


def padded(size: int) -> bytes:
    """JSON of params that take so many bytes."""
    return b'{"x":"' + b"x" * (size - 8) + b'"}'


def test_secrets_and_surroundings_fit_beside_the_most_that_the_api_lets_through() -> None:
    assert RUN_MAX + VALUES_MAX + ENVIRONMENT_MAX <= PACKET_MAX


async def test_the_most_that_the_api_lets_through_arrives(tmp_path: Path) -> None:
    params = padded(RUN_MAX)
    asked: list[int] = []

    async def answer(head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(len(await reader.readexactly(RUN_MAX)))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async with Bed(tmp_path, python_processes=1) as bed, Server(answer) as server:
        env = {"RAFTSCHED_PARAMS": params.decode()}
        end = await bed.run(Exec(("/bin/sh", "-c", 'printf %s "$RAFTSCHED_PARAMS" | wc -c'), dict(env)))
        assert (end.outcome, bed.text(end).strip()) == (Outcome.SUCCEEDED, str(RUN_MAX))
        end = await bed.run(Python("jobs:length", params, {}))
        assert (end.outcome, end.result) == (Outcome.SUCCEEDED, json.dumps(RUN_MAX - 8).encode())
        url = f"http://127.0.0.1:{server.port}/"
        end = await bed.run(Http("POST", url, {"Content-Type": "application/json"}, params, ()))
        assert (end.outcome, asked) == (Outcome.SUCCEEDED, [RUN_MAX])


LARGE = padded(MIB)


@pytest.mark.parametrize(
    "task, words",
    [
        (Exec(("true",), {"RAFTSCHED_PARAMS": LARGE.decode()}), "arguments and environment are too long"),
        (Python("jobs:length", LARGE, {}), "too large to hand over"),
        (Http("POST", "http://127.0.0.1:1/", {}, LARGE, ()), "too large to hand over"),
    ],
    ids=["exec", "python", "http"],
)
async def test_more_fails_with_words(tmp_path: Path, task: Task, words: str) -> None:
    """As what was accepted by an older node may be; the next run is not harmed."""
    async with Bed(tmp_path, python_processes=1) as bed:
        end = await bed.run(task)
        assert end.outcome is Outcome.FAILED
        assert end.error is not None
        assert words in end.error
        assert len(end.error) < 300
        assert (await bed.run(Python("jobs:echo", b"{}", {}))).outcome is Outcome.SUCCEEDED
