"""Names are resolved in threads, of which a name has one; addresses need none."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from raftsched.worker.executors import resolving as module
from raftsched.worker.executors.resolving import Resolver
from tests.support.patience import until, within


class Servers:
    """Name servers that answer for a name when they are told to, and say nothing until then."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self._answers: dict[str, threading.Event] = {}

    def getaddrinfo(self, host: str, port: None, *, type: int, flags: int = 0) -> list[object]:
        if flags:
            return list(socket.getaddrinfo(host, port, type=type, flags=flags))
        self.asked[host] += 1
        if not host.startswith("quick"):
            self.of(host).wait()
        if host.endswith("nowhere"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            (socket.AF_INET, type, 6, "", ("192.0.2.1", 0)),
            (socket.AF_INET6, type, 6, "", ("2001:db8::1", 0, 0, 0)),
        ]

    def of(self, host: str) -> threading.Event:
        return self._answers.setdefault(host, threading.Event())

    def answer_all(self) -> None:
        for event in self._answers.values():
            event.set()


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    made = Servers()
    monkeypatch.setattr(module, "_getaddrinfo", made.getaddrinfo)
    monkeypatch.setattr(module, "NAMES_MAX", 2)
    yield made
    made.answer_all()


@pytest.mark.parametrize(
    "host, wanted",
    [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("127.1", "127.0.0.1"), ("0x7f000001", "127.0.0.1")],
)
def test_an_address_needs_no_resolver(servers: Servers, host: str, wanted: str) -> None:
    assert asyncio.run(within(Resolver().addresses(host))) == [wanted]
    assert not servers.asked


async def test_a_name_that_nobody_answers_for_has_one_thread_however_many_want_it(servers: Servers) -> None:
    resolver = Resolver()
    waiting = [asyncio.create_task(resolver.addresses("silent")) for _ in range(20)]
    found = await within(resolver.addresses("quick"))
    assert found == ["192.0.2.1", "2001:db8::1"]
    for task in waiting[1:]:
        task.cancel()
    await within(asyncio.wait(waiting[1:]))
    again = asyncio.create_task(resolver.addresses("silent"))
    assert await within(resolver.addresses("quick.too")) == found
    assert servers.asked == {"silent": 1, "quick": 1, "quick.too": 1}
    servers.of("silent").set()
    assert await within(waiting[0]) == await within(again) == found
    assert await within(resolver.addresses("silent")) == found
    assert servers.asked["silent"] == 2, "it may have changed"


async def test_who_waits_for_a_thread_and_leaves_takes_none(servers: Servers) -> None:
    resolver = Resolver()
    silent = [asyncio.create_task(resolver.addresses(f"silent{n}")) for n in range(2)]
    await until(lambda: len(servers.asked) == 2)
    left = [asyncio.create_task(resolver.addresses("left")) for _ in range(2)]
    await asyncio.sleep(0)
    left[0].cancel()
    left[1].cancel()
    again = asyncio.create_task(resolver.addresses("left"))  # before anybody has noticed
    await within(asyncio.wait(left))
    again.cancel()
    await within(asyncio.wait([again]))
    quick = asyncio.create_task(resolver.addresses("quick"))
    servers.of("silent0").set()
    assert await within(quick)
    assert "left" not in servers.asked
    servers.answer_all()
    await within(asyncio.gather(*silent))


async def test_a_name_that_is_none_is_an_error_for_all_who_want_it(servers: Servers) -> None:
    resolver = Resolver()
    tasks = [asyncio.create_task(resolver.addresses("quick.nowhere")) for _ in range(2)]
    done, _ = await within(asyncio.wait(tasks))
    assert [type(task.exception()) for task in done] == [socket.gaierror] * 2
    with pytest.raises(UnicodeError):
        await resolver.addresses("a" * 64 + ".example")
