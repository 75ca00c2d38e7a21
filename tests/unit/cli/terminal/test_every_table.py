"""The tables of all commands on terminals of four widths, with names of 128 characters: no line is wider than the
terminal, and no id, time, state or figure is broken or cut."""

from __future__ import annotations

import fcntl
import importlib
import os
import pkgutil
import pty
import re
import struct
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
import pytest

import raftsched.cli
from raftsched.cli.main import cli
from raftsched.cli.terminal import output, table
from raftsched.cli.terminal.table import Column
from raftsched.cli.terminal.values import cell_width
from tests.support.described_answers import JOB, NAME, RUN, TIME, answer
from tests.support.stub_server import serve

WIDTHS = (60, 80, 100, 140)
_ARGUMENTS = {
    "JOB": JOB, "[JOB]": JOB, "JOB|RUN": RUN, "ID|JOB": RUN, "ID": RUN, "RUN": RUN, "NODE": "n1", "WORKER": "w1",
    "WEBHOOK": "ops", "NAMESPACE": "x", "QUEUE": "q", "CALENDAR": "c", "TOKEN": "t", "OPERATION": JOB, "SECRET": "x/s",
}  # fmt: skip
_OTHERS = (  # what prints a table, and is no list
    "runs get", "runs explain", "workers get", "workflows show", "cluster status", "cluster terms", "cluster upgrade",
    "jobs minutes", "jobs revisions", "audit refusals",
)  # fmt: skip
_ELSEWHERE = {  # tables of what no node answers: rows made up below
    "raftsched.cli.backup.listing._COLUMNS", "raftsched.cli.backup.show._COLUMNS", "raftsched.cli.contexts._COLUMNS",
    "raftsched.cli.doctor.doctor_command._COLUMNS", "raftsched.cli.runs.events._COLUMNS",
}  # fmt: skip
_SAID = re.compile(r"\x1b\[[0-9;]*m")


def commands(group: click.Group = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yields all commands with their names."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found, (*path, name))
        else:
            yield (*path, name), found


def is_list(path: tuple[str, ...], command: click.Command) -> bool:
    """Returns whether a command prints a list: it has a limit and a format, or is called so."""
    names = {parameter.name for parameter in command.params}
    return "fmt" in names and (path[-1] == "list" or {"limit", "everything"} <= names)


def asked() -> Iterator[list[str]]:
    known = dict(commands())
    for path, command in known.items():
        if path[0] in ("backup", "contexts") or not (is_list(path, command) or " ".join(path) in _OTHERS):
            continue
        needed = [p for p in command.params if isinstance(p, click.Argument) and p.required]
        yield [*path, *(_ARGUMENTS[str(p.metavar).removesuffix("...")] for p in needed)]


COMMANDS = list(asked())


def sets_of_columns() -> dict[str, list[Column]]:
    """Returns all columns that a module of the command line declares, by the name of their list."""
    found = {}
    for module in pkgutil.walk_packages(raftsched.cli.__path__, "raftsched.cli."):
        if module.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, list) and value and all(isinstance(one, Column) for one in value):
                found[f"{module.name}.{name}"] = value
    return found


@contextmanager
def terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], str]]:
    """Makes stdout a terminal of this width. What is given returns what came to it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    came = bytearray()

    def read() -> None:
        while True:
            try:
                piece = os.read(ours, 65_536)
            except OSError:
                return
            if not piece:
                return
            came.extend(piece)

    reader = threading.Thread(target=read)
    reader.start()
    with os.fdopen(theirs, "w", encoding="utf-8") as stdout, monkeypatch.context() as patched:
        patched.delenv("COLUMNS", raising=False)
        patched.setenv("TERM", "xterm")
        patched.setattr(sys, "stdout", stdout)
        patched.setattr(sys, "__stdout__", stdout)

        def ended() -> str:
            stdout.close()
            reader.join()
            return came.decode().replace("\r\n", "\n")

        try:
            yield ended
        finally:
            if not stdout.closed:
                ended()
    os.close(ours)


class Shown:
    """The tables that were laid out, with the widths of their columns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sets: list[Sequence[Column]] = []
        self.lines: list[str] = []
        self.laid_out: list[tuple[Sequence[Column], list[int], dict[int, int]]] = []
        fitted, table_lines = table.fitted, table.table_lines

        def noted(columns: Sequence[Column], widest: Sequence[int], room: int | None) -> dict[int, int]:
            found = fitted(columns, widest, room)
            self.sets.append(columns)
            self.laid_out.append((columns, list(widest), found))
            return found

        def told(*given: Any) -> Iterator[str]:
            for line in table_lines(*given):
                self.lines.append(line)
                yield line

        monkeypatch.setattr(table, "fitted", noted)
        monkeypatch.setattr(table, "table_lines", told)


def check(printed: str, shown: Shown, width: int) -> None:
    assert shown.laid_out, "no table was printed"
    assert "\n".join(shown.lines) in printed
    for line in shown.lines:
        assert cell_width(_SAID.sub("", line)) <= width, line
    for columns, widest, widths in shown.laid_out:
        first = sorted(range(len(columns)), key=lambda at: columns[at].rank)[:2]
        assert set(first) <= set(widths), "the two that matter most are there"
        for at, given in widths.items():
            if columns[at].kind not in ("name", "text", "prose"):
                assert given == widest[at], f"{columns[at].title} is cut"


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_list_fits(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for width in WIDTHS:
        with serve(answer) as stub, terminal(width, monkeypatch) as printed, monkeypatch.context() as patched:
            shown = Shown(patched)
            cli.main(["--server", stub.url, *words], prog_name="raftsched", standalone_mode=False)
            seen = printed()
        check(seen, shown, width)


def test_tables_of_what_no_node_answers_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: dict[str, dict[str, Any]] = {
        "raftsched.cli.backup.listing._COLUMNS": {
            "cluster": "00" * 16, "first": 987_654_321, "from": "2025-11-20T01:00:00Z", "last": 987_654_321,
            "to": "2025-11-20T01:00:00Z", "full": [1], "segments": 987_654, "size": 987_654_321,
        },
        "raftsched.cli.backup.show._COLUMNS": {
            "id": JOB, "namespace": NAME, "name": NAME, "state": "SCHEDULED", "next_fire_at": "2025-11-20T01:00:00Z",
            "revision": 987_654_321,
        },
        "raftsched.cli.contexts._COLUMNS": {"current": True, "name": NAME, "server": NAME, "token": True},
        "raftsched.cli.runs.events._COLUMNS": {
            "at": "2025-11-20T01:00:00.000Z", "type": "instance.dead_letter", "namespace": NAME, "job": NAME,
            "job_id": JOB, "instance_id": RUN, "node": NAME, "reason": "retries exhausted " * 9,
        },
        "raftsched.cli.doctor.doctor_command._COLUMNS": {
            "state": "fail", "check": "output-shipping", "detail": "words of a long finding " * 20,
        },
    }  # fmt: skip
    assert rows.keys() == _ELSEWHERE
    for name, row in rows.items():
        for width in WIDTHS:
            with terminal(width, monkeypatch) as printed, monkeypatch.context() as patched:
                shown = Shown(patched)
                output.print_table(sets_of_columns()[name], [row, row])
                seen = printed()
            check(seen, shown, width)


def test_no_table_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of columns that no command above prints has to be given one."""
    shown = Shown(monkeypatch)
    with serve(answer) as stub:
        for words in COMMANDS:
            with terminal(100, monkeypatch) as printed:
                cli.main(["--server", stub.url, *words], prog_name="raftsched", standalone_mode=False)
                printed()
    printed_sets = {id(one) for one in shown.sets}
    forgotten = {name for name, one in sets_of_columns().items() if id(one) not in printed_sets}
    assert forgotten == _ELSEWHERE


def test_wide_cuts_nothing_and_tells_times_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(answer) as stub:
        told = {}
        for fmt in ("table", "wide"):
            with terminal(60, monkeypatch) as printed:
                cli.main(
                    ["--server", stub.url, "jobs", "list", "-o", fmt], prog_name="raftsched", standalone_mode=False
                )
                told[fmt] = printed().splitlines()[1]
    assert NAME in told["wide"]
    assert TIME in told["wide"]
    assert JOB in told["wide"]
    assert NAME not in told["table"]
    assert TIME not in told["table"]
    assert " ago" in told["table"]


def test_a_thing_has_its_times_in_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"created_at": TIME, "late_ms": 67_000, "disk_bytes": 80_000_000_000, "name": "n1"}
    with terminal(80, monkeypatch) as printed:
        output.print_fields(fields)
        lines = printed().splitlines()
    assert lines[0].startswith(f"created_at  {TIME} (")
    assert lines[0].endswith(" ago)")
    assert lines[1:] == ["late_ms     67000 (1 min 7 s)", "disk_bytes  80000000000 (80.0 GB)", "name        n1"]
