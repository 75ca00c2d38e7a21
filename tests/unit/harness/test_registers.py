"""The judge of registers, held against histories that are linearizable and histories that are not."""

from __future__ import annotations

import random
from typing import Any

from harness.checkers.registers import State, linearizable, search
from harness.history import Op
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.harness.evidence import Story, at

START = State("a.1", "0")


def read(began: float, ended: float, revision: int, value: str, job: str = "a") -> Op:
    return Op("read", "r", {"key": 0}, at(began), at(ended), "ok", {"version": f"{job}.{revision}", "value": value})


def gone(began: float, ended: float) -> Op:
    """A read that found nothing."""
    return Op("read", "r", {"key": 0}, at(began), at(ended), "fail", {"status": 404})


def same(began: float, ended: float, known: str) -> Op:
    """A read of who knows this version: it still holds."""
    return Op("read", "r", {"key": 0, "known": known}, at(began), at(ended), "fail", {"status": 304})


def remove(began: float, ended: float | None, expected: str, kind: str = "ok", status: int = 412) -> Op:
    answer: dict[str, Any] = {"status": status} if kind == "fail" else {}
    request = {"key": 0, "expected": expected}
    return Op("remove", "d", request, at(began), None if ended is None else at(ended), kind, answer)


def make(began: float, ended: float | None, job: str, value: str, kind: str = "ok") -> Op:
    answer: dict[str, Any] = {"version": f"{job}.1"} if kind == "ok" else {}
    if kind == "fail":
        answer = {"status": 412}
    return Op("make", "m", {"key": 0, "value": value}, at(began), None if ended is None else at(ended), kind, answer)


def write(
    began: float,
    ended: float | None,
    expected: int,
    value: str,
    kind: str = "ok",
    revision: int | None = None,
    job: str = "a",
    status: int = 412,
) -> Op:
    answer: dict[str, Any] = {"version": f"{job}.{revision or expected + 1}"} if kind == "ok" else {}
    if kind == "fail":
        answer = {"status": status}
    request = {"key": 0, "expected": f"{job}.{expected}", "value": value}
    return Op("write", "w", request, at(began), None if ended is None else at(ended), kind, answer)


def good(*ops: Op) -> bool:
    return search(ops, START) is None


def test_one_after_the_other() -> None:
    assert good(read(0, 1, 1, "0"), write(2, 3, 1, "a"), read(4, 5, 2, "a"), write(6, 7, 2, "b"), read(8, 9, 3, "b"))


def test_a_read_beside_a_write_may_see_either() -> None:
    assert good(write(0, 10, 1, "a"), read(1, 2, 1, "0"), read(3, 4, 2, "a"))
    assert not good(write(0, 10, 1, "a"), read(1, 2, 2, "a"), read(3, 4, 1, "0"))


def test_a_stale_read_is_found() -> None:
    assert not good(write(0, 1, 1, "a"), read(2, 3, 1, "0"))


def test_a_read_of_what_is_not_written_yet_is_found() -> None:
    assert not good(read(0, 1, 2, "a"), write(2, 3, 1, "a"))


def test_a_lost_update_is_found() -> None:
    """Two writers expected the same revision, and both were told that theirs is in."""
    assert not good(write(0, 1, 1, "a"), write(0, 1, 1, "b"))
    assert not good(write(0, 1, 1, "a"), write(2, 3, 1, "b", revision=3))


def test_a_value_under_another_revision_is_found() -> None:
    assert not good(write(0, 1, 1, "a"), read(2, 3, 3, "a"))
    assert not good(read(0, 1, 1, "zero"))


def test_a_write_without_an_answer_may_have_happened_or_not() -> None:
    assert good(write(0, None, 1, "a", "unknown"), read(1, 2, 1, "0"), read(3, 4, 2, "a"))
    assert good(write(0, None, 1, "a", "unknown"), read(1, 2, 1, "0"), write(3, 4, 1, "b"))
    assert not good(write(0, None, 1, "a", "unknown"), read(1, 2, 2, "a"), read(3, 4, 1, "0"))
    assert not good(read(0, 1, 2, "a"), write(2, None, 1, "a", "unknown"))


def test_a_write_without_an_answer_happens_once() -> None:
    history = (write(0, None, 1, "a", "unknown"), write(3, 4, 1, "b"), read(5, 6, 2, "b"))
    assert good(*history)
    assert not good(*history, read(7, 8, 2, "a"))


def test_a_refusal_needs_another_revision() -> None:
    assert good(write(0, 1, 1, "a"), write(2, 3, 1, "b", "fail"))
    assert not good(write(0, 1, 1, "b", "fail"), write(2, 3, 1, "a"))
    assert not good(write(0, 1, 1, "b", "fail"))


def test_a_write_that_failed_did_nothing() -> None:
    refused = Op("write", "w", {"key": 0, "expected": "a.1", "value": "a"}, at(0), at(1), "fail", {"status": 503})
    assert good(refused, read(2, 3, 1, "0"))
    assert not good(refused, read(2, 3, 2, "a"))


# ---------------------------------------------------------------- deleted, and made anew


def test_what_is_deleted_is_gone_until_it_is_made_anew() -> None:
    anew = (remove(0, 1, "a.1"), gone(2, 3), make(4, 5, "b", "x"), read(6, 7, 1, "x", "b"))
    assert good(*anew, write(8, 9, 1, "y", job="b"), read(10, 11, 2, "y", "b"))
    assert not good(remove(0, 1, "a.1"), read(2, 3, 1, "0"))
    assert not good(gone(0, 1), remove(2, 3, "a.1"))
    assert not good(make(0, 1, "b", "x"))
    assert not good(*anew[:3], gone(6, 7))
    assert not good(*anew, write(8, 9, 1, "y", job="b"), read(10, 11, 2, "y", "a"))


def test_who_knows_the_register_before_changes_no_other() -> None:
    """The revisions are the same, the jobs are not."""
    anew = (remove(0, 1, "a.1"), make(2, 3, "b", "x"))
    assert not good(*anew, write(4, 5, 1, "y", revision=2))
    assert not good(*anew, remove(4, 5, "a.1"))
    assert good(*anew, write(4, 5, 1, "y", "fail"), remove(6, 7, "a.1", "fail"), read(8, 9, 1, "x", "b"))


def test_who_knows_the_register_before_is_told_of_the_other() -> None:
    assert good(same(0, 1, "a.1"), remove(2, 3, "a.1"), make(4, 5, "b", "x"), same(6, 7, "b.1"))
    assert not good(remove(0, 1, "a.1"), make(2, 3, "b", "x"), same(4, 5, "a.1"))
    assert not good(remove(0, 1, "a.1"), same(2, 3, "a.1"))


def test_refusals_say_what_is_there() -> None:
    assert good(make(0, 1, "b", "x", "fail"))
    assert good(remove(0, 1, "a.1"), write(2, 3, 1, "y", "fail", status=404), remove(2, 3, "a.1", "fail", 404))
    assert not good(remove(0, 1, "a.1"), make(2, 3, "b", "x", "fail"))
    assert not good(write(0, 1, 1, "y", "fail", status=404))


def test_a_delete_or_a_create_without_an_answer_may_have_happened_or_not() -> None:
    lost = remove(0, None, "a.1", "unknown")
    assert good(lost, read(1, 2, 1, "0"), gone(3, 4))
    assert good(lost, gone(1, 2), make(3, 4, "b", "x"))
    assert not good(lost, gone(1, 2), read(3, 4, 1, "0"))
    made = make(2, None, "b", "x", "unknown")
    assert good(remove(0, 1, "a.1"), made, gone(3, 4), read(5, 6, 1, "x", "b"))
    assert good(remove(0, 1, "a.1"), made, make(3, 4, "c", "y"), read(5, 6, 1, "y", "c"))
    assert not good(remove(0, 1, "a.1"), made, read(3, 4, 1, "x", "b"), gone(5, 6))


def test_what_is_found_is_told() -> None:
    story = Story()
    story.note("register", key=0, value="0", version="a.1")
    story.record.ops += [write(0, 1, 1, "a"), read(2, 3, 1, "0")]
    finding = linearizable(story.evidence)
    assert finding.looked_at == 2
    assert len(finding.wrong) == 1
    assert "register 0" in finding.wrong[0]


class Register:
    """A true one, and clients whose calls take a while on either side of what it does."""

    def __init__(self, rng: random.Random, clients: int, calls: int) -> None:
        self.ops: list[Op] = []
        self.reads: list[int] = []
        revision, value, number = 1, "0", 0
        moments = sorted((rng.random() * 100, rng.randrange(clients)) for _ in range(calls))
        free = [0.0] * clients
        last_seen = [1] * clients
        for moment, client in moments:
            if moment <= free[client]:
                continue
            began = rng.uniform(free[client], moment)
            ended = moment + rng.random() * 5
            free[client] = ended
            if rng.random() < 0.5:
                self.reads.append(len(self.ops))
                self.ops.append(read(began, ended, revision, value))
                last_seen[client] = revision
                continue
            number += 1
            expected = last_seen[client]
            done = expected == revision
            lost = rng.random() < 0.2
            if done:
                revision, value = revision + rng.randint(1, 2), f"v{number}"
            kind = "unknown" if lost else "ok" if done else "fail"
            self.ops.append(write(began, None if lost else ended, expected, f"v{number}", kind, revision))
            if lost:
                self.ops[-1].answer = {}


@given(st.randoms(use_true_random=False), st.integers(1, 5), st.integers(1, 60))
def test_what_a_true_register_answers_is_accepted(rng: random.Random, clients: int, calls: int) -> None:
    assert search(Register(rng, clients, calls).ops, START) is None


@given(st.randoms(use_true_random=False), st.integers(1, 5), st.integers(10, 60))
def test_an_answer_from_nowhere_is_refused(rng: random.Random, clients: int, calls: int) -> None:
    register = Register(rng, clients, calls)
    if register.reads:
        register.ops[rng.choice(register.reads)].answer["value"] = "from nowhere"
        assert search(register.ops, START) is not None
