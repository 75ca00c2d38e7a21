"""raftsched against its peers: what is divided by what, and what is said of peers that are not installed."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.benches import figures, table
from scripts.benches.bars import BARS
from scripts.benches.figures import Line
from scripts.benches.peers import against, dkron_load, servers
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
    found = ratios([[
        ours(in_flight=1, per_second=50.0),
        ours(in_flight=32, per_second=300.0, p50_ms=1.0),
        ours("burst", due_at_once=10_000, last_start_ms=900.0),
        line("etcd", in_flight=32, per_second=100.0, p50_ms=2.0, value_bytes=300),
        line("bullmq", in_flight=32, per_second=600.0),
        line("bullmq", in_flight=256, per_second=900.0),
        line("bullmq", "burst", due_at_once=1_000, last_start_ms=1.0),
        line("bullmq", "burst", due_at_once=10_000, last_start_ms=1_800.0),
    ]])  # fmt: skip
    assert [(ratio.of, ratio.peer, ratio.value) for ratio in found] == [
        ("create, 32 in flight", "etcd", 3.0),
        ("create, 32 in flight", "bullmq", 0.5),
        ("burst, 10,000 due at once", "bullmq", 0.5),
    ]


def test_creates_through_the_client_are_compared_with_creates() -> None:
    found = ratios([[
        ours("create-sdk", in_flight=32, per_second=200.0),
        ours("run", handler="python", runs=100, per_second=500.0),
        line("bullmq", "run", runs=100, per_second=1_000.0),
        ours("create-batch", batch=200, in_flight=32, jobs_per_second=500.0),
        line("bullmq", in_flight=32, per_second=100.0),
    ]])  # fmt: skip
    assert [(ratio.of, ratio.value) for ratio in found] == [("create-sdk, 32 in flight", 2.0), ("run, 100 runs", 0.5)]


def test_how_long_one_takes_is_compared_where_it_is_alone() -> None:
    found = ratios([[
        ours(in_flight=1, per_second=400.0, p50_ms=2.5),
        ours("create-sdk", in_flight=1, per_second=300.0, p50_ms=3.0),
        line("etcd", in_flight=1, per_second=500.0, p50_ms=2.0),
    ]])  # fmt: skip
    assert [(ratio.of, ratio.field, ratio.value) for ratio in found] == [
        ("create, 1 in flight", "per_second", 0.8),
        ("create, 1 in flight, p50", "p50_ms", 1.25),
        ("create-sdk, 1 in flight", "per_second", 0.6),
        ("create-sdk, 1 in flight, p50", "p50_ms", 1.5),
    ]


def test_the_medians_of_several_rounds_are_divided_and_the_spread_is_of_the_rounds() -> None:
    rounds = [
        [ours(in_flight=1, per_second=mine), line("etcd", in_flight=1, per_second=its)]
        for mine, its in ((10.0, 1.0), (99.0, 10.0), (20.0, 5.0))
    ]
    (ratio,) = ratios(rounds)
    assert ratio.value == 4.0
    assert ratio.figures() == {
        "of": "create, 1 in flight", "field": "per_second", "rounds": 3,
        "ours": 20.0, "ours_least": 10.0, "ours_most": 99.0, "theirs": 5.0, "theirs_least": 1.0, "theirs_most": 10.0,
        "ratio": 4.0, "ratio_least": 4.0, "ratio_most": 10.0,
    }  # fmt: skip


def test_a_round_that_measured_one_of_both_does_not_count() -> None:
    (ratio,) = ratios([
        [ours(in_flight=1, per_second=10.0), line("etcd", in_flight=1, per_second=5.0)],
        [ours(in_flight=1, per_second=90.0), line("etcd", "peer", failed="it did not get ready")],
        [line("etcd", in_flight=1, per_second=1.0)],
    ])  # fmt: skip
    assert ratio.rounds == ((10.0, 5.0),)


def test_beside_a_rate_stands_what_a_job_costs_all_processes() -> None:
    others = {"cores": 2, "cpu_others": 0.25}
    found = ratios([[
        ours(in_flight=2, per_second=10_000.0, cpu_busy=0.75, **others),
        line("etcd", in_flight=2, per_second=5_000.0, cpu_busy=1.0, **others),
    ]])  # fmt: skip
    assert [(ratio.of, ratio.field, ratio.rounds, ratio.value) for ratio in found] == [
        ("create, 2 in flight", "per_second", ((10_000.0, 5_000.0),), 2.0),
        ("create, 2 in flight, processor time", "cpu_us", ((100.0, 300.0),), pytest.approx(1 / 3)),
    ]


def test_what_took_too_little_to_be_told_costs_no_time() -> None:
    found = ratios([[
        ours(in_flight=1, per_second=10_000.0, cpu_busy=0.75, cpu_others=0.25, cores=2),
        line("etcd", in_flight=1, per_second=5_000.0, cpu_busy=0.75, cpu_others=0.75, cores=2),
    ]])  # fmt: skip
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
    assert ratios([[ours(in_flight=1, per_second=1.0), theirs]]) == []


def test_nothing_is_divided_by_zero() -> None:
    assert math.isnan(Ratio("create", "etcd", "per_second", ((1.0, 0.0),)).value)


def compared(of: str, peer: str, field: str, *rounds: tuple[float, float]) -> Line:
    return line(peer, "against", **Ratio(of, peer, field, rounds).figures())


def test_the_table_has_both_figures_the_ratio_its_spread_and_the_bar_of_each_peer() -> None:
    three = ((9_000.0, 8_000.0), (9_200.0, 8_000.0), (9_300.0, 8_100.0))
    rows = markdown([
        compared("create, 256 in flight", "etcd", "per_second", *three),
        compared("create, 256 in flight", "bullmq", "per_second", (9_500.0, 19_000.0)),
        compared("create, 1 in flight, p50", "etcd", "p50_ms", (2.6, 2.0)),
        compared("create, 32 in flight, processor time", "etcd", "cpu_us", (150.0, 300.0)),
    ]).splitlines()  # fmt: skip
    assert rows == [
        "| figure | peer | raftsched | the peer | ratio | spread | bar | met |",
        "|---|---|---|---|---|---|---|---|",
        "| create, 256 in flight | etcd | 9,200/s (9,000 to 9,300) | 8,000/s (8,000 to 8,100) | 1.15 | 1.12 to 1.15 "
        "| at least 1.15, then 2 | yes |",
        "| create, 256 in flight | bullmq | 9,500/s | 19,000/s | 0.50 |  |  |  |",
        "| create, 1 in flight, p50, less is better | etcd | p50 2.60 ms | p50 2.00 ms | 1.30 |  | at most 1.25 | no |",
        "| create, 32 in flight, processor time, less is better | etcd | cpu 150 µs | cpu 300 µs | 0.50 |  |  |  |",
    ]


def test_below_the_table_stands_who_ran_who_was_skipped_and_what_else_used_the_machine() -> None:
    told = markdown([
        line("etcd", "peer", versions="etcd 3.4.23"),
        line("dkron", "peer", skipped=["dkron: how to get it", "more"]),
        line("bullmq", "peer", failed="no port"),
        ours(in_flight=32, per_second=1.0, cpu_others=0.02),
        line("etcd", in_flight=32, per_second=1.0, cpu_others=0.4),
        compared("create, 32 in flight", "etcd", "per_second", (1.0, 1.0)),
    ]).split("\n\n")  # fmt: skip
    assert told[1:] == [
        "etcd runs as etcd 3.4.23",
        "dkron is skipped: dkron: how to get it; more",
        "bullmq failed: no port",
        "Other programs took 2% to 40% of the machine: measure again without them.",
    ]


def test_without_peers_there_is_no_table_of_ratios() -> None:
    assert markdown([ours(in_flight=32, per_second=1.0, cpu_others=0.4)]) == ""


def test_the_bars_of_ratios_are_of_figures_that_are_compared() -> None:
    """A bar whose name no line has would never be shown."""
    lines = [
        *(ours(way, in_flight=n, per_second=1.0, p50_ms=1.0) for way in ("create", "create-sdk") for n in (1, 32, 256)),
        *(line(peer, in_flight=n, per_second=1.0, p50_ms=1.0) for peer in ("etcd", "bullmq") for n in (1, 32, 256)),
        ours("run", handler="python", runs=10_000, per_second=1.0),
        line("bullmq", "run", runs=10_000, per_second=1.0),
    ]  # fmt: skip
    named = {table.name(line(ratio.peer, "against", **ratio.figures())) for ratio in ratios([lines])}
    assert {figure for figure, _ in BARS if figure.startswith("against, ")} <= named


def test_peers_and_parts_are_named() -> None:
    assert [peer.name for peer in given("etcd,bullmq").peers] == ["etcd", "bullmq"]
    assert [peer.name for peer in given("all").peers] == list(PEERS)
    assert given("all", "--parts", "run,create").parts == ["run", "create"]
    assert given("all", "--parts", "all").parts == list(against.PARTS)


def test_what_is_not_named_is_usual() -> None:
    usual = given()
    assert (usual.peers, usual.parts, usual.rounds) == (None, against.USUAL_PARTS, 5)


@pytest.mark.parametrize("rounds", ["0", "-1", "two"])
def test_there_is_one_round_at_least(rounds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        given("all", "--rounds", rounds)
    assert "not a number of rounds" in capsys.readouterr().err


def fake(name: str, *parts: str, missing: str = "") -> Peer:
    return Peer(
        name, frozenset(parts), lambda _: [missing] if missing else [], lambda _: [f"{name} 1"], lambda *_: iter(())
    )


def test_raftsched_and_each_peer_have_their_turns_at_what_both_can_do() -> None:
    stores, runs = fake("stores", "create", "bulk"), fake("runs", "create", "run")
    told = [
        (peer.name if peer else "raftsched", parts)
        for peer, parts in against.turns(["create", "bulk", "run", "burst"], [stores, runs])
    ]
    assert told == [
        ("raftsched", ["create", "bulk"]), ("stores", ["create", "bulk"]), ("runs", ["create"]),
        ("raftsched", ["run"]), ("runs", ["run"]),
    ]  # fmt: skip


def test_without_a_peer_raftsched_does_all_that_is_asked_for() -> None:
    assert list(against.turns(["create", "run"], [])) == [(None, ["create"]), (None, ["run"])]


def test_usual_peers_that_are_not_installed_are_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    etcd, bullmq = fake("etcd", "create"), fake("bullmq", "run", missing="bullmq: how to get it")
    monkeypatch.setattr(against, "PEERS", {"etcd": etcd, "bullmq": bullmq, "dkron": bullmq, "other": etcd})
    assert against.chosen(None, Places()) == [etcd]
    assert "bullmq: how to get it" in capsys.readouterr().err
    monkeypatch.setattr(against, "PEERS", dict.fromkeys(against.USUAL_PEERS, bullmq))
    assert against.chosen(None, Places()) == []


def test_rounds_alternate_and_each_has_its_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def ours_(_loop: object, work: dict[str, Any]) -> bool:
        said.append(f"raftsched {','.join(work['parts'])}")
        figures.emit("create", in_flight=32, per_second=100.0 * len(said))
        return True

    def theirs(peer: Peer, _places: object, work: dict[str, Any]) -> bool:
        said.append(f"{peer.name} {','.join(work['parts'])}")
        figures.emit("create", system=peer.name, in_flight=32, per_second=100.0)
        return True

    monkeypatch.setattr(against, "_ours", ours_)
    monkeypatch.setattr(against, "_theirs", theirs)
    monkeypatch.setitem(PEERS, "etcd", fake("etcd", "create"))
    assert against.bench_against(lambda _: None, given("etcd", "--rounds", "3"))
    assert said == ["raftsched create", "etcd create"] * 3
    (ratio,) = [kept for kept in figures.lines() if kept["bench"] == "against"]
    assert (ratio["of"], ratio["system"], ratio["rounds"]) == ("create, 32 in flight", "etcd", 3)
    assert (ratio["ratio"], ratio["ratio_least"], ratio["ratio_most"]) == (3.0, 1.0, 5.0)


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
        ("dkron", ["a release of https://dkron.io"]),
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
    monkeypatch.setattr(against, "PEERS", {"etcd": peer})
    monkeypatch.setattr(against, "USUAL_PEERS", ("etcd",))
    for name in ("usual", "asked"):
        (tmp_path / name).mkdir()
    assert against.chosen(None, Places(programs=tmp_path / "usual")) == []
    with pytest.raises(RuntimeError, match="none of these peers"):
        against.chosen([peer], Places(programs=tmp_path / "asked"))
    assert "no such compiler" in figures.lines()[-1]["skipped"][0]


def test_each_create_of_dkron_is_of_another_job_far_from_now() -> None:
    make = dkron_load.creates(8080)
    jobs = [json.loads(make().partition(b"\r\n\r\n")[2]) for _ in range(3)]
    assert len({job["name"] for job in jobs}) == 3
    assert all(job["schedule"].startswith("@at 20") and job["schedule"].endswith("Z") for job in jobs)


def test_dkrons_leader_is_the_only_one_that_says_so_when_all_know_it(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {(1, "isleader"): False, (2, "isleader"): True, (1, "leader"): True, (2, "leader"): False}
    monkeypatch.setattr(servers, "_answers", lambda port, path: answers[port, path])
    assert servers._leader_of([1, 2]) is None
    answers[2, "leader"] = True
    assert servers._leader_of([1, 2]) == 2
    answers[1, "isleader"] = True
    assert servers._leader_of([1, 2]) is None


def test_a_server_that_does_not_start_says_why_and_one_that_does_is_ended(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="port in use"),
        servers.process([sys.executable, "-c", "exit('port in use')"], tmp_path / "log", ready=lambda: False),
    ):
        pass
    with servers.process([sys.executable, "-c", "input()"], tmp_path / "log", ready=lambda: True) as started:
        pass
    assert started.returncode is not None


def test_of_several_servers_the_one_that_has_ended_says_why(tmp_path: Path) -> None:
    lives, ends = tmp_path / "lives.log", tmp_path / "ends.log"
    with (
        servers.process([sys.executable, "-c", "input()"], ends, ready=lambda: True) as ended,
        servers.process([sys.executable, "-c", "import time; time.sleep(60)"], lives, ready=lambda: True) as living,
        pytest.raises(RuntimeError, match=r"some did not get ready:\n[\s\S]*EOFError"),
    ):
        servers.wait("some", lambda: False, {lives: living, ends: ended})


def test_places_are_found_without_being_told() -> None:
    assert Places().python == sys.executable
