"""scripts/bench as a command: its parts, and the table of what was kept."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.bench import print_tables, words_of

ROOT = Path(__file__).resolve().parents[3]
PARTS = (
    *("create", "run", "keys", "burst", "periodic", "sustained", "scale", "snapshot", "restore"),
    *(
        "keys",
        "failover",
        "restart",
        "slowdisk",
        "distances",
        "lateness",
        "catchup",
        "bulk",
        "lives",
        "page",
        "ratio",
        "table",
        "against",
        "tls",
        "workers",
    ),
)


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "bench.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def test_help_names_every_part() -> None:
    told = bench("--help")
    assert told.returncode == 0, told.stderr
    assert set(PARTS) <= {line.split()[0] for line in told.stdout.splitlines() if line.strip()}


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ([], ["against"]),
        (["--rounds", "3"], ["against", "--rounds", "3"]),
        (["--against", "dkron", "--rounds", "3"], ["against", "dkron", "--rounds", "3"]),
        (["--against=etcd,dkron"], ["against", "etcd,dkron"]),
        (
            ["--rounds", "3", "--against", "dkron", "--count", "9"],
            ["against", "dkron", "--rounds", "3", "--count", "9"],
        ),
        (["--rounds", "3", "--against=dkron"], ["against", "dkron", "--rounds", "3"]),
        (["create", "--seconds", "1"], ["create", "--seconds", "1"]),
        (["--help"], ["--help"]),
    ],
)
def test_the_part_is_against_when_none_is_named(given: list[str], read: list[str]) -> None:
    assert words_of(given) == read


def test_ratios_come_after_the_figures_and_in_place_of_those_of_each_round() -> None:
    ours = {"bench": "create", "system": "raftsched", "in_flight": 32, "per_second": 1.0}
    ratio = {
        "bench": "against", "system": "etcd", "of": "create, 32 in flight", "field": "per_second", "rounds": 1,
        **{whose + end: 2.0 for whose in ("ours", "theirs", "ratio") for end in ("", "_least", "_most")},
    }  # fmt: skip
    for each, lines, heads in ((True, [ours, ratio], 2), (False, [ours, ratio], 1), (False, [ours], 1)):
        out = io.StringIO()
        print_tables(out, lines, each=each)
        assert out.getvalue().count("| figure |") == heads
        assert ("| measured |" in out.getvalue()) == (each or ratio not in lines)
        assert ("| create, 32 in flight | etcd | 2.00/s | 2.00/s | 2.00 |" in out.getvalue()) == (ratio in lines)


@pytest.mark.parametrize("part", ["scale", "sustained"])
def test_help_of_a_part_says_what_its_figures_are(part: str) -> None:
    told = bench(part, "--help")
    assert told.returncode == 0, told.stderr
    assert "written_kib_per" in told.stdout
    assert "--seconds" in told.stdout


def test_lives_of_one_shots_write_less_in_longer_turns() -> None:
    few = ("--per-second", "100", "--seconds", "2", "--lead", "1", "--keep", "1")
    told = bench("lives", "--turn-ms", "10", "200", *few)
    assert told.returncode == 0, told.stderr
    lines = [json.loads(line) for line in told.stdout.splitlines()]
    assert [(line["order"], line["turn_ms"]) for line in lines] == [
        *(("as created", 10), ("as created", 200)),
        *(("scattered", 10), ("scattered", 200)),
    ]
    for short, long in (lines[:2], lines[2:]):
        assert short["written_kib"] > 2 * long["written_kib"] > 0


def test_a_table_is_made_of_lines_that_were_kept(tmp_path: Path) -> None:
    line = {"bench": "create", "system": "raftsched", "in_flight": 256, "through": "leader", "per_second": 9_000.0}
    file, copy = tmp_path / "kept.jsonl", tmp_path / "copy.jsonl"
    file.write_text(json.dumps(line) + "\n")
    told = bench("table", str(file), "--markdown", "--json", str(copy))
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines()[2] == (
        "| create, 256 in flight, through the leader | 9,000/s | at least 9,500/s, then 13,000/s | no: per_second |"
    )
