"""Finds sources, each of one kind, in the files, directories and standard input that the command line names."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

import click

from raftsched.importers.documents import FILE_MAX
from raftsched.importers.kinds import KINDS, recognised

FILES_MAX = 10_000  # of one directory
_UNITS = (".timer", ".service")


@dataclass
class Source:
    """A file, or all unit files of systemd that were given together: they are read as one."""

    name: str  # for messages and labels
    kind: str
    files: list[tuple[str, bytes]] = field(default_factory=list)  # path, content


def gather(arguments: tuple[str, ...], kind: str | None) -> list[Source]:
    """Reads everything before anything is imported. `kind`: of all of it; None: what each is recognised as.

    Raises a usage error that names the file.
    """
    sources: list[Source] = []
    loose = Source("", "systemd")  # unit files that were named one by one
    for argument in arguments:
        path = Path(argument)
        if argument != "-" and path.is_dir():
            sources += _of_directory(path, kind)
            continue
        name, data = _read(argument)
        found = kind or _recognised(name, data)
        if found != "systemd" or argument == "-":
            sources.append(Source(found if argument == "-" else name, found, [(name, data)]))
            continue
        loose.files.append((name, data))
        if len(loose.files) == 1:
            sources.append(loose)
    if loose.files:
        loose.name = loose.files[0][0] if len(loose.files) == 1 else f"{len(loose.files)} unit files"
    if not sources:
        raise click.UsageError(f"there is nothing to read in {', '.join(arguments)}")
    return sources


def _of_directory(directory: Path, kind: str | None) -> list[Source]:
    units: list[tuple[str, bytes]] = []
    if kind in (None, "systemd"):
        drop_ins = [path for path in _entries(directory) if path.is_dir() and path.name.endswith(".d")]
        folders = [directory, *(path for path in drop_ins if path.name.removesuffix(".d").endswith(_UNITS))]
        for folder in folders:
            wanted = _UNITS if folder is directory else (".conf",)
            units += [_read(str(path)) for path in _entries(folder) if path.is_file() and path.name.endswith(wanted)]
    found = [Source(str(directory), "systemd", units)] if units else []
    if kind == "systemd":
        return found
    for path in _entries(directory):
        if path.is_file() and not path.name.endswith(_UNITS):
            name, data = _read(str(path))
            of = kind or recognised(name, data)
            if of is None:
                click.echo(f"{name}: left out; it is nothing that is imported", err=True)
            else:
                found.append(Source(name, of, [(name, data)]))
    return found


def _entries(directory: Path) -> list[Path]:
    try:
        found = sorted(path for path in directory.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise click.UsageError(f"{directory}: {error.strerror}") from None
    if len(found) > FILES_MAX:
        raise click.UsageError(f"{directory} has {len(found):,} files; {FILES_MAX:,} is the limit")
    return found


def _read(argument: str) -> tuple[str, bytes]:
    """(name for messages, content)."""
    try:
        if argument == "-":
            name, data = "stdin", sys.stdin.buffer.read(FILE_MAX + 1)
        else:
            name = argument
            with open(argument, "rb") as file:
                data = file.read(FILE_MAX + 1)
    except OSError as error:
        raise click.UsageError(f"{argument}: {error.strerror}") from None
    if len(data) > FILE_MAX:
        raise click.UsageError(f"{name} has more than {FILE_MAX:,} bytes, which is the limit: split it")
    return name, data


def _recognised(name: str, data: bytes) -> str:
    found = recognised(name, data)
    if found is None and not data.strip():
        more = "; if a command was to write it, that one wrote nothing, and said why" if name == "stdin" else ""
        raise click.UsageError(f"{name} is empty{more}")
    if found is None:
        raise click.UsageError(f"{name} is not recognised; say what it is with --from: {', '.join(KINDS)}")
    return found
