"""raftsched against its peers: what is divided by what, and what is said of peers that are not installed."""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.benches import figures
from scripts.benches.figures import Line
from scripts.benches.peers import against, servers
from scripts.benches.peers.installed import PEERS, Peer, Places, load
from scripts.benches.peers.ratios import Ratio, markdown, ratios


def line(system: str, bench: str = "create", **fields: Any) -> Line:
    return {"bench": bench, "system": system, **fields}


def ours(bench: str = "create", **fields: Any) -> Line:
    return line("raftsched", bench, through="leader", **fields)


def given(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    against.options(parser)
    parser.add_argument("--markdown", action="store_true")
    return parser.parse_args(words)


@pytest.fixture(autouse=True)
def _kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of one test are not those of another."""
    monkeypatch.setattr(figures, "_lines", [])


def test_figures_of_the_same_work_are_divided() -> None:
    found = ratios([
        ours(in_flight=1, per_second=50.0, p50_ms=1.0),
        ours(in_flight=32, per_second=300.0),
        ours("burst", due_at_once=10_000, last_start_ms=900.0),
        line("etcd", in_flight=32, per_second=100.0, value_bytes=300),
        line("bullmq", in_flight=32, per_second=600.0),
        line("bullmq", in_flight=256, per_second=900.0),
        line("bullmq", "burst", due_at_once=1_000, last_start_ms=1.0),
        line("bullmq", "burst", due_at_once=10_000, last_start_ms=1_800.0),
    ])  # fmt: skip
    assert [(ratio.of, ratio.peer, ratio.value) for ratio in found] == [
        ("create, 32 in flight", "etcd", 3.0),
        ("create, 32 in flight", "bullmq", 0.5),
        ("burst, 10,000 due at once", "bullmq", 0.5),
    ]


def test_creates_through_the_client_are_held_against_creates() -> None:
    found = ratios([
        ours("create-sdk", in_flight=32, per_second=200.0),
        ours("run", handler="python", runs=100, per_second=500.0),
        line("bullmq", "run", runs=100, per_second=1_000.0),
        ours("create-batch", batch=200, in_flight=32, jobs_per_second=500.0),
        line("bullmq", in_flight=32, per_second=100.0),
    ])  # fmt: skip
    assert [(ratio.of, ratio.value) for ratio in found] == [("create-sdk, 32 in flight", 2.0), ("run, 100 runs", 0.5)]


def test_of_several_rounds_the_medians_count() -> None:
    rounds = [
        *(ours(in_flight=1, per_second=value) for value in (10.0, 99.0, 20.0)),
        *(line("etcd", in_flight=1, per_second=value) for value in (1.0, 10.0, 5.0)),
    ]
    assert [ratio.value for ratio in ratios(rounds)] == [4.0]


def test_beside_a_rate_stands_what_a_job_costs_all_processes() -> None:
    others = {"cores": 2, "cpu_others": 0.25}
    found = ratios([
        ours(in_flight=1, per_second=10_000.0, cpu_busy=0.75, **others),
        line("etcd", in_flight=1, per_second=5_000.0, cpu_busy=1.0, **others),
    ])  # fmt: skip
    assert [(ratio.field, ratio.ours, ratio.theirs, ratio.value) for ratio in found] == [
        ("per_second", 10_000.0, 5_000.0, 2.0),
        ("cpu_us", 100.0, 300.0, pytest.approx(1 / 3)),
    ]


def test_what_took_too_little_to_be_told_costs_no_time() -> None:
    found = ratios([
        ours(in_flight=1, per_second=10_000.0, cpu_busy=0.75, cpu_others=0.25, cores=2),
        line("etcd", in_flight=1, per_second=5_000.0, cpu_busy=0.75, cpu_others=0.75, cores=2),
    ])  # fmt: skip
    assert [ratio.field for ratio in found] == ["per_second"]


@pytest.mark.parametrize(
    "theirs",
    [
        line("etcd", "peer", skipped=["etcd: apt-get install etcd-server"]),
        line("etcd", in_flight=1, per_second=None),
        line("etcd", "failover", per_second=1.0),
    ],
)
def test_what_was_not_measured_has_no_ratio(theirs: Line) -> None:
    assert ratios([ours(in_flight=1, per_second=1.0), theirs]) == []


def test_nothing_is_divided_by_zero() -> None:
    assert math.isnan(Ratio("create", "etcd", "per_second", 1.0, 0.0).value)


def test_the_table_has_a_row_a_figure_and_two_columns_a_peer() -> None:
    rows = markdown([
        Ratio("create, 32 in flight", "etcd", "per_second", 9_500.0, 4_750.0),
        Ratio("create, 32 in flight", "bullmq", "per_second", 9_500.0, 19_000.0),
        Ratio("create, 32 in flight", "etcd", "cpu_us", 150.0, 300.0),
        Ratio("burst, 10,000 due at once", "bullmq", "last_start_ms", 950.0, 1_900.0),
    ]).splitlines()  # fmt: skip
    assert rows == [
        "| figure | raftsched | etcd | raftsched / etcd | bullmq | raftsched / bullmq |",
        "|---|---|---|---|---|---|",
        "| create, 32 in flight | 9,500/s | 4,750/s | 2.00 | 19,000/s | 0.50 |",
        "| create, 32 in flight, less is better | cpu 150 µs | cpu 300 µs | 0.50 |  |  |",
        "| burst, 10,000 due at once, less is better | last start 950 ms |  |  | last start 1,900 ms | 0.50 |",
    ]


def test_peers_and_parts_are_named() -> None:
    assert [peer.name for peer in given("etcd,bullmq").peers] == ["etcd", "bullmq"]
    assert [peer.name for peer in given("all").peers] == list(PEERS)
    assert given("all", "--parts", "run,create").parts == ["run", "create"]


@pytest.mark.parametrize("words", [("etcd,redis",), ("all", "--parts", "create,sleep"), ("",)])
def test_others_are_refused(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        given(*words)
    assert "no such" in capsys.readouterr().err


@pytest.mark.parametrize("peer", PEERS.values(), ids=lambda peer: peer.name)
def test_each_part_of_a_peer_is_one_that_can_be_asked_for(peer: Peer) -> None:
    assert peer.parts <= set(against.PARTS)


@pytest.mark.parametrize(
    ("peer", "commands"),
    [
        ("etcd", ["apt-get install etcd-server", "apt-get install golang-go"]),
        ("bullmq", ["apt-get install redis-server", "npm install --prefix DIR bullmq ioredis"]),
        ("celery", ["apt-get install redis-server", "pip install 'celery[redis]'"]),
        ("apscheduler", ["apt-get install postgresql", "pip install apscheduler sqlalchemy"]),
        ("pgboss", ["apt-get install postgresql", "npm install --prefix DIR pg-boss@10"]),
    ],
)
def test_what_is_missing_is_said_with_what_installs_it(
    peer: str, commands: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(servers, "postgres_programs", lambda: None)
    words = ["--peer-python", str(tmp_path / "python"), "--peer-node-modules", str(tmp_path)]
    with pytest.raises(RuntimeError, match="none of these peers"):
        against.bench_against(lambda _: None, given(peer, *words))
    said = capsys.readouterr().err
    assert f"{peer} is skipped" in said
    assert [command for command in commands if command not in said] == []
    assert [(kept["bench"], kept["system"], "versions" in kept) for kept in figures.lines()] == [("peer", peer, False)]


def test_figures_of_a_load_program_come_as_they_are_printed(tmp_path: Path) -> None:
    code = "import json, sys; print(json.dumps({'bench': 'create', **json.loads(sys.argv[1])}))"
    found = list(load([sys.executable, "-c", code], {"in_flight": 1}, tmp_path / "log", {}))
    assert found == [{"bench": "create", "in_flight": 1}]


def test_a_load_program_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no server there"):
        list(load([sys.executable, "-c", "import sys; sys.exit('no server there')"], {}, tmp_path / "log", {}))


def test_a_load_program_that_cannot_be_built_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho 'no such compiler' >&2; exit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    peer = dataclasses.replace(PEERS["etcd"], missing=lambda _: [], versions=lambda _: [])
    work = {"parts": ["create"]}
    assert against._theirs(peer, Places(), work), "it is skipped, which is no failure"
    assert "no such compiler" in figures.lines()[-1]["skipped"][0]


def test_a_server_that_does_not_start_says_why_and_one_that_does_is_ended(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="port in use"),
        servers.process([sys.executable, "-c", "exit('port in use')"], tmp_path / "log", ready=lambda: False),
    ):
        pass
    with servers.process([sys.executable, "-c", "input()"], tmp_path / "log", ready=lambda: True) as started:
        pass
    assert started.returncode is not None


def test_places_are_found_without_being_told() -> None:
    assert Places().python == sys.executable
