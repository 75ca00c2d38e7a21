"""A transport that stops closes every connection, also one that comes in the same moment."""

from __future__ import annotations

import asyncio
import gc
import socket
import warnings

import pytest

from tests.integration.raft.test_transport import Bed
from tests.support.patience import patient


def _dialled(port: int) -> socket.socket:
    dialled = socket.create_connection(("127.0.0.1", port), timeout=patient(20))
    dialled.settimeout(patient(20))
    return dialled


def _is_closed(dialled: socket.socket) -> bool:
    """True when the other side has closed it, in order or not."""
    try:
        return dialled.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("turns", range(5))
def test_a_connection_that_comes_while_it_stops_is_closed(turns: int) -> None:
    """`turns` of the event loop lie between the connection and the stop."""

    async def scenario() -> list[socket.socket]:
        bed = Bed()
        async with bed:
            dialled = [_dialled(bed.port) for _ in range(3)]
            for _ in range(turns):
                await asyncio.sleep(0)
        return dialled

    complaints: list[str] = []

    async def listened() -> list[socket.socket]:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(str(context)))
        return await scenario()

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ResourceWarning)
        dialled = asyncio.run(listened())
        gc.collect()
    try:
        assert all(map(_is_closed, dialled))
    finally:
        for one in dialled:
            one.close()
    assert not complaints
    assert not [str(one.message) for one in warned]
