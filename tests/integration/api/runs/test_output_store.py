"""Output that is read from an object store: when it is asked, by whom, and what is said where it cannot help."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from raftsched.core.rows import read_meta
from raftsched.objectstore.opening import open_store
from raftsched.objectstore.store import Found, ObjectStoreError
from raftsched.output.following.copier import Copier
from raftsched.output.following.sent import Sent
from raftsched.output.following.to_store import PATIENCE_MS, ToStore
from raftsched.output.keeping.output_rules import OutputRules
from raftsched.output.reading.stored import StoredOutputs
from tests.integration.api.runs.test_output import FRAMES, TEXT, end, start
from tests.integration.api.runs.test_output_copies import NODES, STORE, among, is_read, lose
from tests.integration.api.runs.test_output_places import read
from tests.support.local_api import Client

SERVED_BY = "Raftsched-Served-By"


async def printed(directory: Path, *calls: Client) -> str:
    """(path of an instance whose output the store has, which all nodes may ask)"""
    first = calls[0]
    cluster = first.cluster
    store = open_store(str(directory / "vault"))

    def cluster_id() -> str:
        with cluster.store.read() as view:
            return read_meta(view).cluster_id.hex()

    for call in calls:
        call.context.stored = StoredOutputs(store, cluster_id, directory)
    path, token = await start(first)
    end(cluster, token, FRAMES)
    output = cluster.outputs["n1"]
    sent = Sent(output.directory / "stored", STORE)
    sink = ToStore("n1", STORE, sent, store, cluster_id, cluster.clock)
    storer = Copier(output, sent, sink, OutputRules(cluster.store.read).copies, cluster.clock)
    await storer.look()
    cluster.clock.forward(PATIENCE_MS)
    await storer.look()
    assert storer.items == 1
    return path


@pytest.mark.parametrize("lost", ["disk", "node"])
def test_output_is_read_from_the_store(tmp_path: Path, lost: str) -> None:
    async def test(*calls: Client) -> None:
        cluster = calls[0].cluster
        path = await printed(tmp_path, *calls)
        assert await calls[0]("GET", f"{path}/output") == (200, TEXT)
        assert SERVED_BY not in calls[0].headers, "the first copy is there"
        if lost == "disk":
            lose(cluster)
        else:
            cluster.open_session("n1", "127.0.0.1:1")
        for node, call in zip(NODES, calls, strict=True):
            if lost == "node" and node == "n1":
                continue
            await is_read(call, path, "object store")

    among(tmp_path, test)


def test_a_store_that_has_nothing_changes_no_answer(tmp_path: Path) -> None:
    async def test(*calls: Client) -> None:
        path = await printed(tmp_path, *calls)
        lose(calls[0].cluster)
        (file,) = tmp_path.glob("vault/*/output/n1/*/*")
        whole = file.read_bytes()
        file.write_bytes(whole.replace(b"oops", b"0ops"))
        for call in calls:
            status, problem = await call("GET", f"{path}/output")
            assert (status, problem["code"]) == (410, "output-gone")
            (said,) = await read(call, path)
            assert (said.event, said.data["code"]) == ("problem", "output-gone")
        file.write_bytes(whole)
        calls[1].context.stored = None
        assert (await calls[1]("GET", f"{path}/output"))[0] == 410, "n1, whom it asks, does not ask the store for it"
        assert (await calls[2]("GET", f"{path}/output"))[0] == 200

    among(tmp_path, test)


def test_a_store_that_is_down_does_not_say_that_it_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(first: Client, second: Client, third: Client) -> None:
        path = await printed(tmp_path, first, second, third)
        lose(first.cluster)

        def down(prefix: str = "") -> Iterator[Found]:
            raise ObjectStoreError("vault cannot be listed: connection refused")

        for call in (first, second):
            assert call.context.stored is not None
            monkeypatch.setattr(call.context.stored._store, "list", down)
            status, problem = await call("GET", f"{path}/output")
            assert (status, problem["code"]) == (503, "output-unavailable")
            assert "object store: vault cannot be listed: connection refused" in problem["detail"]

    among(tmp_path, test)


def test_a_search_says_that_it_does_not_look_there(tmp_path: Path) -> None:
    async def test(first: Client, second: Client, third: Client) -> None:
        await printed(tmp_path, first, second, third)
        first.cluster.open_session("n1", "127.0.0.1:1")
        status, found = await second("GET", "/v1/instances:search?q=oops")
        assert (status, found["items"]) == (200, [])
        (silent,) = found["silent"]
        assert (silent["node"], silent["outputs"]) == ("n1", 1)
        assert silent["detail"].endswith("There is no search in the object store.")

    among(tmp_path, test)
