"""A pytest plugin that records what each test and each shared fixture costs, and what was started for it.

Where the environment variable RAFTSCHED_TEST_RECORDS names a folder, as `./scripts/test` does, each pytest process
writes a file of JSON lines there:

    {"kind": "test", "name": NODE_ID, "outcome": "passed", "wall_s": 0.2, "cpu_s": 0.1, "at": UNIX_S, "lane": "1: e2e"}
    {"kind": "fixture", "name": NAME, "scope": "module", "test": NODE_ID, "wall_s": 3.1, "cpu_s": 2.5, ...}
    {"kind": "started", "what": "node", "test": NODE_ID}

Processor time is that of the pytest process and of all processes below it that live or were waited for. Processes that
were left behind by their parents are not in it. Programs that tests start write `started` lines, too.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.started import RECORDS, write_record

_TICKS = os.sysconf("SC_CLK_TCK")
_OUTCOME = pytest.StashKey[str]()


def cpu_s() -> float:
    """Returns the processor seconds of this process and of those below it."""
    own, waited = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + waited.ru_utime + waited.ru_stime + _living(os.getpid()) / _TICKS


def _living(pid: int) -> int:
    """Returns the ticks of all living processes below this one, with those of the children that they waited for."""
    ticks = 0
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            for child in _read(f"/proc/{pid}/task/{thread}/children").split():
                # The fields from the third on (proc(5)): utime, stime, cutime and cstime are 14 to 17.
                fields = _read(f"/proc/{int(child)}/stat").rpartition(b")")[2].split()
                ticks += sum(map(int, fields[11:15])) + _living(int(child))
    except OSError:  # a process that has ended, or a kernel that does not tell
        pass
    return ticks


def _read(path: str) -> bytes:
    """Returns a small file of /proc. Each test asks for some, and a file object costs more than the kernel's answer."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 65536)
    finally:
        os.close(descriptor)


@dataclass
class _Meter:
    at: float
    cpu: float

    @classmethod
    def start(cls) -> _Meter:
        return cls(time.time(), cpu_s())

    def costs(self) -> dict[str, float]:
        """Returns what was spent since the start. Processes that were left behind take their time with them."""
        wall, cpu = time.time() - self.at, max(0.0, cpu_s() - self.cpu)
        return {"at": round(self.at, 3), "wall_s": round(wall, 4), "cpu_s": round(cpu, 4)}


class Recorder:
    """The hooks of pytest. It is there only where records are kept."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, Any, Any]:
        meter = _Meter.start()
        result = yield
        write_record({"kind": "collection", "name": "collection", **meter.costs()})
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        meter = _Meter.start()
        result = yield
        outcome = item.stash.get(_OUTCOME, "passed")
        write_record({"kind": "test", "name": item.nodeid, "outcome": outcome, **meter.costs()})
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        report = yield
        if report.outcome != "passed":
            item.stash[_OUTCOME] = report.outcome
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, Any, Any]:
        if fixturedef.scope == "function":  # its cost is the test's
            return (yield)
        meter = _Meter.start()
        try:
            return (yield)
        finally:
            costs = meter.costs()
            if costs["wall_s"] > 0.01:
                said = {"name": fixturedef.argname, "scope": fixturedef.scope, "test": request.node.nodeid}
                write_record({"kind": "fixture", **said, **costs})


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get(RECORDS):
        config.pluginmanager.register(Recorder())
