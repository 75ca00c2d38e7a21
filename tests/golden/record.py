"""Makes a golden log: `python -m tests.golden.record NNNN-name`. See README.md.

Logs come from three authors: the unit tests of core (each small world they play with), logs at random, and every
command in bare shapes (what it requires alone; everything set).
"""

from __future__ import annotations

import random
import sys
from collections.abc import Generator
from enum import IntEnum
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from raftsched.core import commands as c
from raftsched.core.apply import apply_entry
from raftsched.core.entry import NewerLog, encode_entry
from raftsched.core.levels import newest_level
from tests.golden.goldenfile import HERE, GoldenEntry, GoldenLog, RecordingView, batches, tags_of, write
from tests.property.author import Author
from tests.support import memory_view
from tests.support.memory_view import T0, World

SEEDS = 24  # logs at random
SEEDS_MAX = 200  # tried until each command was done somewhere
ENTRIES = 40  # of each
ENTRIES_MAX = 60  # longer worlds of unit tests are left out: they count to a limit
BYTES_MAX = 60_000  # and so are those that fill something


class WorldRecorder:
    """Plugin of pytest: keeps the log of each World that a test made."""

    def __init__(self) -> None:
        self.logs: dict[str, list[bytes]] = {}
        self._worlds: list[World] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._worlds.clear()
        made, init = self._worlds, World.__init__

        def remember(world: World, *args: Any, **kwargs: Any) -> None:
            made.append(world)
            init(world, *args, **kwargs)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(memory_view.World, "__init__", remember)
            outcome = yield
        for number, world in enumerate(self._worlds):
            log = list(world.log)
            if len(log) <= ENTRIES_MAX and sum(map(len, log)) <= BYTES_MAX and log not in self.logs.values():
                self.logs[f"{item.nodeid}#{number}"] = log
        return outcome


def replayed(name: str, log: list[bytes]) -> GoldenLog:
    view = RecordingView()
    entries = []
    for index, data in enumerate(log, 1):
        result = apply_entry(view, index, 1, data)
        entries.append(GoldenEntry(index, 1, data, answer_codes(result), view.take_changes()))
    return GoldenLog(name, entries)


def accepted(log: GoldenLog) -> set[int]:
    """Returns the numbers of the commands that were done in it."""
    found = set()
    for entry in log.entries:
        for raws, answers in zip(batches(entry.data), entry.answers, strict=False):
            found |= {tag for raw, code in zip(raws, answers or (), strict=False) if code == "" for tag in tags_of(raw)}
    return found


def answer_codes(result: Any) -> list[list[str] | None]:
    return [
        None if batch.answers is None else [getattr(answer, "code", "") for answer in batch.answers]
        for batch in result.batches
    ]


def command_types() -> list[type]:
    return [kind for kind, _ in c.COMMANDS.values()]


def shapes() -> list[bytes]:
    """Each command with what it requires, and twice with all fields set; the last time for somebody under a key."""
    log = list(World().log)
    r = random.Random(1)
    for number, kind in enumerate(command_types()):
        info = inspect.type_info(kind)
        assert isinstance(info, inspect.StructType)
        bare = kind(**{f.name: _value(r, f.type, f.name) for f in info.fields if f.required})
        full = [kind(**{f.name: _value(r, f.type, f.name) for f in info.fields}) for _ in range(2)]
        batch = [c.encode(x) for x in (bare, *full)]
        if kind is not c.Attributed:
            inner = full[1] if kind is c.Idempotent else c.Idempotent(b"k%d" % number, b"digest", c.encode(full[1]))
            raw = msgspec.Raw(c.encode(inner))
            batch.append(c.encode(c.Attributed(raw, 7, "ana", "op", "/v1/x", "127.0.0.1", "default", True, b"{}")))
        log.append(encode_entry(T0 + number, [(9, number + 1, batch)]))
    return log


def _value(r: random.Random, kind: inspect.Type, name: str) -> Any:
    """Anything of this type that is not what fields default to."""
    if isinstance(kind, inspect.UnionType):
        return _value(r, next(t for t in kind.types if not isinstance(t, inspect.NoneType)), name)
    if isinstance(kind, inspect.StructType):
        return kind.cls(**{f.name: _value(r, f.type, f.name) for f in kind.fields})
    if isinstance(kind, inspect.EnumType):
        assert issubclass(kind.cls, IntEnum)
        return r.choice(list(kind.cls)[1:])
    if isinstance(kind, inspect.BoolType):
        return name not in ("begun", "active", "voter")  # these are true unless said otherwise
    if name == "level":
        return newest_level()  # a version stops at a later one
    if name == "weight":
        return r.choice([2, 6])  # 1 is what it is by default
    if isinstance(kind, inspect.IntType):
        return r.choice([1, 2, 6, 61_000, T0])
    if isinstance(kind, inspect.StrType):
        return r.choice(["a", "n2", "büro", "x" * 40])
    if isinstance(kind, inspect.BytesType):
        return c.encode(c.PauseCluster(True)) if name == "command" else r.choice([b"b", b"\0" * 24, b"\xff" * 32])
    if isinstance(kind, inspect.RawType):
        return msgspec.Raw(c.encode(c.PauseCluster(True)))
    if isinstance(kind, inspect.VarTupleType):
        return tuple(_value(r, kind.item_type, name) for _ in range(2))
    if isinstance(kind, inspect.TupleType):
        return tuple(_value(r, t, name) for t in kind.item_types)
    if isinstance(kind, inspect.ListType):
        return [_value(r, kind.item_type, name)]
    raise TypeError(f"{name}: {kind}")


def main(name: str) -> None:
    recorder = WorldRecorder()
    if (
        pytest.main(
            ["-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestWarning", "tests/unit/core"],
            plugins=[recorder],
        )
        != 0
    ):
        sys.exit("the unit tests of core do not pass")
    logs = recorder.logs
    logs["shapes"] = shapes()
    golden = []
    for what, log in logs.items():
        try:
            golden.append(replayed(what, log))
        except NewerLog:
            print(f"{what}: left out, of a version to come")
    tags = {kind.__struct_config__.tag for kind in command_types()}  # type: ignore[attr-defined]
    done = {tag for log in golden for tag in accepted(log)}
    for seed in range(SEEDS_MAX):
        if seed >= SEEDS and done >= tags:
            break
        log = replayed(f"author {seed}", Author(seed).write(ENTRIES))
        if seed < SEEDS or accepted(log) - done:
            golden.append(log)
            done |= accepted(log)
    if tags - done:
        sys.exit(f"no log has these done: {sorted(tags - done)}")
    path = HERE / f"{name}.xz"
    write(path, golden)
    print(
        f"{path}: {len(golden)} logs, {sum(len(log.entries) for log in golden)} entries, {path.stat().st_size:,} bytes"
    )


if __name__ == "__main__":
    main(sys.argv[1])
