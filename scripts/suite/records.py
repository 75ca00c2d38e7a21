"""Reads what the tests of a run cost, keeps the durations of their files, and prints the dearest."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scripts.suite.bundles import Durations, area

DEAREST = 40
Record = dict[str, Any]


def read(folder: Path) -> list[Record]:
    """Returns all records of a run. A line that was cut off by a kill is left out."""
    found: list[Record] = []
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                continue
    return found


def tests(records: Iterable[Record]) -> list[Record]:
    return [record for record in records if record["kind"] == "test"]


def durations(records: Iterable[Record]) -> Durations:
    """Returns wall and processor seconds of each test file."""
    wall: defaultdict[str, float] = defaultdict(float)
    cpu: defaultdict[str, float] = defaultdict(float)
    for test in tests(records):
        file = test["name"].partition("::")[0]
        wall[file] += test["wall_s"]
        cpu[file] += test["cpu_s"]
    return {file: (round(wall[file], 1), round(cpu[file], 1)) for file in sorted(wall)}


def write_durations(path: Path, found: Durations) -> None:
    lines = ",\n".join(f"{json.dumps(file)}: [{wall}, {cpu}]" for file, (wall, cpu) in sorted(found.items()))
    path.write_text("{\n" + lines + "\n}\n")


def dearest(records: Iterable[Record], count: int = DEAREST) -> str:
    """Returns a table of the tests and fixtures that took the most processor time. A test has its fixtures in it."""
    costly = [record for record in records if record["kind"] in ("test", "fixture")]
    costly.sort(key=lambda record: -record["cpu_s"])
    rows = [f"{'processor':>9}  {'wall':>7}  test, or fixture"]
    for record in costly[:count]:
        fixture = f" (fixture of {record['test']})" if record["kind"] == "fixture" else ""
        rows.append(f"{record['cpu_s']:7.1f} s  {record['wall_s']:5.1f} s  {record['name']}{fixture}")
    return "\n".join(rows)


def by_folder(records: Iterable[Record]) -> list[tuple[str, int, float, float]]:
    """Returns folder, number of tests, processor seconds and wall seconds, the dearest first."""
    count: Counter[str] = Counter()
    cpu: defaultdict[str, float] = defaultdict(float)
    wall: defaultdict[str, float] = defaultdict(float)
    for test in tests(records):
        folder = area(test["name"].partition("::")[0])
        count[folder] += 1
        cpu[folder] += test["cpu_s"]
        wall[folder] += test["wall_s"]
    return sorted(((name, count[name], cpu[name], wall[name]) for name in count), key=lambda row: -row[2])


def by_kind(records: Iterable[Record]) -> list[tuple[str, int]]:
    """Returns what was started, and how often."""
    return Counter(record["what"] for record in records if record["kind"] == "started").most_common()


def summary(records: list[Record]) -> str:
    """Returns the tables that CI prints."""
    lines = [f"The {DEAREST} dearest by processor time:", dearest(records), "", "By folder:"]
    total_cpu = total_wall = total_count = 0.0
    for name, count, cpu, wall in by_folder(records):
        lines.append(f"{cpu:7.1f} s  {wall:6.1f} s  {count:6,} tests  {name}")
        total_cpu, total_wall, total_count = total_cpu + cpu, total_wall + wall, total_count + count
    lines.append(f"{total_cpu:7.1f} s  {total_wall:6.1f} s  {int(total_count):6,} tests  all")
    started = ", ".join(f"{count:,} {what}" for what, count in by_kind(records))
    lines += ["", f"Started: {started or 'nothing'}"]
    return "\n".join(lines)
