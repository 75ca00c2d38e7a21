"""scripts/bench with real nodes, as short as it can be: the figures are there, and nothing is lost. Not how fast."""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from scripts.benches import figures
from scripts.benches.peers import against
from scripts.benches.peers.installed import Peer, Places
from tests.support.patience import patient

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.e2e


def bench(*arguments: str) -> list[dict[str, Any]]:
    command = [sys.executable, str(ROOT / "scripts" / "bench.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "|---|" in done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_creates_of_every_kind() -> None:
    lines = bench("create", "--seconds", f"{patient(0.1):g}")  # each has to be done once
    shares = [line for line in lines if line["bench"] == "follower-share"]
    rates = [line for line in lines if line["bench"] != "follower-share"]
    assert [(line["bench"], line["in_flight"]) for line in rates] == 2 * [
        *(("create", number) for number in (1, 32, 256)),
        *(("create-batch", number) for number in (1, 8)),
        *(("create-sdk", number) for number in (1, 32, 256)),
    ]
    assert len(shares) == len(rates) / 2
    for line in rates:
        assert line.get("per_second") or line.get("jobs_per_second"), line
        assert line["leader_us"] > 0
        assert line["written_kib_per_job"] > 0


def test_processor_time_is_compared_with_another_version() -> None:
    told = bench("ratio", "HEAD", "--parts", "apply,create,python", "--pairs", "1", "--less", "100")
    assert [line["of"] for line in told] == [
        *("apply, one-shot's life", "apply, periodic run", "single create, 256 in flight", "python run, one-shot"),
    ]
    for line in told:
        assert line["base"] == "HEAD"
        assert line["sealed_links"]
        assert min(line["ours_us"], line["theirs_us"], line["ratio"]) > 0


def test_a_sustained_load_loses_nothing_when_the_leader_is_killed() -> None:
    (line,) = bench(
        *("sustained", "--per-second", "20", "--seconds", "6", "--lead", "1"),
        *("--keep", "1", "--down", "0.5", "--window", "2"),
    )
    assert line["due"] == 120
    assert line["not_run"] == 0
    assert 0 < line["within_failover"] < 120
    assert line["retention"] == "succeeded one-shots and events 1 s"
    assert all(pages > 0 and mib > 0 for _, mib, pages, _ in line["samples"])


def test_raftsched_does_what_its_peers_are_asked_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that does nothing has its turn after raftsched, in each part."""
    asked: list[Mapping[str, Any]] = []

    def measure(_: Places, work: Mapping[str, Any], __: Path) -> Iterator[figures.Line]:
        asked.append(work)
        yield {"bench": "run", "runs": work["count"], "per_second": 1.0}

    peer = Peer("idle", frozenset({"create", "run", "burst"}), lambda _: [], lambda _: ["idle 1"], measure)
    monkeypatch.setattr(against, "PEERS", {"idle": peer})
    monkeypatch.setattr(figures, "_lines", [])
    words = argparse.ArgumentParser()
    against.options(words)
    words.add_argument("--markdown", action="store_true")
    short = ["--rounds", "1", "--seconds", "0.2", "--count", "20", "--lead", f"{patient(3):g}"]
    given = words.parse_args(["idle", "--parts", "create,run,burst", *short])
    assert against.bench_against(asyncio.run, given)
    assert [work["parts"] for work in asked] == [["create"], ["run"], ["burst"]]
    ours = [line["bench"] for line in figures.lines() if line["system"] == figures.OURS]
    assert ours == ["create"] * 3 + ["create-sdk"] * 3 + ["run", "burst"]
    ratios = [(line["of"], line["ratio"]) for line in figures.lines() if line.get("field") == "per_second"]
    assert [of for of, _ in ratios] == ["run, 20 runs"]
    assert all(ratio > 0 for _, ratio in ratios)
