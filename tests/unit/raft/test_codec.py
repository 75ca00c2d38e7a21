"""Frames, and the ban on pickle."""

from __future__ import annotations

import gc
import os
import pickle
import random
import shutil
import struct
from pathlib import Path
from zlib import crc32

import msgspec
import pysyncobj.pickle
import pytest

from raftsched.errors import StartupError
from raftsched.raft import codec
from raftsched.raft.consensus import library_check
from tests.support.raft_net import Net
from tests.support.raft_replica import append, hello

FRAMES: list[codec.Frame] = [
    hello("a", remembered={"b": b"x"}),
    codec.Proof(b"m"),
    codec.Refused("no"),
    codec.Welcome(),
    codec.KeepAlive(),
    append(3, 1, 2, [2, 3], commit=1),
    codec.AppendAnswer(3, 4, True, False),
    codec.VoteRequest(3, 4, 2),
    codec.VoteAnswer(3, True),
    codec.PreVoteRequest(4, 4, 2, 9),
    codec.PreVoteAnswer(3, 9, False),
    codec.Ping(3, 1 << 45),
    codec.Ping(3, 1 << 45, 1 << 41),
    codec.Pong(3, 1 << 45, 1 << 42, True),
    codec.TimeoutNow(3),
    codec.Propose(3, [((1 << 63) - 1, 1, [b"c", b""])]),
    codec.ProposeRefused(3),
    codec.ProposeRejected(3, 1, [0, 2]),
    codec.Message("heartbeat", b"\x00\xff"),
    codec.SnapshotOffer(3, 9, 2, 100, b"s"),
    codec.SnapshotChunk(3, 9, 0, 7, b"data"),
    codec.SnapshotAnswer(3, 9, b"s", 4),
]


def test_every_frame_survives_the_wire_however_it_is_cut() -> None:
    stream = b"".join(codec.encode(frame) for frame in FRAMES)
    for step in (1, 7, len(stream)):
        reader = codec.Reader(1_000_000)
        got = [f for at in range(0, len(stream), step) for f in reader.feed(stream[at : at + step])]
        assert got == FRAMES


def test_an_append_is_understood_by_members_of_before_it_said_whether_it_wants_an_answer() -> None:
    class Before(msgspec.Struct, array_like=True, frozen=True, tag=10):
        term: int
        prev_index: int
        prev_term: int
        commit: int
        entries: list[tuple[int, bytes]]

    alone = codec.Append(3, 2, 1, 2, [], wants_answer=False)
    before = msgspec.msgpack.decode(codec.payload(alone), type=Before)
    assert before == Before(3, 2, 1, 2, [])
    assert codec.decode(msgspec.msgpack.encode(before)) == codec.Append(3, 2, 1, 2, [], wants_answer=True)


def framed(body: bytes) -> bytes:
    return struct.pack(">II", len(body), crc32(body)) + body


@pytest.mark.parametrize(
    "data",
    [
        framed(pickle.dumps({"type": "append_entries"})),
        framed(b"\x91\x63"),  # an unknown number
        framed(b""),
        framed(b"\x92\x10\xa1x"),  # a ping with a text for a term
        struct.pack(">II", 4, 1) + b"\x91\x05\x00\x00",  # wrong checksum
        struct.pack(">II", 10_000_000, 0),  # too large
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["pickle", "unknown", "empty", "wrong type", "checksum", "oversized", "http"],
)
def test_anything_else_is_malformed(data: bytes) -> None:
    with pytest.raises(codec.Malformed):
        list(codec.Reader(100_000).feed(data))


@pytest.mark.parametrize("frame", [f for f in FRAMES if f.__struct_fields__], ids=lambda f: type(f).__name__)
def test_a_number_that_no_member_can_mean_is_malformed(frame: codec.Frame) -> None:
    """It would end up in a row, on the disk, or in a sum that does not fit into either."""
    numbers = [n for n in frame.__struct_fields__ if type(getattr(frame, n)) is int]
    for name in numbers:
        for value in (-1, -(2**63), 2**64 - 1):
            if (name, value) != ("request", 2**64 - 1):
                with pytest.raises(codec.Malformed):
                    codec.decode(codec.payload(msgspec.structs.replace(frame, **{name: value})))
    assert numbers or isinstance(frame, (codec.Proof, codec.Refused, codec.Propose, codec.Message))


@pytest.mark.parametrize("number", [-1, 2**63, 2**64 - 1])
def test_so_is_one_inside_of_a_list(number: int) -> None:
    for frame in (
        codec.Propose(3, [(number, 1, [])]),
        codec.Propose(3, [(1, number, [])]),
        codec.Append(3, 1, 2, 0, [(number, b"")]),
        codec.ProposeRejected(3, 1, [number]),
    ):
        with pytest.raises(codec.Malformed):
            codec.decode(codec.payload(frame))


def test_a_term_that_is_out_of_reach_is_malformed() -> None:
    """It would be adopted and written, and no other member could ever lead again."""
    codec.check_term(codec.VoteRequest(7 + 2**32, 1, 1), 7)
    codec.check_term(codec.Welcome(), 7)
    with pytest.raises(codec.Malformed, match="its term is 4294967297 ahead"):
        codec.check_term(codec.VoteRequest(8 + 2**32, 1, 1), 7)


def test_random_bytes_raise_nothing_but_malformed() -> None:
    seed = random.SystemRandom().getrandbits(32)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(2_000):
        body = rng.randbytes(rng.randrange(40))
        try:
            codec.decode(body)
        except codec.Malformed:
            pass


def test_no_pickle_is_ever_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elections, replication, proposals and reconnects, with the library's pickle taken away."""

    def banned(*args: object, **kwargs: object) -> None:
        raise AssertionError("pickle was called")

    for name in ("loads", "dumps", "load", "dump"):
        monkeypatch.setattr(pysyncobj.pickle, name, banned)
    net = Net(tmp_path, random.SystemRandom().getrandbits(32))
    assert net.run(20.0, lambda: net.leader() is not None)
    first = net.propose("a")
    assert net.run(5.0, lambda: first in net.acknowledged)
    leader = net.leader()
    assert leader is not None
    net.kill(leader.name)
    assert net.run(20.0, lambda: net.leader() is not None)
    other = net.leader()
    assert other is not None
    second = net.propose(other.name)
    assert net.run(5.0, lambda: second in net.acknowledged)


@pytest.mark.parametrize(
    "name",
    [
        "_SyncObj__onMessageReceived",
        "_SyncObj__sendAppendEntries",
        "_SyncObj__applyLogEntries",
        "_SyncObj__loadDumpFile",
        "_SyncObj__tryLogCompaction",
        "_applyCommand",
        "_checkCommandsToApply",
        "addNodeToCluster",
        "removeNodeFromCluster",
        "setCodeVersion",
    ],
)
def test_parts_of_the_library_that_are_not_used_raise(tmp_path: Path, name: str) -> None:
    from tests.support.raft_replica import Solo

    core = Solo(tmp_path).engine._core
    with pytest.raises(RuntimeError, match="not used"):
        getattr(core, name)({"type": "append_entries"}, None)


def test_the_library_opens_no_descriptors(tmp_path: Path) -> None:
    from tests.support.raft_replica import Solo

    def descriptors() -> set[tuple[str, str]]:
        listed = Path("/proc/self/fd")
        return {(name, os.readlink(listed / name)) for name in os.listdir(listed) if (listed / name).is_symlink()}

    Solo(tmp_path)
    gc.collect()
    before = descriptors()
    kept = [Solo(tmp_path) for _ in range(5)]
    assert not descriptors() - before  # what other tests left may be closed between the two
    assert kept


def test_only_the_audited_library_is_accepted(tmp_path: Path) -> None:
    library_check.check()
    with pytest.raises(StartupError, match=r"pysyncobj 0\.3\.16 is installed"):
        library_check.check(version="0.3.16")
    package = Path(pysyncobj.pickle.__file__).parent
    for module in package.glob("*.py"):
        shutil.copy(module, tmp_path)
    library_check.check(source=tmp_path)
    for name in ("syncobj.py", "node.py"):  # also one of those that it imports
        kept = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(kept + b"print()")
        with pytest.raises(StartupError, match="not hold the audited files"):
            library_check.check(source=tmp_path)
        (tmp_path / name).write_bytes(kept)
