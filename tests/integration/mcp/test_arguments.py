"""raftsched mcp: arguments of any kind lead to an answer that is bounded, and harm nothing."""

from __future__ import annotations

import os
import random
import string
from typing import Any

from raftsched.cli.mcp.serving import ALL, ARGUMENTS_MAX
from raftsched.testing import RunningCluster
from tests.integration.mcp.desk import Desk, at_desk

CALLS = 150


def anything(dice: random.Random, depth: int = 0) -> Any:
    """Some value of JSON: of a wrong type, huge, empty, or of characters that nobody types."""
    kinds = 9 if depth < 3 else 7
    match dice.randrange(kinds):
        case 0:
            return dice.choice([None, True, False])
        case 1:
            return dice.choice([0, -1, 1, 2**31, 2**63, -(2**70), 10**40, 1.5, -0.0, 1e308, float("inf"), float("nan")])
        case 2:
            return "".join(dice.choices(string.printable, k=dice.randrange(12)))
        case 3:
            return "".join(chr(dice.choice([*range(0x250), 0x202E, 0xFFFF, 0x1F600, 0xE0041])) for _ in range(9))
        case 4:
            return dice.choice(["default/x", "a/b/c", "../..", "%2e%2e/", "'; --", "*", "\x00", "?fields=id"])
        case 5:
            return "x" * dice.choice([2_048, 2_049, 70_000])
        case 6:
            return dice.choice(["1m8rmekf40000", "1m8rmekf40000@1796123086352", "2030-01-31T02:00:00Z", "1h", "stdout"])
        case 7:
            return [anything(dice, depth + 1) for _ in range(dice.randrange(4))]
        case _:
            return {str(anything(dice, 3))[:20]: anything(dice, depth + 1) for _ in range(dice.randrange(4))}


def test_whatever_is_given(cluster: RunningCluster) -> None:
    seed = int(os.environ.get("SEED") or random.randrange(2**32))
    print(f"SEED={seed}")
    dice = random.Random(seed)

    async def work(desk: Desk) -> None:
        # No job of the other tests is named by chance: what is asked for does not exist, or is malformed.
        for number in range(CALLS):
            tool = list(ALL.values())[number % len(ALL)]
            fields = [*tool.arguments.__struct_encode_fields__, *(["other"] if dice.random() < 0.1 else [])]
            given = {name: anything(dice) for name in fields if dice.random() < 0.7}
            _, texts = await desk.texts(tool.name, given)
            assert all(texts), (tool.name, given)
            assert not any(text.startswith("internal") for text in texts), (tool.name, given, texts)
        assert (await desk("list_nodes"))["leader"] == "n1"

    at_desk(cluster, work, allow_writes=True)


def test_a_wrong_argument_is_named_with_what_would_be_right(cluster: RunningCluster) -> None:
    async def work(desk: Desk) -> None:
        assert "Expected `int`, got `str` - at `$.limit`" in await desk.refused("list_jobs", limit="ten")
        assert "Expected `int` <= 100" in await desk.refused("list_jobs", limit=1_000)
        said = await desk.refused("list_jobs", nmespace="x")
        assert "unknown field `nmespace`" in said
        assert "it takes namespace, name_prefix" in said
        assert "Expected `array` of length <= 100" in await desk.refused("retry_dead_letters", runs=["x"] * 101)
        assert "invalid-parameter" in await desk.refused("list_runs", **{"from": "yesterday"})
        for tool in ("get_run", "explain_run", "read_output", "kill_run"):  # no other address is asked
            for run in ("..", ".", "../tokens"):
                assert "invalid arguments" in await desk.refused(tool, run=run)
        assert "there is no such tool" in await desk.refused("drop_tables")
        huge = {"job": {"params": {"a": "x" * ARGUMENTS_MAX}}}
        assert f"{ARGUMENTS_MAX} are the most" in await desk.refused("create_job", **huge)
        said = await desk.refused("create_job", job={"name": "none"})
        assert "/trigger: is missing" in said
        assert "/handler: is missing" in said

    at_desk(cluster, work, allow_writes=True)
