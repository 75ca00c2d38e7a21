"""What systemd is told, over a socket of the test's own: when, in which words; and nothing of it fails a service."""

from __future__ import annotations

import asyncio
import functools
import os
import secrets
import select
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from raftsched.embedded.systemd import VARIABLES, Systemd
from tests.support.patience import patient

SECOND = "1000000"
OFTEN = "300000"


def in_a_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: object, **named: object) -> None:
        async def whole() -> None:
            await test(*args, **named)

        asyncio.run(whole())

    return run


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(str(tmp_path / "notify"))
        bound.settimeout(patient(30))
        yield bound


def environment(manager: socket.socket, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": manager.getsockname(), **more}


def heard(manager: socket.socket) -> list[str]:
    return manager.recv(4096).decode().split("\n")


async def until(manager: socket.socket, line: str) -> list[str]:
    """Returns what is heard from now on, to this line and what came with it."""
    said: list[str] = []
    while line not in said:
        said += await asyncio.to_thread(heard, manager)
    return said


def standing() -> str:
    return "leads, term 1"


def test_nothing_is_left_in_the_environment_for_what_the_service_starts(manager: socket.socket) -> None:
    environ = environment(manager, WATCHDOG_USEC=SECOND, WATCHDOG_PID=str(os.getpid()), PATH="/bin")
    Systemd.of(environ)
    assert environ == {"PATH": "/bin"}
    assert set(VARIABLES) == {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}


@in_a_loop
@pytest.mark.parametrize("address", [None, "", "/", "@", "vsock:2:1234", "relative"])
async def test_without_a_socket_nothing_happens(address: str | None) -> None:
    systemd = Systemd.of({} if address is None else {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": SECOND})
    before = len(asyncio.all_tasks())
    systemd.status("starts")
    systemd.ready(standing)
    systemd.stopping(10)
    assert len(asyncio.all_tasks()) == before, "nobody beats for nobody"
    systemd.close()


@in_a_loop
async def test_ready_then_beats_with_how_it_stands_then_that_it_stops(manager: socket.socket) -> None:
    systemd = Systemd.of(environment(manager, WATCHDOG_USEC=OFTEN))
    systemd.status("starts")
    systemd.ready(standing)
    said = await until(manager, "STATUS=leads, term 1")
    assert said == ["STATUS=starts", "READY=1", "WATCHDOG=1", "STATUS=leads, term 1"]
    await until(manager, "WATCHDOG=1")
    systemd.stopping(10)
    said = await until(manager, "STOPPING=1")
    assert "EXTEND_TIMEOUT_USEC=30000000" in said
    said = await until(manager, "WATCHDOG=1")  # it beats until its end
    assert not [line for line in said if line.startswith("STATUS=leads")]
    systemd.close()


@in_a_loop
async def test_an_abstract_socket_is_one_too() -> None:
    name = f"raftsched-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}")
        manager.settimeout(patient(30))
        systemd = Systemd.of({"NOTIFY_SOCKET": f"@{name}"})
        systemd.status("starts")
        assert heard(manager) == ["STATUS=starts"]
        systemd.close()


@pytest.mark.parametrize(
    ("microseconds", "pid", "watched"),
    [
        (SECOND, str(os.getpid()), 1.0),
        (SECOND, "", 1.0),
        (SECOND, str(os.getpid() + 1), None),
        ("0", "", None),
        ("", "", None),
        ("soon", "", None),
        ("9" * 5_000, "", None),
    ],
)
def test_it_is_watched_when_systemd_says_so_to_this_process(
    manager: socket.socket, microseconds: str, pid: str, watched: float | None
) -> None:
    systemd = Systemd.of(environment(manager, WATCHDOG_USEC=microseconds, WATCHDOG_PID=pid))
    assert systemd._watchdog_s == watched


@in_a_loop
async def test_without_a_watchdog_it_says_how_it_stands_and_does_not_beat(manager: socket.socket) -> None:
    systemd = Systemd.of(environment(manager))
    systemd.ready(standing)
    assert await until(manager, "STATUS=leads, term 1") == ["READY=1", "STATUS=leads, term 1"]
    systemd.close()


@in_a_loop
async def test_what_could_not_be_sent_goes_with_the_next(tmp_path: Path) -> None:
    path = tmp_path / "notify"
    systemd = Systemd.of({"NOTIFY_SOCKET": str(path)})
    systemd.ready(standing)  # nobody is there
    systemd.status("one")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(patient(30))
        systemd.status("two")
        assert heard(manager) == ["READY=1", "STATUS=two"]
        for number in range(10_000):
            systemd.status(f"line {number}")  # more than the queue takes, and nobody is waited for
        while select.select([manager], [], [], 0)[0]:
            assert heard(manager)[0].startswith("STATUS=line ")
        systemd.stopping(0)
        assert heard(manager) == ["STATUS=line 9999", "STOPPING=1", "EXTEND_TIMEOUT_USEC=20000000"]
    systemd.close()


@in_a_loop
async def test_a_service_that_cannot_say_how_it_stands_is_alive_all_the_same(manager: socket.socket) -> None:
    def broken() -> str:
        raise RuntimeError("no idea")

    systemd = Systemd.of(environment(manager, WATCHDOG_USEC=OFTEN))
    systemd.ready(broken)
    for _ in range(3):
        await until(manager, "WATCHDOG=1")
    systemd.close()


def test_a_line_is_one_line_of_bounded_length_in_any_bytes(manager: socket.socket) -> None:
    systemd = Systemd.of(environment(manager))
    systemd.status("a\nWATCHDOG=1\udcff" + "x" * 5_000)
    (line,) = heard(manager)
    assert line.startswith("STATUS=a WATCHDOG=1?xxx")
    assert len(line) < 1_100
    systemd.close()
