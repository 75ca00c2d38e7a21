"""raftsched.Client has the methods of raftsched.AsyncClient, which are written once."""

from __future__ import annotations

import ast
import asyncio
import inspect
from pathlib import Path

import pytest

import raftsched
from raftsched.client import sync
from raftsched.client.operations import Underway
from raftsched.client.sync.underway import Underway as SyncUnderway
from scripts.make_sync import OWN, RENAMED, SOURCES, render
from tests.support.stub_server import serve


def public(value: object) -> set[str]:
    return {name for name in dir(value) if not name.startswith("_")}


@pytest.mark.parametrize("module", SOURCES)
def test_what_is_made_is_up_to_date(module: str) -> None:
    path = Path(sync.__file__).parent / f"{RENAMED.get(module, module)}.py"
    made, kept = ast.parse(render(module)), ast.parse(path.read_text("utf-8"))
    assert ast.unparse(made.body[-1]) == ast.unparse(kept.body[-1]), "run scripts/make-sync"
    assert len([n for n in made.body if isinstance(n, ast.ClassDef)]) == len(SOURCES[module])
    assert ast.dump(_sorted(made)) == ast.dump(_sorted(kept)), "run scripts/make-sync"


def _sorted(tree: ast.Module) -> ast.Module:
    """Imports may be ordered and wrapped otherwise."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            node.names.sort(key=lambda alias: alias.name)
    tree.body.sort(key=lambda n: (not isinstance(n, ast.ImportFrom), getattr(n, "module", "") or ""))
    return tree


def test_both_clients_have_the_same_resources_and_methods() -> None:
    async_client, client = raftsched.AsyncClient("127.0.0.1:1"), raftsched.Client("127.0.0.1:1")
    assert public(async_client) - {"transport"} == public(client)
    assert public(client.within(1)) == public(client) - OWN
    for name in public(client):
        theirs, ours = getattr(async_client, name), getattr(client, name)
        if not inspect.ismethod(theirs):
            assert public(theirs) == public(ours), name
            for method in public(ours):
                signature = inspect.signature(getattr(ours, method)).parameters
                assert signature == inspect.signature(getattr(theirs, method)).parameters, f"{name}.{method}"
    assert public(Underway) == public(SyncUnderway)


def test_it_is_closed_where_an_event_loop_runs() -> None:
    """As in a notebook, or beside a browser that a test drives: that loop is of no concern to it."""

    async def main() -> None:
        with serve(lambda _: (200, {"items": [], "next": None})) as stub, raftsched.Client(stub.url) as client:
            assert list(client.jobs.list()) == []

    asyncio.run(main())
