"""`raftsched apply` against the API: what modules declare is made, and what they do not declare any more goes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result

from raftsched import handlers
from raftsched.client import declared
from tests.support.local_api import Client
from tests.unit.cli.house import run as command

HEAD = "from datetime import timedelta\nimport raftsched\n"
NIGHTLY = """
@raftsched.job("nightly", cron="0 2 * * *", timezone="Europe/Madrid", timeout=timedelta(minutes=5))
def nightly(month: str = "last") -> None: ...
"""
WEEKLY = """
@raftsched.job("weekly", every="7d", namespace="shop")
def weekly() -> None: ...
"""


class Shop:
    """The directory with the module that is applied."""

    def __init__(self, call: Client, directory: Path) -> None:
        self._call, self._directory = call, directory
        (directory / "shop").mkdir()
        (directory / "shop" / "__init__.py").write_text("")

    async def apply(self, text: str, *words: str, module: str = "shop.tasks") -> Result:
        (self._directory / "shop" / "tasks.py").write_text(HEAD + text)
        for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
            del sys.modules[name]
        declared.registered.clear()
        handlers.registered.clear()
        given = ("--server", self._call.url, "apply", module, "--pythonpath", str(self._directory), *words)
        return await asyncio.to_thread(command, *given)


@pytest.fixture
def shop(call: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a module that changes within a second
    before, jobs = dict(handlers.registered), dict(declared.registered)
    yield Shop(call, tmp_path)
    handlers.registered.clear()
    handlers.registered.update(before)
    declared.registered.clear()
    declared.registered.update(jobs)


async def test_what_modules_declare_is_made_and_made_again(call: Client, shop: Shop) -> None:
    first = await shop.apply(NIGHTLY + WEEKLY)
    assert (first.exit_code, first.stdout) == (0, "created: nightly\ncreated: shop/weekly\n"), first.output
    _, job = await call("GET", "/v1/namespaces/default/jobs/nightly")
    assert job["handler"] == {"call": "nightly"}
    assert job["trigger"] == {"cron": "0 2 * * *", "timezone": "Europe/Madrid"}
    assert job["labels"] == {"declared-in": "shop.tasks"}
    again = await shop.apply(NIGHTLY + WEEKLY)
    assert (again.exit_code, again.stdout) == (0, "unchanged: nightly\nunchanged: shop/weekly\n")
    changed = NIGHTLY.replace("0 2", "0 3")
    would = await shop.apply(changed, "--dry-run")
    assert (would.exit_code, would.stdout) == (0, "would be changed: nightly\n")
    shown = await shop.apply(changed, "--diff")
    assert shown.exit_code == 1
    assert "-  cron: 0 2 * * *\n+  cron: 0 3 * * *\n" in shown.stdout
    assert (await shop.apply(changed)).stdout == "changed: nightly\n"


async def test_prune_deletes_what_the_module_does_not_declare_any_more(call: Client, shop: Shop) -> None:
    await shop.apply(NIGHTLY + WEEKLY)
    await call("PUT", "/v1/namespaces/default/jobs/by-hand", {"trigger": {"manual": True}, "handler": {"call": "x"}})
    kept = await shop.apply(NIGHTLY)
    assert (kept.exit_code, kept.stdout) == (0, "unchanged: nightly\n")
    would = await shop.apply(NIGHTLY, "--prune", "--dry-run")
    assert would.stdout == "unchanged: nightly\nwould be deleted: shop/weekly\n"
    done = await shop.apply(NIGHTLY, "--prune", "--yes")
    assert (done.exit_code, done.stdout) == (0, "unchanged: nightly\ndeleted: shop/weekly\n"), done.output
    refused = await shop.apply("", "--prune", "--yes", "--allow-empty")
    assert refused.exit_code == 1
    assert "more than --prune-max 50%" in refused.stderr
    gone = await shop.apply("", "--prune", "--yes", "--allow-empty", "--prune-max", "1")
    assert (gone.exit_code, gone.stdout) == (0, "deleted: nightly\n")
    _, left = await call("GET", "/v1/jobs")
    assert [job["name"] for job in left["items"]] == ["by-hand"]


@pytest.mark.parametrize(
    "text, words, said",
    [
        ("", (), "shop.tasks declares no jobs; decorate functions with @raftsched.job"),
        ("import nowhere", (), "shop.tasks cannot be imported (ModuleNotFoundError: No module named 'nowhere'; "),
        ("raftsched.job('a')", (), "ValueError: job 'a': say when, in one way"),
        ("raise ValueError('a\\x1b[2Jb')", (), r"(ValueError: a\x1b[2Jb; "),
        ("raise SystemExit(3)", (), "(SystemExit: 3; "),
        (NIGHTLY.replace("month: str", "month: str, year: int").replace(' = "last"', ""), (), "missing a required"),
        (NIGHTLY.replace('timezone="', 'params={"month": object()}, timezone="'), (), "cannot be written as JSON"),
        (NIGHTLY, ("--yes",), "go with --prune"),
        (NIGHTLY, ("--diff", "--prune"), "--diff only shows"),
    ],
)
async def test_what_is_wrong_is_said_and_nothing_is_sent(
    call: Client, shop: Shop, text: str, words: tuple[str, ...], said: str
) -> None:
    done = await shop.apply(text, *words)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())
    _, left = await call("GET", "/v1/jobs")
    assert left["items"] == []


@pytest.mark.parametrize("word", ["shop/tasks.py", "./shop", "tasks.py", ".tasks"])
def test_a_file_is_no_module(word: str) -> None:
    done = command("--server", "http://127.0.0.1:1", "apply", word)
    assert done.exit_code == 2
    assert f"'{word}' is no name of a module; write it as in import, such as shop.tasks" in " ".join(
        done.stderr.split()
    )


async def test_a_refusal_of_the_cluster_names_the_function(shop: Shop) -> None:
    done = await shop.apply(NIGHTLY.replace("Europe/Madrid", "Europe/Madird"))
    assert done.exit_code == 1
    assert "refused: nightly" in done.stderr
    assert "did you mean Europe/Madrid?" in done.stderr
    assert "(shop.tasks:nightly)" in done.stderr
