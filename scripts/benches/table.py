"""The Markdown table of lines as `figures.emit` writes them: figure, what was measured, the bar if there is one.

A figure's name is made of its bench, its system unless that is raftsched, and its conditions: the bars in `bars.py` are
kept by that name, so that a shorter run (another count, another rate) is not held against them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from scripts.benches.bars import BARS, Bar
from scripts.benches.figures import OURS, Line

# Under which conditions something was measured: field -> words; the order is that of the name.
CONDITIONS = {
    "sealed": "{}",
    "of": "of {}",  # the figure that a ratio is of
    "handler": "{}",
    "filter": "{}",
    "layout": "{}",
    "batch": "batches of {:,}",
    "in_flight": "{:,} in flight",
    "through": "through the {}",
    "delay_ms": "{:g} ms added",
    "rtt_ms": "round trips of {:g} ms",
    "order": "due {}",
    "directory": "{} directory",
    "turn_ms": "turns of {} ms",
    "stored": "{:,} jobs stored",
    "jobs": "{:,} jobs",
    "pages": "{} pages open",
    "on": "{}",
    "workers": "{:,} workers",
    "asked_mib_per_s": "{} MiB/s",
    "runs": "{:,} runs",
    "due_at_once": "{:,} due at once",
    "asked_per_second": "{:,}/s",
    "leader_killed": "leader killed",
    "base": "against {}",
}
# What the table shows of a line: these, as far as they are there. The JSON line has more.
ALWAYS = (
    "per_second", "jobs_per_second", "share", "ratio", "p50_ms", "p99_ms", "max_ms", "last_start_ms", "lost", "not_run",
)  # fmt: skip
OTHERS_TOLD = 0.1  # of the machine: then the rest is not to be relied on
ALSO = {
    "create": ("leader_us", "follower_us", "written_kib_per_job"),
    "create-batch": ("leader_us", "follower_us", "written_kib_per_job"),
    "create-sdk": ("client_us", "leader_us", "follower_us", "written_kib_per_job"),
    "run": ("cpu_per_start_us", "written_kib_per_start"),
    "burst": ("lateness_p50_ms", "lateness_p99_ms"),
    "lives": ("written_kib", "cpu_us", "file_mib"),
    "periodic": ("cpu_per_start_us",),
    "graph": ("critical_path_s", "took_s", "over_s", "not_succeeded"),
    "sustained": (
        "failover_p99_ms",
        "failover_max_ms",
        "written_kib_per_start",
        "cpu_per_start_us",
        "anonymous_growth",
        "pages_growth",
        "file_growth",
    ),
    "restore": ("seconds", "restore_seconds", "ready_seconds", "size_mib", "entries_per_second"),
    "snapshot": ("seconds", "size_mib", "calm_p99_ms", "create_p99_ms"),
    "scale": (
        "written_kib_per_job",
        "leader_us",
        "page_p99_ms",
        "get_p99_ms",
        "anonymous_mib",
        "store_mib",
        "restart_s",
        "failover_s",
        "cpu_per_start_us",
    ),
    "page-size": ("br_kb", "gzip_kb"),
    "page-list": ("first_rows_p50_ms", "longest_task_ms", "frame_max_ms"),
    "page-output": ("key_p99_ms", "heap_mib", "anonymous_mib"),
    "distances": (
        "leader_p50_ms",
        "leader_p99_ms",
        "follower_p50_ms",
        "follower_p99_ms",
        "late_p50_ms",
        "late_p99_ms",
        "failover_p50_s",
        "failover_max_s",
        "false_elections",
    ),
    "failover": ("p50_s", "max_s", "lost_acknowledged_writes"),
    "node-start": ("node_cpu_s", "sentinel_cpu_s", "supervisor_cpu_s", "ready_s"),
    "killed-cluster": ("p50_s", "min_s", "max_s"),
    "workers-idle": ("leader_cpu_share", "leader_cpu_share_without", "lost_sessions", "shortest_lease_ms"),
    "workers-killed": ("ttl_s", "min_s", "p50_s", "max_s", "beyond_s", "early", "overlaps"),
    "floor": ("ours_us", "floor_us"),
    "catchup": ("seconds", "leader_anonymous_mib_growth"),
}
UNITS = {
    "per_second": "/s",
    "ms": " ms",
    "s": " s",
    "seconds": " s",
    "us": " µs",
    "kb": " kB",
    "mib": " MiB",
    "kib": " KiB",
    "kib_per_job": " KiB",
    "kib_per_start": " KiB",
}  # by the last words of a field


def name(line: Line) -> str:
    system = [] if line.get("system", OURS) == OURS else [str(line["system"])]
    conditions = [words.format(line[field]) for field, words in CONDITIONS.items() if line.get(field)]
    return ", ".join([line["bench"], *system, *conditions])


# Of what others did beside raftsched, and of ratios to another version, there are tables of their own (peers/ratios.py,
# ratio/compare.py).
ELSEWHERE = ("against", "peer", "ratio", "apply-count")


def markdown(lines: Iterable[Line]) -> str:
    """A row for each figure; nothing at all without figures."""
    rows = ["| figure | measured | bar | met |", "|---|---|---|---|"]
    for line in lines:
        if line["bench"] in ELSEWHERE:
            continue
        bars = {field: bar for (figure, field), bar in BARS.items() if figure == name(line)}
        told = [bar.words(quantity(field)) for field, bar in bars.items()]
        rows.append(f"| {name(line)} | {'; '.join(_measured(line, bars))} | {'; '.join(told)} | {_met(line, bars)} |")
    return "\n".join(rows) if len(rows) > 2 else ""


def quantity(field: str) -> Callable[[Any], str]:
    """Writes values of a field with its name and unit: `create_p99_ms` as "create p99 12.5 ms"."""
    words, unit = field.replace("_", " "), ""
    for end, symbol in UNITS.items():
        if field == end or field.endswith(f"_{end}"):
            words, unit = field.removesuffix(end).replace("_", " ").strip(), symbol
            break
    return lambda value: f"{words} {number(value)}{unit}".strip()


def number(value: Any) -> str:
    """Three digits that count, all of those before the point."""
    if not isinstance(value, float | int) or isinstance(value, bool):
        return "none" if value is None else str(value)
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _measured(line: Line, bars: dict[str, Bar]) -> Iterator[str]:
    for field in dict.fromkeys((*ALWAYS, *ALSO.get(line["bench"], ()), *bars)):
        if field in line:
            yield quantity(field)(line[field])
    others = line.get("cpu_others")
    if isinstance(others, float) and others > OTHERS_TOLD:
        yield f"others took {others:.0%} of the machine"


def _met(line: Line, bars: dict[str, Bar]) -> str:
    if not bars:
        return ""
    missed = [field for field, bar in bars.items() if not bar.met(line.get(field))]
    return f"no: {', '.join(missed)}" if missed else "yes"
