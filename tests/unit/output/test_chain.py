"""An output is opened at the first place that has it, and nobody is asked who need not be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from raftsched.core.model import Attempt, Outcome, OutputRef
from raftsched.core.rules.executors import worker_key
from raftsched.errors import RaftschedError
from raftsched.output.following.places import in_order
from raftsched.output.format.spool import STDERR, STDOUT, live_name, pack
from raftsched.output.keeping.store import NOWHERE, OutputStore, Record
from raftsched.output.reading import chain
from raftsched.output.reading.chain import Chain, Here, Places, There
from raftsched.output.reading.text import Text

T = TypeVar("T")
NODES = ("n1", "n2", "n3", "n4")
TOKEN = 7


class Bed:
    """One node, and what it knows of the others. `having`: the places that have the output of `attempt`."""

    def __init__(self, directory: Path, node: str, *having: str) -> None:
        later = 0 if "own" in having else 1_893_456_000_000  # then its segments have other numbers
        self.own, self.elsewhere = OutputStore(directory / "own", now_ms=later), OutputStore(directory / "elsewhere")
        frames = pack(STDOUT, b"one\n") + pack(STDERR, b"oops\n")
        (ref,) = (self.own if "own" in having else self.elsewhere).append([Record(TOKEN, 1, frames)])
        assert ref is not None
        self.ref = ref
        self.attempt = Attempt(
            number=1, node="n1", session=1, token=TOKEN, assigned_at_ms=0, outcome=Outcome.SUCCEEDED, output=ref
        )
        self.having = set(having)
        self.asked: list[str] = []
        self.last: dict[int, str] = {}
        self.by_node, self.kept = False, True
        copied: Any = _Opens(self, "copied")
        stored: Any = _Store(self, "store")
        self.chain: Chain[str] = Chain(Places(node, self.own, copied, stored, self), self)
        self.node = node

    def has(self, place: str) -> bool:
        self.asked.append(place)
        return place in self.having

    def found(self, attempt: Attempt | None = None, stream: str | None = None) -> str:
        """The text, or the node that answers."""
        place = asyncio.run(self.chain.open(attempt or self.attempt, stream))
        if isinstance(place, There):
            return place.answer
        return "" if place.text is None else place.text.read(0).decode() + ("from the store" if place.stored else "")

    # what the chain asks

    def others(self) -> list[str]:
        return [node for node in NODES if node != self.node]

    def is_kept(self, attempt: Attempt) -> bool:
        return self.kept

    def why_gone(self, attempt: Attempt, *, removed: bool) -> str:
        return f"gone, removed: {removed}"

    async def ask(self, attempt: Attempt, node: str) -> str:
        if not self.has(node):
            raise RaftschedError("output-unavailable", f"{node} is silent")
        return f"from {node}"

    async def wait(self, work: Awaitable[T]) -> T:
        return await work

    def who_has(self, token: int) -> str | None:
        return self.last.get(token)

    def note_elsewhere(self, token: int, node: str) -> None:
        self.last[token] = node


class _Opens:
    """Stands for the copies on this node."""

    def __init__(self, bed: Bed, name: str) -> None:
        self._bed, self._name = bed, name

    def open(self, node: str, ref: OutputRef, stream: str | None, token: int) -> Text | None:
        assert (node, token) == ("n1", TOKEN)
        return self._bed.elsewhere.open(ref, stream, token) if self._bed.has(self._name) else None


class _Store(_Opens):
    async def open(self, *of: Any) -> Text | None:  # type: ignore[override]
        return super().open(*of)


COPIES = in_order("n1", 1, ("n2", "n3", "n4"))


@pytest.mark.parametrize(
    ("node", "having", "found", "asked"),
    [
        ("n1", ("own", "copied", "store"), "one\noops\n", []),
        ("n1", ("copied", *COPIES, "store"), "one\noops\n", ["copied"]),
        ("n1", (COPIES[1], COPIES[2], "store"), f"from {COPIES[1]}", ["copied", *COPIES[:2]]),
        ("n1", ("store",), "one\noops\nfrom the store", ["copied", *COPIES, "store"]),
        ("n2", ("n1", "copied", "store"), "from n1", ["n1"]),
        ("n2", ("copied", "store"), "one\noops\n", ["n1", "copied"]),
        ("n2", ("store",), "one\noops\nfrom the store", ["n1", "copied", *(n for n in COPIES if n != "n2"), "store"]),
    ],
)
def test_one_place_after_the_other(
    tmp_path: Path, node: str, having: tuple[str, ...], found: str, asked: list[str]
) -> None:
    bed = Bed(tmp_path, node, *having)
    assert (bed.found(), bed.asked) == (found, asked)
    if "from n" not in found:
        assert bed.found(stream="stderr") == found.replace("one\n", "")


def test_what_is_nowhere_is_said_of_the_first_copy(tmp_path: Path) -> None:
    for node, said in (("n1", "gone, removed: False"), ("n2", "n1 is silent")):
        bed = Bed(tmp_path, node)
        with pytest.raises(RaftschedError, match=said):
            bed.found()
        assert bed.asked[-1] == "store"


def test_what_no_place_can_have_is_not_looked_for(tmp_path: Path) -> None:
    bed = Bed(tmp_path, "n1", "copied", "store")
    bed.kept = False
    with pytest.raises(RaftschedError, match="gone"):
        bed.found()
    bed.kept, bed.attempt.output = True, OutputRef(NOWHERE, 0, 1, b"", 0)
    with pytest.raises(RaftschedError, match="gone"):
        bed.found()
    bed.attempt.output, bed.attempt.outcome = None, Outcome.LOST
    with pytest.raises(RaftschedError, match="lost before it could report"):
        bed.found()
    assert bed.asked == []


def test_a_node_that_was_asked_by_another_looks_at_its_own_disk_alone(tmp_path: Path) -> None:
    bed = Bed(tmp_path, "n1", *COPIES, "store")
    bed.by_node = True
    with pytest.raises(RaftschedError, match="gone"):
        bed.found()
    assert bed.asked == ["copied"]
    bed.having.add("copied")
    assert bed.found() == "one\noops\n"


def test_a_run_of_a_remote_worker_is_where_it_was_last_or_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed = Bed(tmp_path, "n1", "n3")
    bed.attempt.node, bed.attempt.outcome, bed.attempt.output = worker_key("w1"), None, None
    assert (bed.found(), bed.asked, bed.last) == ("from n3", ["n2", "n3"], {TOKEN: "n3"})
    bed.having, bed.asked = {"n4"}, []
    assert (bed.found(), bed.asked) == ("", ["n3"]), "all of them are asked now and then"
    monkeypatch.setattr(chain, "LOOK_S", 0.0)
    bed.asked = []
    assert (bed.found(), bed.asked) == ("from n4", ["n3", "n2", "n4"])
    (bed.own.live_directory / live_name(TOKEN)).write_bytes(pack(STDOUT, b"here"))
    bed.asked = []
    assert (bed.found(), bed.asked) == ("here", [])
    bed.own.discard(TOKEN)
    bed.by_node = True
    with pytest.raises(RaftschedError, match="n1 has no copy") as none:
        bed.found()
    assert (none.value.code, bed.asked) == ("output-unavailable", [])


def test_a_glance_is_at_this_disk(tmp_path: Path) -> None:
    bed = Bed(tmp_path, "n1", "own", "n2")
    places = Places("n1", bed.own, None, None, None)
    text = places.glance(bed.attempt, "stderr")
    assert text is not None
    assert text.read(0) == b"oops\n"
    bed.own.drop_before(2**50)
    assert places.glance(bed.attempt, None) is None
    assert places._replace(node="n2").glance(bed.attempt, None) is None
    assert bed.asked == []
    assert isinstance(asyncio.run(Bed(tmp_path / "b", "n1", "own").chain.open(bed.attempt, None)), Here)
