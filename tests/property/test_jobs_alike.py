"""Jobs that are alike, made by one command, are as made by a command each: rows, answers, notes of the audit."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
from hypothesis import given, note, settings
from hypothesis import strategies as st

from raftsched.core import commands as c
from raftsched.core.apply import apply_entry
from raftsched.core.commands import Accepted, Answer, Command, CreateJobs, encode, unwrap
from raftsched.core.entry import encode_entry
from tests.property.author import Author
from tests.support.amounts import examples
from tests.support.memory_view import MemoryView, World, at, policy

Rows = dict[str, list[tuple[bytes, bytes]]]


def applied(
    log: list[bytes], now_ms: int, entries: Sequence[Sequence[Command]]
) -> tuple[list[Answer], Rows, list[object]]:
    """Returns the answers to what follows a log, the rows that there are then, and what came about."""
    view = MemoryView()
    for index, data in enumerate(log, 1):
        apply_entry(view, index, 1, data)
    answers: list[Answer] = []
    actions: list[object] = []
    for number, commands in enumerate(entries, 1):
        data = encode_entry(now_ms, [(99, number, [encode(command) for command in commands])])
        result = apply_entry(view, len(log) + number, 1, data)
        actions += result.actions
        for command, answer in zip(commands, result.batches[0].answers or (), strict=True):
            answers += answer.each if isinstance(answer, Accepted) and answer.each else [answer] * _count(command)
    return answers, view.dump(), actions


def _count(command: Command) -> int:
    """Returns the number of jobs that a command makes."""
    inner = unwrap(command) if isinstance(command, c.Attributed) else command
    return len(inner.bodies) if isinstance(inner, CreateJobs) else 1


def asked(command: Command, who: tuple[int, str] | None) -> Command:
    if who is None:
        return command
    return c.Attributed(msgspec.Raw(encode(command)), *who, "jobs_create_batch", work=True, remote="127.0.0.1")


def one_by_one(command: Command) -> list[Command]:
    return [command.one(at) for at in range(len(command.bodies))] if isinstance(command, CreateJobs) else [command]


@settings(max_examples=examples(150))
@given(st.integers(0, 2**32))
def test_one_command_for_all_does_what_a_command_for_each_does(seed: int) -> None:
    note(f"seed {seed}")
    author = Author(seed)
    log = author.write(30)
    r = random.Random(seed)
    who = r.choice([None, (0, ""), (7, "ana")])
    entries: list[list[Command]] = []
    while len(entries) < 6:
        command = author._create_alike()
        assert isinstance(command, CreateJobs)
        if command.bodies:
            entries.append([command, *([author._create()] if r.random() < 0.3 else [])])
    together = [[asked(command, who) for command in commands] for commands in entries]
    apart = [[asked(one, who) for command in commands for one in one_by_one(command)] for commands in entries]
    assert applied(log, author.now, together) == applied(log, author.now, apart)


def test_what_is_alike_is_refused_alike_and_what_differs_each_for_itself() -> None:
    world = World()
    content = policy(at(world.now + 5))
    done = world.ok(CreateJobs("default", content, (b"{}",) * 4, names=("a", "b", "a", None), times=(5, 6, 7, -1)))
    assert [getattr(answer, "code", "") for answer in done.each] == ["", "", "name-taken", "invalid-job"]
    assert done.number == 2
    assert [answer.job.fire_at_ms for answer in done.each[:2] if isinstance(answer, Accepted) and answer.job] == [5, 6]


def test_a_column_that_is_too_short_is_refused() -> None:
    world = World()
    for columns in ({"times": (1,)}, {"names": ("a",)}, {"key": b"k" * 32}, {"places": (1, 2)}):
        command = CreateJobs("default", policy(at(5)), (b"{}", b"{}"), **columns)  # type: ignore[arg-type]
        assert world.refused(command) == "invalid-parameter"
