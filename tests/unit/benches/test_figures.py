"""How figures are printed, kept and put into a table beside their bars."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import pytest

from scripts.benches import figures, table
from scripts.benches.bars import BARS, Bar, at_least, at_most


def line(bench: str = "create", **fields: Any) -> figures.Line:
    return {"bench": bench, "system": figures.OURS, **fields}


def rows(*lines: figures.Line) -> list[list[str]]:
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table.markdown(lines).splitlines()[2:]]


def test_a_line_is_json_and_is_kept() -> None:
    out, copy = io.StringIO(), io.StringIO()
    figures.write_to(out, copy)
    try:
        emitted = figures.emit("create", in_flight=32, per_second=1234.56789, p50_ms=math.nan)
    finally:
        figures.write_to()
    assert json.loads(out.getvalue()) == json.loads(copy.getvalue()) == emitted == figures.lines()[-1]
    assert emitted["system"] == "raftsched"
    assert (emitted["per_second"], emitted["p50_ms"]) == (1234.568, None)


@pytest.mark.parametrize(
    ("share", "wanted"), [(0.0, 1), (0.5, 51), (0.99, 100), (1.0, 100)]
)  # the least that so many are not above
def test_percentiles(share: float, wanted: float) -> None:
    assert figures.percentile([float(value) for value in range(100, 0, -1)], share) == wanted


def test_there_is_no_percentile_of_nothing() -> None:
    assert math.isnan(figures.percentile([], 0.5))


def test_a_name_says_the_conditions_and_whose_it_is() -> None:
    assert table.name(line(in_flight=1_000, through="follower")) == "create, 1,000 in flight, through the follower"
    assert table.name({**line(in_flight=1), "system": "etcd"}) == "create, etcd, 1 in flight"
    assert table.name(line("lateness", leader_killed=False, per_second=9.0)) == "lateness"


def test_a_row_says_what_was_measured_and_whether_the_bar_is_met(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BARS, ("some, 1 in flight", "per_second"), at_least(9_500, 13_000))
    monkeypatch.setitem(BARS, ("some, 1 in flight", "p99_ms"), at_most(2.5))
    bars = "at least 9,500/s, then 13,000/s; at most p99 2.50 ms"
    assert rows(
        line("some", in_flight=1, per_second=9_812.3, p99_ms=2.51, other=3),
        line("some", in_flight=1, per_second=9_500.0, p99_ms=2.5),
        line("some", in_flight=2, per_second=1.0),
    ) == [
        ["some, 1 in flight", "9,812/s; p99 2.51 ms", bars, "no: p99_ms"],
        ["some, 1 in flight", "9,500/s; p99 2.50 ms", bars, "yes"],
        ["some, 2 in flight", "1.00/s", "", ""],
    ]


@pytest.mark.parametrize("measured", [None, "fast"])
def test_what_was_not_measured_meets_no_bar(measured: Any) -> None:
    assert not at_least(0).met(measured)
    assert not at_most(0).met(measured)


def test_every_bar_is_one_of_a_line_that_the_table_shows() -> None:
    for (figure, field), bar in BARS.items():
        assert isinstance(bar, Bar)
        assert bar.then is None or (bar.then >= bar.value if bar.least else bar.then <= bar.value), (figure, field)


def test_peers_and_ratios_have_a_table_of_their_own() -> None:
    assert table.markdown([line("peer", versions="1"), line("against", of="create", ratio=2.0)]) == ""


def test_a_row_says_when_others_used_the_machine() -> None:
    ((_, measured, *_), (_, quiet, *_)) = rows(
        line(per_second=1.0, cpu_others=0.58), line(per_second=1.0, cpu_others=0.1)
    )
    assert (measured, quiet) == ("1.00/s; others took 58% of the machine", "1.00/s")


def test_when_it_was_measured_is_no_part_of_a_figures_name() -> None:
    """Else no bar is found for any of them."""
    figure = table.name(line("tls-share", sealed="raft", in_flight=256, at="2026-01-01T00:00:00Z"))
    assert (figure, "share") in BARS
