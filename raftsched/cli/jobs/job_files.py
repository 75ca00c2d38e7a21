"""The jobs that `jobs apply` and `jobs diff` read: which files are meant, and each job with its place in them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from raftsched.cli.remote import by_name, job_ref
from raftsched.importers.documents import read_jobs
from raftsched.system.regular_files import read_regular

SUFFIXES = (".yaml", ".yml", ".json", ".jsonl")
_PARTS_MAX = 200  # of the path of a directory that is read


@dataclass(frozen=True)
class Wanted:
    """One job of the files."""

    place: str  # "jobs.yaml: line 3"
    namespace: str
    job: dict[str, Any]
    expired: bool  # it is over where it was exported

    @property
    def name(self) -> str:
        return str(self.job["name"])

    @property
    def path(self) -> str:
        return by_name(self.namespace, self.name)

    @property
    def where(self) -> dict[str, str]:
        return {"namespace": self.namespace, "name": self.name}

    @property
    def body(self) -> dict[str, Any]:
        return {**self.job, "namespace": self.namespace}


files_option = click.option(
    "-f",
    "--file",
    "files",
    metavar="FILE",
    multiple=True,
    required=True,
    help="YAML, JSON or JSON lines; '-' is stdin. A directory means the .yaml, .yml, .json and .jsonl files in it and"
    " in its directories; names that begin with a dot are passed over, links are followed. May be repeated.",
)
namespace_option = click.option(
    "--namespace", "-N", default="default", show_default=True, metavar="NS", help="Of jobs that name none."
)


def read_wanted(files: Sequence[str], namespace: str, *, empty: bool = False) -> list[Wanted]:
    """The jobs of all files, each with a name of its own. `empty`: a file that holds nothing at all, and a directory
    without files, are right, too. Raises a usage error; then nothing was sent."""
    found: list[Wanted] = []
    seen: dict[tuple[str, str], str] = {}
    for source, data in _contents(files, empty=empty):
        if empty and not data.strip():
            continue
        for document in read_jobs(data, source):
            job, place = document.value, f"{source}: {document.place}"
            if not isinstance(job.get("name"), str):
                raise click.UsageError(f"{place} has no name; apply finds jobs by name (or use jobs create)")
            wanted = Wanted(place, str(job.get("namespace") or namespace), job, document.expired)
            try:
                by_name(wanted.namespace, wanted.name)
            except click.UsageError as error:
                raise click.UsageError(f"{place}: {error.message}") from None
            before = seen.setdefault((wanted.namespace, wanted.name), place)
            if before != place:
                raise click.UsageError(f"{place}: {job_ref(wanted.where)} is there already, at {before}; keep one")
            found.append(wanted)
    return found


def _contents(files: Sequence[str], *, empty: bool) -> Iterator[tuple[str, bytes]]:
    for name in files:
        if name == "-":
            yield "stdin", sys.stdin.buffer.read()
            continue
        path = Path(name)
        try:
            if not path.is_dir():
                yield name, path.read_bytes()  # also what can be read only once, such as a pipe
                continue
            parts = list(_below(path, set()))
            if not parts and not empty:
                raise click.UsageError(f"{name} has no files that end with {', '.join(SUFFIXES)}")
            for part in parts:
                yield str(part), read_regular(part)
        except OSError as error:
            raise click.UsageError(f"cannot read {error.filename}: {(error.strerror or '').lower()}") from None


def _below(folder: Path, entered: set[tuple[int, int]]) -> Iterator[Path]:
    """Yields the files of a directory and of those in it, by name. A directory that links lead to again, as in a loop,
    is read once. Raises OSError."""
    status = os.stat(folder)
    if (status.st_dev, status.st_ino) in entered:
        return
    if len(folder.parts) > _PARTS_MAX:
        raise click.UsageError(f"{str(folder)[:80]}... is {len(folder.parts):,} directories deep; no jobs are there")
    entered.add((status.st_dev, status.st_ino))
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):  # .git, what an editor keeps, the ..data of a ConfigMap that is mounted
            continue
        if path.is_dir():
            yield from _below(path, entered)
        elif path.suffix in SUFFIXES:
            yield path
