"""What runs that share a process print, as their keeper tells it apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from raftsched.output.format.spool import STDERR, STDOUT, render
from raftsched.worker.processes import wire
from raftsched.worker.processes.pages import RunsPage
from raftsched.worker.processes.run_outputs import HEAD, PART_MAX, RunOutputs, hiding_parts, parts


@pytest.fixture
def page() -> RunsPage:
    made = RunsPage()
    made.turn_to(1, 1_000)
    made.turn_to(2, 100_000)
    return made


def text(found: wire.Collected) -> str:
    return render(found.frames).decode()


def test_parts_of_several_are_told_apart_however_they_are_read(page: RunsPage, tmp_path: Path) -> None:
    outputs = RunOutputs(page, str(tmp_path))
    long = b"long " * 2_000
    assert len(list(parts(2, STDOUT, long))) == -(-len(long) // PART_MAX)
    data = b"".join((*parts(1, STDOUT, b"one\n"), *parts(2, STDOUT, long), *parts(1, STDERR, b"err\n")))
    for at in range(0, len(data), 7):
        outputs.feed(data[at : at + 7])
    assert text(outputs.finish(1)) == "one\nerr\n"
    assert text(outputs.finish(2)) == long.decode()
    assert outputs.finish(1) == wire.Collected(b"", False, 0, "", 1)


def test_each_is_bounded_by_what_is_kept_of_it(page: RunsPage, tmp_path: Path) -> None:
    outputs = RunOutputs(page, str(tmp_path))
    for one in (1, 2):
        outputs.feed(b"".join(parts(one, STDOUT, b"x" * 5_000)))
    assert [outputs.finish(one).truncated for one in (1, 2)] == [4_000, 0]


def test_nothing_is_kept_of_runs_that_are_not_in_there(page: RunsPage, tmp_path: Path) -> None:
    outputs = RunOutputs(page, str(tmp_path))
    outputs.feed(b"".join(parts(3, STDOUT, b"forged")))
    page.turn_from(1)
    outputs.feed(b"".join(parts(1, STDOUT, b"late")))
    assert list(outputs.rest()) == []


def test_what_a_thread_prints_after_the_end_of_its_run_is_dropped(page: RunsPage, tmp_path: Path) -> None:
    """The page says that the run is in there until the supervisor has its output."""
    outputs = RunOutputs(page, str(tmp_path))
    outputs.feed(b"".join(parts(1, STDOUT, b"one")))
    assert text(outputs.finish(1)) == "one"
    outputs.feed(b"".join((*parts(1, STDOUT, b"late"), *hiding_parts(1, ("late",)))))
    page.turn_from(1)
    assert outputs.flush(1 << 60) is None
    assert list(outputs.rest()) == []
    assert list(tmp_path.iterdir()) == []


def test_values_are_hidden_in_the_output_of_their_run(page: RunsPage, tmp_path: Path) -> None:
    outputs = RunOutputs(page, str(tmp_path))
    values = tuple(f"value {i} " + "x" * 3_000 for i in range(4))
    outputs.feed(b"".join(hiding_parts(2, (*values, "secret"))))
    outputs.feed(b"".join((*parts(1, STDOUT, b"secret"), *parts(2, STDOUT, b"a secret, " + values[3].encode()))))
    outputs.unclaimed.write(STDERR, b"the secret of no run", 0)
    assert text(outputs.finish(1)) == "secret"
    assert "secret" not in text(outputs.finish(2))
    assert "secret" not in outputs.unclaimed.tail()


def test_what_is_no_part_is_the_end_of_telling_them_apart(page: RunsPage, tmp_path: Path) -> None:
    outputs = RunOutputs(page, str(tmp_path))
    outputs.feed(b"".join(parts(1, STDOUT, b"one")))
    outputs.feed(HEAD.pack(1, STDOUT, PART_MAX + 1) + b"?" * 9_000)
    outputs.feed(b"".join(parts(1, STDOUT, b"two")))
    assert text(outputs.finish(1)) == "one"
