"""Unit files with their drop-ins, as systemd.syntax(7) has them, from files or from what `systemctl cat` prints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath

import click

FILE_MAX = 1 << 20  # bytes of one unit file: systemd takes no line that is longer
STREAM_MAX = 64 << 20  # bytes of what `systemctl cat` prints
LINES_MAX = 500_000
_HEADING = re.compile(r"# (/\S+)")
_UNIT_NAME = re.compile(r"[A-Za-z0-9:_.\\@-]{1,255}\.(?:timer|service)", re.ASCII)
_LISTS = frozenset({  # settings that add up; an empty value forgets those before it
    "OnCalendar", "OnActiveSec", "OnBootSec", "OnStartupSec", "OnUnitActiveSec", "OnUnitInactiveSec", "ExecStart",
    "ExecStartPre", "ExecStartPost", "ExecStop", "ExecStopPost", "ExecReload", "ExecCondition", "Environment",
    "EnvironmentFile",
})  # fmt: skip


@dataclass
class Unit:
    """`settings`: by section and name, in the order in which they were given, with the values that hold."""

    name: str  # such as backup.timer
    path: str
    found: bool = False  # the unit itself was given, not only drop-ins of it
    settings: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    def all(self, section: str, name: str) -> list[str]:
        return self.settings.get(section, {}).get(name, [])

    def last(self, section: str, name: str) -> str:
        values = self.all(section, name)
        return values[-1] if values else ""

    @property
    def restarts(self) -> bool:
        """Returns whether it is started again after a failure."""
        return self.last("Service", "Restart") == "on-failure"

    def set(self, section: str, name: str, value: str) -> None:
        """Systemd's rule: lists grow, the last value of anything else holds, an empty one resets."""
        of = self.settings.setdefault(section, {})
        if not value:
            of[name] = []
        elif name in _LISTS:
            of.setdefault(name, []).append(value)
        else:
            of[name] = [value]


def read_files(files: Iterable[tuple[str, bytes]]) -> tuple[dict[str, Unit], list[tuple[str, str]]]:
    """(units by name, (file, what is wrong with it)) of files and of `systemctl cat`. Raises a usage error."""
    units: dict[str, Unit] = {}
    problems: list[tuple[str, str]] = []
    drop_ins: list[tuple[str, str, str]] = []  # unit, path, text
    for path, data in files:
        if len(data) > STREAM_MAX:
            raise click.UsageError(f"{path} has {len(data):,} bytes; {STREAM_MAX:,} is the limit for unit files")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise click.UsageError(f"{path} is not UTF-8 text") from None
        for part_path, part in _parts(path, text):
            if len(part) > FILE_MAX:
                raise click.UsageError(
                    f"{part_path} has {len(part):,} characters; {FILE_MAX:,} is the limit for a unit"
                )
            name, drop_in = _unit_of(part_path)
            if name is None:
                problems.append((part_path, "neither its name nor a heading says which timer or service it is"))
            elif drop_in:
                drop_ins.append((name, part_path, part))
            else:
                unit = units.setdefault(name, Unit(name, part_path))
                if unit.found:
                    problems.append((part_path, f"{unit.path} is the same unit; only that one is read"))
                    continue
                unit.found, unit.path = True, part_path
                problems += ((part_path, why) for why in _take(unit, part))
    for name, path, text in sorted(drop_ins, key=lambda one: PurePath(one[1]).name):
        unit = units.setdefault(name, Unit(name, path))
        problems += ((path, why) for why in _take(unit, text))
    return units, problems


def _parts(path: str, text: str) -> Iterator[tuple[str, str]]:
    """The files of which a text consists: one, or those that `systemctl cat` put behind one another, each below a
    comment with its path."""
    current: str | None = None if PurePath(path).suffix not in (".timer", ".service", ".conf") else path
    lines: list[str] = []
    headed = False
    for line in text.splitlines():
        heading = _HEADING.fullmatch(line.rstrip())
        if heading and _unit_of(heading[1])[0] is not None:
            if headed or (current is not None and any(_says(kept) for kept in lines)):
                yield current or path, "\n".join(lines)
            current, lines, headed = heading[1], [], True
        else:
            lines.append(line)
    if current is not None or any(_says(kept) for kept in lines):
        yield current or path, "\n".join(lines)


def _says(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith(("#", ";"))


def _unit_of(path: str) -> tuple[str | None, bool]:
    """(name of the unit, whether the file is a drop-in of it)."""
    pure = PurePath(path)
    if pure.suffix == ".conf" and pure.parent.name.endswith(".d"):
        name = pure.parent.name.removesuffix(".d")
        return (name if _UNIT_NAME.fullmatch(name) else None), True
    return (pure.name if _UNIT_NAME.fullmatch(pure.name) else None), False


def _take(unit: Unit, text: str) -> Iterator[str]:
    """Adds the settings of a file; yields what is wrong in it, line by line."""
    section = ""
    for number, line in _logical_lines(text):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif "=" in line and section:
            name, _, value = line.partition("=")
            unit.set(section, name.strip(), value.strip())
        else:
            yield f"line {number}: {line[:60]!r} is neither a section nor a setting of one; it is left out"


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments; a backslash at the end joins the next one."""
    joined: list[str] = []
    begin = 0
    for number, raw in enumerate(text.splitlines(), 1):
        if number > LINES_MAX:
            raise click.UsageError(f"more than {LINES_MAX:,} lines are no unit files")
        line = raw.strip()
        if line.startswith(("#", ";")) or (not line and not joined):
            continue
        begin = begin if joined else number
        if line.endswith("\\"):
            joined.append(line[:-1])
            continue
        joined.append(line)
        whole = " ".join(joined).strip()
        joined = []
        if whole:
            yield begin, whole
    if joined and " ".join(joined).strip():
        yield begin, " ".join(joined).strip()
