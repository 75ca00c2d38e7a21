"""SIGHUP, without a process: what is read, in which order, and what is said of it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from raftsched.config.values import ConfigError
from raftsched.embedded.reload import Reload, Source
from raftsched.embedded.systemd import Systemd
from raftsched.system import background


class House:
    def __init__(self) -> None:
        self.said: dict[str, Any] = {"a": 1, "b": 1}
        self.fails = ""
        self.took: list[tuple[Any, tuple[str, ...]]] = []
        self.new = 0
        self.reads = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.reload = Reload(
            Source(self.read, self.build, dict(self.said), "node.toml"),
            frozenset({"a"}),
            lambda config, names: self.took.append((config, names)),
            self.files,
            Systemd(),
        )

    def read(self) -> Mapping[str, Any]:
        if self.fails:
            raise ConfigError(self.fails)
        return dict(self.said)

    def build(self, settings: Mapping[str, Any]) -> Any:
        if "wrong" in settings.values():
            raise ConfigError("a is wrong")
        return dict(settings)

    async def files(self) -> int:
        self.reads += 1
        await self.gate.wait()
        return self.new

    async def hang_up(self) -> None:
        before = self.reads
        self.reload.ask()
        while self.reads == before or self.reload._busy:  # noqa: ASYNC110 nothing tells of it
            await asyncio.sleep(0.001)


def run(test: Any) -> None:
    async def main() -> None:
        house = House()
        house.reload.start()
        try:
            await test(house)
        finally:
            await house.reload.stop()

    asyncio.run(main())


@pytest.fixture(autouse=True)
def everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "raftsched.reload")


def test_what_can_be_taken_is_and_the_rest_is_named_each_time(caplog: pytest.LogCaptureFixture) -> None:
    async def test(house: House) -> None:
        house.said = {"a": 2, "b": 2}
        for _ in range(2):
            await house.hang_up()
        assert house.took == [({"a": 2, "b": 1}, ("a",))]
        assert caplog.messages == [
            "SIGHUP: node.toml: in use from now on: a",
            *["SIGHUP: node.toml: changed, and taken at the next start: b"] * 2,
        ]

    run(test)


def test_nothing_new_is_said_to_be_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def test(house: House) -> None:
        await house.hang_up()
        house.new = 1
        await house.hang_up()
        assert caplog.messages == ["SIGHUP: nothing has changed"]

    run(test)


@pytest.mark.parametrize(("fails", "value"), [("cannot read it", 2), ("", "wrong")])
def test_what_cannot_be_read_or_be_changes_nothing(caplog: pytest.LogCaptureFixture, fails: str, value: Any) -> None:
    async def test(house: House) -> None:
        house.fails, house.said = fails, {"a": value, "b": 2}
        await house.hang_up()
        assert house.took == []
        (record,) = caplog.records
        assert record.levelname == "ERROR"
        assert record.message.endswith("the settings that were read before stay in use")
        house.fails, house.said = "", {"a": 3, "b": 1}
        await house.hang_up()
        assert house.took == [({"a": 3, "b": 1}, ("a",))]

    run(test)


def test_signals_that_come_meanwhile_are_one(caplog: pytest.LogCaptureFixture) -> None:
    async def test(house: House) -> None:
        house.gate.clear()
        house.reload.ask()
        while not house.reads:  # noqa: ASYNC110 nothing tells of it
            await asyncio.sleep(0.001)
        for _ in range(5):
            house.reload.ask()
        house.gate.set()
        while house.reads < 2 or house.reload._busy:  # noqa: ASYNC110 nothing tells of it
            await asyncio.sleep(0.001)
        assert house.reads == 2

    run(test)


def test_a_fault_ends_nothing(faults: Counter[background.TaskName]) -> None:
    async def test(house: House) -> None:
        house.reload._files = lambda: 1 // 0  # type: ignore[assignment,return-value]
        house.reload.ask()
        while house.reload._asked.is_set() or house.reload._busy:  # noqa: ASYNC110 nothing tells of it
            await asyncio.sleep(0.001)
        assert faults["other"] == 1
        house.reload._files = house.files
        await house.hang_up()

    run(test)
