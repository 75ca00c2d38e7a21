"""Ids: text and keys there and back, order, and what is not an id."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftsched.core.ids import (
    instance_key,
    instance_text,
    job_text,
    parse_instance,
    parse_job,
    split_instance,
)
from raftsched.core.tables import after, by_job_key, from_by_job
from tests.support.memory_view import T0, World, every

u64s = st.integers(0, 2**64 - 1)
times = st.integers(0, 10**16 - 1)


@given(u64s)
def test_job_round_trip(job_id: int) -> None:
    text = job_text(job_id)
    assert len(text) == 13
    assert parse_job(text) == job_id


@given(u64s, u64s)
def test_job_texts_sort_like_ids(a: int, b: int) -> None:
    assert (job_text(a) < job_text(b)) == (a < b)


@given(times, u64s, u64s)
def test_instance_round_trip(nominal: int, job_id: int, request: int) -> None:
    key = instance_key(nominal, job_id, request)
    assert split_instance(key) == (nominal, job_id, request)
    assert parse_instance(instance_text(key)) == key
    assert from_by_job(by_job_key(key)) == key


@given(times, times)
def test_keys_sort_by_time(a: int, b: int) -> None:
    assert (instance_key(a, 2**64 - 1, 5) < instance_key(b, 0, 0)) == (a < b)


@given(st.text(max_size=60))
def test_anything_else_is_no_id(text: str) -> None:
    job_id = parse_job(text)
    assert job_id is None or job_text(job_id) == text
    key = parse_instance(text)
    assert key is None or instance_text(key) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "@",
        "0000000000000@",
        "0000000000000@-1",
        "0000000000000@01",  # another spelling of 1
        "0000000000000@1-0000000000000000",  # a scheduled one says nothing
        "0000000000000@1-00000000000000001",
        "0000000000000@1-000000000000000G",
        "0000000000000@99999999999999999",
        "zzzzzzzzzzzzz@1",  # beyond 64 bits
        "000000000000u@1",  # no such letter
        "0000000000000@\u0661",  # a digit, but not ours
    ],
)
def test_not_an_instance(text: str) -> None:
    assert parse_instance(text) is None


@given(st.binary(max_size=5), st.binary(max_size=5))
def test_after_is_above_all_with_the_prefix(prefix: bytes, tail: bytes) -> None:
    end = after(prefix)
    assert end is None or prefix + tail < end
    if end is None:
        assert prefix.strip(b"\xff") == b""


def test_ids_are_never_reused_and_follow_time() -> None:
    world = World()
    first = world.create(every(1000))
    second = world.create(every(1000))
    assert second.id == first.id + 1
    assert first.id >> 20 == T0
    world.now -= 10_000  # another leader, whose clock is behind
    third = world.create(every(1000))
    assert third.id > second.id
    world.forward(20_000)
    assert world.create(every(1000)).id >> 20 == world.now
