"""What a node keeps of the output of runs on remote workers: each byte once, in order, for nobody but the run."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from raftsched.cluster_settings import Settings
from raftsched.core import commands as c
from raftsched.core.model import Outcome, OutputRef
from raftsched.core.rules.executors import worker_key
from raftsched.errors import RaftschedError, WrongOffset
from raftsched.output.format.spool import NOTE, STDERR, STDOUT, Capture, pack
from raftsched.output.keeping.output_rules import OutputRules
from raftsched.output.keeping.owner_record import OutputOwner
from raftsched.output.keeping.store import OutputStore, Record
from raftsched.output.keeping.together import append_each
from raftsched.output.receivers.marks import Marks
from raftsched.output.receivers.unshipped import Unshipped
from raftsched.remote import frames
from raftsched.remote.frames import Piece
from raftsched.remote.outputs import Outputs
from raftsched.surface.worker_sessions import OutputPlace, Printed
from raftsched.system import background
from tests.support.async_tests import entered
from tests.support.clock import ManualClock
from tests.support.memory_view import MemoryView, World
from tests.support.patience import until

OWNER = OutputOwner("default", "job", "0d3k@1", 1, "w1")


class Node:
    """A node and a world in memory, with a worker and its runs."""

    def __init__(
        self, directory: Path, limit: int | None = 1024 * 1024, short: Callable[[], bool] = lambda: False
    ) -> None:
        self.world = World(MemoryView())
        self.store = OutputStore(directory, max_attempt_bytes=limit or 1)
        self.told: list[bytes] = []
        self.clock = ManualClock()
        self.rules = OutputRules(lambda: nullcontext(self.world.view))
        self.outputs = Outputs(
            "n1",
            self.store,
            lambda: nullcontext(self.world.view),
            self.clock,
            short_of_disk=short,
            tell=self.told.append,
            rules=self.rules if limit is None else None,
        )
        self.session, self.text = self.open("w1")

    async def __aenter__(self) -> Node:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.outputs.stop()
        self.store.close()

    def open(self, name: str) -> tuple[int, str]:
        nonce = name.encode().ljust(16, b"\0")
        number = self.world.ok(c.OpenWorker(worker_key(name), 0, nonce, slots=4, handlers=("exec",))).number
        assert number is not None
        return number, f"{number}-{nonce.hex()}"

    def assign(self, session: int | None = None) -> int:
        key = self.world.run_now(self.world.create())
        token = self.world.ok(c.Assign(key, self.session if session is None else session)).number
        assert token is not None
        return token

    async def put(self, token: int, offset: int, *pieces: Piece | bytes, end: bool = False) -> Any:
        whole = [piece if isinstance(piece, Piece) else Piece(STDOUT, piece) for piece in pieces]
        return await self.outputs.put(self.text, token, offset, whole, end=end)

    def read(self, place: OutputPlace, token: int, stream: str | None = None) -> bytes:
        _, ref = self.outputs.verify(place)
        return self.store.open(ref, stream, token).read(0)


@pytest.fixture
def node(tmp_path: Path, asyncio_runner: asyncio.Runner) -> Iterator[Node]:
    with entered(asyncio_runner, Node(tmp_path)) as node:
        yield node


async def test_pieces_are_read_while_the_run_lasts_and_from_their_place_after_its_end(node: Node) -> None:
    token = node.assign()
    assert (await node.put(token, 0, b"one\n")).offset == 4
    assert (await node.put(token, 4, Piece(STDERR, b"oops\n"), b"two\n")).offset == 13
    assert node.store.live(token) == b"one\noops\ntwo\n"
    assert node.store.live(token, "stderr") == b"oops\n"
    answer = await node.put(token, 13, b"three\n", end=True)
    assert answer.offset == 19
    assert node.read(answer.output, token) == b"one\noops\ntwo\nthree\n"
    assert node.read(answer.output, token, "stderr") == b"oops\n"
    assert len(node.told) == 1, "the others are told once who has it"


async def test_whatever_is_sent_again_is_there_once(node: Node) -> None:
    token = node.assign()
    for _ in range(2):
        assert (await node.put(token, 0, b"one ")).offset == 4
    for _ in range(2):
        assert (await node.put(token, 4, b"two")).offset == 7
    places = [(await node.put(token, 7, b".", end=True)).output for _ in range(3)]
    assert places[0] is not None
    assert places == [places[0]] * 3
    assert (await node.put(token, 8, end=True)).output == places[0], "nor does the end come with something"
    assert node.read(places[0], token) == b"one two."


@pytest.mark.parametrize("offset", [0, 2, 5, 100])
async def test_a_piece_that_begins_elsewhere_is_told_where_to_begin(node: Node, offset: int) -> None:
    token = node.assign()
    with pytest.raises(WrongOffset) as refused:
        await node.put(token, 4, b"later")
    assert refused.value.offset == 0, "another node had the beginning"
    await node.put(token, 0, b"four")
    with pytest.raises(WrongOffset) as refused:
        await node.put(token, offset, b"another one")
    assert refused.value.offset == 4
    await node.put(token, 4, end=True)
    with pytest.raises(WrongOffset) as refused:
        await node.put(token, offset, b"more")
    assert refused.value.offset == 4


@pytest.mark.parametrize("offset", [0, 4])
async def test_a_piece_after_the_end_is_told_that_there_is_an_end(node: Node, offset: int) -> None:
    token = node.assign()
    place = (await node.put(token, 0, b"four", end=True)).output
    for end in (False, True):
        with pytest.raises(WrongOffset) as refused:
            await node.put(token, offset, b"more of it", end=end)
        assert "go on" not in refused.value.detail
        assert "has ended at offset 4" in refused.value.detail
        assert "nothing more is taken" in refused.value.detail
    assert (await node.put(token, 4, end=True)).output == place, "the end may be sent again, as that says"


async def test_many_pieces_at_once_are_taken_one_after_the_other(node: Node) -> None:
    token = node.assign()
    results = await asyncio.gather(*(node.put(token, 0, b"same") for _ in range(20)))
    assert {answer.offset for answer in results} == {4}
    assert node.store.live(token) == b"same"


async def test_who_hangs_up_leaves_no_half_of_a_piece(node: Node) -> None:
    token = node.assign()
    hasty = asyncio.ensure_future(node.put(token, 0, b"x" * 500_000))
    await asyncio.sleep(0)
    hasty.cancel()
    await asyncio.gather(hasty, return_exceptions=True)
    assert (await node.put(token, 0, b"x" * 500_000)).offset == 500_000
    assert node.store.live(token) == b"x" * 500_000


async def test_the_middle_is_left_out_as_of_own_runs(tmp_path: Path) -> None:
    async with Node(tmp_path, limit=200) as node:
        token = node.assign()
        for at in range(0, 1_000, 100):
            await node.put(token, at, b"%d" % (at // 100) * 100)
        answer = await node.put(token, 1_000, end=True)
        assert answer.output.truncated == 800
        note = b"\n[... 800 bytes of output left out ...]\n"
        assert node.read(answer.output, token) == b"0" * 100 + note + b"9" * 100


async def test_what_the_worker_left_out_counts_as_if_it_was_there(node: Node) -> None:
    token = node.assign()
    body = b"".join(map(frames.encode, (Piece(STDOUT, b"head"), Piece(NOTE, b"", 50), Piece(STDERR, b"tail"))))
    assert (await node.put(token, 0, *frames.decode(body))).offset == 58
    answer = await node.put(token, 58, end=True)
    assert answer.output.truncated == 50
    assert node.read(answer.output, token) == b"head\n[... 50 bytes of output left out ...]\ntail"


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (b"\1\0\0", "no whole head"),
        (b"\1\5\0\0\0four", "says 5 bytes, and 4 follow"),
        (b"\4\1\0\0\0x", "of stream 4"),
        (b"\3\1\0\0\0x", "how many are left out"),
        (b"\3\x08\0\0\0" + b"\xff" * 8, "how many are left out"),
    ],
)
def test_frames_that_are_none_are_refused(body: bytes, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        frames.decode(body)


async def test_sessions_and_runs_of_others_are_refused(node: Node) -> None:
    own = node.assign()
    other_session, other_text = node.open("w2")
    others = node.assign(other_session)

    async def code(session: str, token: int) -> str:
        with pytest.raises(RaftschedError) as refused:
            await node.outputs.put(session, token, 0, [Piece(STDOUT, b"x")])
        return refused.value.code

    assert await code(node.text, others) == "not-found"
    assert await code(other_text, own) == "not-found"
    assert await code(node.text, 999_999) == "not-found"
    guessed = f"{node.session}-{'0' * 32}"
    for text in (guessed, str(node.session), "", "x", f"{node.session}-", f"{2**64}-{'0' * 32}"):
        assert await code(text, own) == "session-over"
    node.world.ok(c.EndSession(node.session, node.world.meta.epoch))
    assert await code(node.text, own) == "session-over"


async def test_the_place_of_somebody_elses_output_is_of_no_use(node: Node) -> None:
    mine, others = node.assign(), node.assign()
    secret = (await node.put(others, 0, b"secret", end=True)).output
    _, ref = node.outputs.verify(secret)
    with pytest.raises(RaftschedError, match="another run"):
        node.store.open(ref, token=mine)


@pytest.mark.parametrize(
    "fields",
    [{"node": "no node"}, {"node": "n" * 10_000}, {"segment": -1}, {"offset": 2**60}, {"sha256": "00"}, {"size": -5}],
)
async def test_places_that_no_node_answered_are_refused(node: Node, fields: dict[str, Any]) -> None:
    good = {"node": "n1", "segment": 1, "offset": 0, "size": 1, "sha256": "0" * 64}
    node.outputs.verify(OutputPlace(**good))
    with pytest.raises(RaftschedError, match="what a node answered"):
        node.outputs.verify(OutputPlace(**(good | fields)))


async def test_what_a_report_carries_itself_is_kept(node: Node) -> None:
    token = node.assign()
    assert await node.outputs.store(token, OWNER, 1, "") is None
    ref = await node.outputs.store(token, OWNER, 1, "only this\n")
    assert ref is not None
    assert node.store.open(ref, token=token).read(0) == b"only this\n"
    both = [
        Printed(stream="stdout", text="a"),
        Printed(stream="stderr", text="b"),
        Printed(stream="stdout", text="c"),
    ]
    ref = await node.outputs.store(token, OWNER, 1, both)
    assert ref is not None
    assert node.store.open(ref, "stderr", token).read(0) == b"b"
    ref = await node.outputs.store(token, OWNER, 1, "x" * 60_000)
    assert ref is not None
    assert node.store.open(ref, token=token).size == 60_000
    with pytest.raises(RaftschedError, match="65,536 characters"):
        await node.outputs.store(token, OWNER, 1, [Printed(stream="stdout", text="x" * 40_000)] * 2)


async def test_where_output_is_shipped_it_says_which_worker_ran_it(node: Node, tmp_path: Path) -> None:
    node.store.writes_owners = True
    sent, told = node.assign(), node.assign()
    await node.put(sent, 0, b"sent\n", end=True)
    await node.outputs.store(told, OWNER, 1, "told\n")
    whole = Unshipped(
        node.store.synced(), Marks(tmp_path / "marks", b"", {}), lambda one: b"", namespaces=None, now_ms=2**42
    )
    found = [entry for entry, _ in whole.next().lines]
    assert [(one.token, one.line.text, one.owner.worker) for one in found] == [
        (sent, "sent", "w1"),
        (told, "told", "w1"),
    ]
    assert (found[0].owner.namespace, found[1].owner) == ("default", OWNER)


async def test_copies_of_runs_that_are_over_are_dropped(node: Node) -> None:
    ended, lives = node.assign(), node.assign()
    for token in (ended, lives):
        await node.put(token, 0, b"so far")
    node.world.ok(c.Ended(node.session, ended, Outcome.SUCCEEDED, 1, 2))
    node.outputs.drop_ended()
    assert (node.store.live(ended), node.store.live(lives)) == (None, b"so far")
    node.world.ok(c.EndSession(node.session, node.world.meta.epoch))
    node.outputs.drop_ended()
    assert node.store.live(lives) is None


async def test_a_worker_that_changes_nodes_and_comes_back_begins_again(node: Node) -> None:
    token = node.assign()
    await node.put(token, 0, b"so far")
    node.outputs.on_elsewhere("n2", node.told[0])
    assert node.store.live(token) is None, "nobody shall wait for more of this copy"
    assert node.outputs.who_has(token) == "n2"
    with pytest.raises(WrongOffset) as refused:
        await node.put(token, 6, b" and on")
    assert refused.value.offset == 0
    await node.put(token, 0, b"so far and on")
    assert node.store.live(token) == b"so far and on"
    assert node.outputs.who_has(token) is None


async def test_a_node_without_room_takes_nothing_more(tmp_path: Path) -> None:
    short = False
    async with Node(tmp_path, short=lambda: short) as node:
        token = node.assign()
        await node.put(token, 0, b"so far")
        short = True
        with pytest.raises(RaftschedError) as refused:
            await node.put(token, 6, b"more")
        assert refused.value.code == "disk-full"
        assert (await node.put(token, 6, end=True)).output is not None


async def test_outputs_at_one_time_are_bounded(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftsched.remote.outputs.HELD_MAX", 0)
    monkeypatch.setattr("raftsched.remote.outputs.LIVE_MIN", 2)
    tokens = [node.assign() for _ in range(3)]
    for token in tokens[:2]:
        await node.put(token, 0, b"x")
    with pytest.raises(RaftschedError) as refused:
        await node.put(tokens[2], 0, b"x")
    assert refused.value.code == "too-many"
    await node.put(tokens[0], 1, end=True)
    await node.put(tokens[2], 0, b"x")


async def test_as_much_is_kept_of_each_as_is_said_when_it_begins(tmp_path: Path) -> None:
    async with Node(tmp_path, limit=None) as node:
        first, second, third = (node.assign() for _ in range(3))
        node.world.ok(c.PutSettings(Settings(output_max_bytes=10_000)))
        node.rules.forget()
        await node.put(first, 0, b"a" * 5_000)
        node.world.ok(c.PutNamespace("default", b"{}", output_max_bytes=30_000))
        node.rules.forget()
        await node.put(second, 0, b"a" * 5_000)
        for token, left_out in ((first, 40_000), (second, 20_000)):
            place = (await node.put(token, 5_000, b"b" * 45_000, end=True)).output
            assert place.truncated == left_out
        ref = await node.outputs.store(third, OWNER, 1_000, "c" * 60_000)
        assert ref is not None
        assert ref.truncated == 30_000


async def test_what_is_left_out_has_a_bound_in_all(node: Node) -> None:
    token, other = node.assign(), node.assign()
    gaps = [Piece(NOTE, b"", frames.LEFT_OUT_MAX)] * 3_000
    with pytest.raises(RaftschedError) as refused:
        await node.put(token, 0, *gaps)
    assert refused.value.code == "invalid-body"
    assert (await node.put(token, 0, *gaps[:1])).offset == frames.LEFT_OUT_MAX
    with pytest.raises(RaftschedError) as refused:
        await node.put(token, frames.LEFT_OUT_MAX, b"one more")
    assert refused.value.code == "invalid-body"
    assert (await node.put(other, 0, b"fine", end=True)).output is not None


async def test_a_copy_that_cannot_be_written_costs_no_other_one(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = node.assign(), node.assign()
    flush = Capture.flush

    def fails(self: Capture, token: int, now_ms: int | None = None) -> None:
        if token == bad:
            raise struct.error("int too large to convert")
        flush(self, token, now_ms)

    for token in (bad, good):
        await node.put(token, 0, Piece(NOTE, b"", 7), b"seen later")
    monkeypatch.setattr(Capture, "flush", fails)
    node.clock.forward(10_000)
    await until(lambda: node.store.live(good))
    await until(lambda: background.failures["workers"])
    with pytest.raises(WrongOffset) as begins_anew:
        await node.put(bad, 17, b"more")
    assert begins_anew.value.offset == 0
    assert (await node.put(good, 17, b".", end=True)).output is not None
    background.forget()


def test_a_record_that_cannot_be_kept_costs_no_other_one(tmp_path: Path) -> None:
    store = OutputStore(tmp_path, max_attempt_bytes=1024)
    bad = Record(1, 2**63, pack(STDOUT, b"bad"))
    good = Record(2, 1_000, pack(STDOUT, b"good"))
    kept = append_each(store, [good, bad, replace(good, token=3)])
    assert isinstance(kept[1], Exception)
    for token, ref in ((2, kept[0]), (3, kept[2])):
        assert isinstance(ref, OutputRef)
        assert store.open(ref, None, token).read(0) == b"good"
    assert background.failures["output"]
    background.forget()
    store.close()
