"""A request that fails for a bug of the node: its answer has the id by which the log tells more."""

from __future__ import annotations

import logging
import re

import pytest

from tests.support.local_api import Client

JOB = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}}
TOLD = re.compile(r"An error of this node; its log says more about the request (\S+)\.")


def broken() -> None:
    raise KeyError("a bug")


async def failed(call: Client, caplog: pytest.LogCaptureFixture, headers: dict[str, str]) -> tuple[str, str]:
    """Has a request fail; what its caller is told, and the id in the log's line."""
    call.checked = False  # no operation promises to fail so
    call.cluster.before = broken
    caplog.clear()
    status, body = await call("POST", "/v1/jobs", JOB, headers)
    assert (status, body["code"]) == (500, "internal")
    found = TOLD.fullmatch(body["detail"])
    assert found is not None, body
    (line,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert line.exc_info is not None
    assert "failed" in line.getMessage()
    return found[1], line.__dict__["request"]


@pytest.mark.parametrize("headers", [{}, {"X-Other": "1"}], ids=["fast", "slow"])
async def test_the_answer_has_the_id_of_the_line(
    call: Client, caplog: pytest.LogCaptureFixture, headers: dict[str, str]
) -> None:
    told, logged = await failed(call, caplog, headers)
    assert told == logged
    assert re.fullmatch(r"[0-9a-f]{16}", told)
    again, _ = await failed(call, caplog, headers)
    assert again != told


async def test_an_id_that_came_with_the_request_is_kept_where_it_is_plain(
    call: Client, caplog: pytest.LogCaptureFixture
) -> None:
    assert await failed(call, caplog, {"X-Request-Id": "proxy-7.a_B"}) == ("proxy-7.a_B", "proxy-7.a_B")
    for wrong in ("a b", "<script>", "x" * 65, ""):
        told, logged = await failed(call, caplog, {"X-Request-Id": wrong})
        assert told == logged != wrong
        assert re.fullmatch(r"[0-9a-f]{16}", told)
