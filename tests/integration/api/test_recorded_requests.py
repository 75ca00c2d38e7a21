"""Requests of tests/data/requests.json, each with the class of its answer: those that generated requests found, and one
at least for each way to be refused for what one means.

`before` is sent first, and has to be taken; `token` is one that is made for the request. `answer` is "taken",
"malformed" (the description refuses it), the codes of the places that are wrong, or that of the problem."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from raftsched.errors import KINDS, MALFORMED, MEANINGS, is_of_meaning
from tests.support.documented import document, is_allowed
from tests.support.local_api import Client, LocalCluster, serving
from tests.support.tokens import As, guarded, make

DATA = Path(__file__).resolve().parents[2] / "data" / "requests.json"
RECORDED: list[dict[str, Any]] = json.loads(DATA.read_text())


async def answer_of(call: Client, row: dict[str, Any]) -> str:
    """Returns the class of the answer."""
    for one in row.get("before", ()):
        status, answer = await call(one["method"], one["path"], one["body"])
        assert status < 300, (row["why"], status, answer)
    who: Any = call
    if "token" in row:
        secret = await make(call, **row["token"])
        await guarded(call)
        who = As(call, secret)
    status, answer = await who(row["method"], row["path"], row.get("body"))
    if status < 400:
        return "taken"
    assert status < 500, (row["why"], answer)
    errors = [one.get("code") for one in answer.get("errors", ())]
    if answer["code"] not in MALFORMED:
        return str(answer["code"])
    return ", ".join(sorted(set(errors))) if is_of_meaning(answer["code"], errors) else "malformed"


async def answers(directory: Path) -> dict[str, str]:
    """A request before which others are sent has a cluster of its own."""
    found = {}
    alone = [row for row in RECORDED if "before" in row or "token" in row]
    for number, rows in enumerate([[row for row in RECORDED if row not in alone], *([row] for row in alone)]):
        cluster = LocalCluster(directory / str(number))
        try:
            async with serving(cluster, "n1") as call:
                found.update({row["why"]: await answer_of(call, row) for row in rows})
        finally:
            cluster.close()
    return found


def test_recorded_requests_are_answered_as_they_were_meant_to_be(tmp_path: Path) -> None:
    found = asyncio.run(answers(tmp_path))
    assert found == {row["why"]: row["answer"] for row in RECORDED}


def test_what_is_refused_for_its_meaning_is_as_the_description_says_and_nothing_else_is() -> None:
    wrong = []
    for row in RECORDED:
        body = row.get("body")
        if body is not None and is_allowed(row["method"], described(row), body) is (row["answer"] == "malformed"):
            wrong.append(row["why"])
    assert wrong == []


def test_each_way_to_be_refused_for_what_one_means_is_recorded() -> None:
    recorded = {code for row in RECORDED for code in row["answer"].split(", ")}
    assert MEANINGS.keys() <= recorded
    assert recorded <= {*MEANINGS, *KINDS, "malformed", "taken"}


def described(row: dict[str, Any]) -> str:
    """Returns the address as the description has it."""
    for path, methods in document()["paths"].items():
        pattern = re.sub(r"\\\{[a-z]+\\\}", "[^/]+", re.escape(path))
        if row["method"].lower() in methods and re.fullmatch(pattern, row["path"].partition("?")[0]):
            return str(path)
    raise LookupError(row["path"])
