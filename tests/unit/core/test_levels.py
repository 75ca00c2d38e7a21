"""What an entry holds that is no command: every node does the same with it, whatever it is."""

from __future__ import annotations

import msgspec
import pytest

from raftsched.core import commands as c
from raftsched.core.commands import NESTING_MAX, UNDECODABLE, Accepted, Rejected, check, decode, encode
from raftsched.core.entry import decode_entry, encode_configuration, encode_entry, members_of
from raftsched.core.levels import HISTORY, SINCE, any_later, level_of, newest_level
from raftsched.core.subjects.cluster import Member
from raftsched.core.subjects.keyed import Idempotent
from tests.support.memory_view import World, policy

JUNK = [
    b"\xc0",
    bytes.fromhex("92cd03e701"),  # an unknown number
    bytes.fromhex("9201cd03e7"),  # Form with a number for a cluster
    b"\x92\x0d\xa1\xff",  # text that is no UTF-8
    encode(Idempotent(b"k" * 32, b"d" * 32, b"c1")),
    encode(Idempotent(b"k" * 32, b"d" * 32, encode(Idempotent(b"k" * 32, b"d" * 32, b"c1")))),
    encode(c.Attributed(msgspec.Raw(b"\x91\xcd\x03\xe7"))),
    encode(c.Attributed(msgspec.Raw(encode(c.Attributed(msgspec.Raw(encode(c.Barrier()))))))),
    encode(c.Attributed(msgspec.Raw(encode(Idempotent(b"k" * 32, b"d" * 32, b"c1"))))),
]


@pytest.mark.parametrize("junk", JUNK, ids=range(len(JUNK)))
def test_what_is_no_command_is_refused_and_the_others_are_done(junk: bytes) -> None:
    world = World()
    before = {k: v for k, v in world.view.dump().items() if k not in ("META", "ORIGINS")}
    result = world.entry(encode_entry(world.now, [(9, 1, [encode(c.Barrier()), junk, encode(c.Barrier())])]))
    answers = result.batches[0].answers
    assert answers is not None
    assert [type(answer) for answer in answers] == [Accepted, Rejected, Accepted]
    assert {k: v for k, v in world.view.dump().items() if k not in ("META", "ORIGINS")} == before


def test_a_proposer_with_a_negative_number_is_nobody() -> None:
    world = World()
    result = world.entry(encode_entry(world.now, [(-1, -1, [encode(c.Barrier())]), (9, 2**64 - 1, [])]))
    assert result.batches[0].answers is None
    world.entry(encode_entry(world.now, [(9, 2**64 - 1, []), (9, 2**64 - 2, []), (2**64 - 1, 0, [])]))


BROKEN = [encode_entry(5, [(9, 1, [raw])]) for raw in (b"", b"c1", b"\xdc\xff\xff", b"\x93\xcd\x03\xe7\x01")]


@pytest.mark.parametrize(
    "data", [*BROKEN, b"\x00", b"\x92", b"\x92\x01\xc0", b"\x93\x01\x90\x01", b"\x93", b"\xff" * 9]
)
def test_what_is_no_entry_does_nothing(data: bytes) -> None:
    world = World()
    before = world.view.dump()
    assert decode_entry(data) is None
    assert members_of(data) is None
    assert world.entry(data).batches == []
    assert world.view.dump() == before


def test_nothing_is_let_in_that_is_nested_so_deep_that_it_depends_on_the_node_whether_it_decodes() -> None:
    for raw in (deep(NESTING_MAX + 1), deep(50_000), encode(Idempotent(b"k" * 32, b"d" * 32, deep(900)))):
        with pytest.raises(UNDECODABLE):
            check(raw)
    check(deep(NESTING_MAX - 1))
    for text in ("\u0442" * 9_000, "x" * 9_000):
        check(encode(c.CreateJob("d", None, policy(), text.encode())))


def deep(levels: int) -> bytes:
    """A barrier with a further field, which nobody knows yet."""
    return b"\x92\x03" + b"\x91" * (levels - 1) + b"\xc0"


def test_an_entry_of_the_first_level_is_as_it_ever_was() -> None:
    assert encode_entry(5, [(1, 2, [b"\x91\x03"])]) == b"\x92\x05\x91\x93\x01\x02\x91\x91\x03"
    entry = decode_entry(encode_configuration(5, [Member("a", "h:1", b"s")]))
    assert entry is not None
    assert entry.members == (Member("a", "h:1", b"s"),)


def test_an_entry_carries_the_newest_level_of_its_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    later = newest_level() + 1
    monkeypatch.setitem(SINCE, c.PauseCluster, later)
    monkeypatch.setitem(HISTORY, later, "pauses")
    old, new = encode(c.Barrier()), encode(c.PauseCluster(True))
    someones = encode(c.Attributed(msgspec.Raw(encode(Idempotent(b"k" * 32, b"d" * 32, new)))))
    assert [level_of([raw]) for raw in (old, new, someones, b"c1")] == [1, later, later, 1]
    world = World()
    for raw in (new, someones):
        data = encode_entry(world.now, [(9, world.index, [old, raw])])
        entry = decode_entry(data)
        assert entry is not None
        assert entry.level == later
        world.entry(data)
    assert world.meta.paused


def test_a_command_of_a_later_set_is_refused_where_its_entry_does_not_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """An older leader took it: the nodes that do not know it refuse it, and so must those that do."""
    world = World()
    data = encode_entry(world.now, [(9, 1, [encode(c.PauseCluster(True))])])
    monkeypatch.setitem(SINCE, c.PauseCluster, 2)
    answers = world.entry(data).batches[0].answers
    assert answers is not None
    assert isinstance(answers[0], Rejected)
    assert not world.meta.paused


def test_what_a_command_holds_counts_though_it_is_not_decoded() -> None:
    newest = c.OpenWorker("worker/w1", 0, b"n", 1)
    keyed = Idempotent(b"k" * 32, b"d" * 32, encode(newest))
    for command in (newest, keyed, c.Attributed(msgspec.Raw(encode(newest))), c.Attributed(msgspec.Raw(encode(keyed)))):
        assert level_of([encode(command)]) == 2
        assert any_later([command])
    for command in (c.Barrier(), Idempotent(b"k" * 32, b"d" * 32, encode(c.Barrier()))):
        assert level_of([encode(command)]) == 1
        assert not any_later([command])


@pytest.mark.parametrize(
    "raw", [b"", b"\x90", b"\xdc", b"\xdc\x00\x00", b"\x91\xcc", b"\xa0", b"\x91\xff", b"c1", b"\x92\x64"]
)
def test_bytes_that_are_no_command_are_of_the_first_level(raw: bytes) -> None:
    assert level_of([raw]) == 1


def test_commands_of_long_arrays_have_their_number() -> None:
    short = encode(c.OpenWorker("worker/w1", 0, b"n", 1))
    assert short[0] == 0x9F
    long = b"\xdc\x00\x0f" + short[1:]
    assert (decode(long), level_of([long])) == (decode(short), 2)
