"""Reads job files: JSON, JSON lines or YAML, one job or many.

YAML is read by the rules of version 1.2, where `on`, `yes` and `12:30` are text: by those of 1.1 the field `on` of
`retry` would be lost. Times stay text, keys that are given twice are refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click

READ_ONLY = (  # what answers add to a job
    "id", "state", "revision", "next_fire_at", "last_instance", "created_at", "modified_at", "running", "active",
    "runs", "failures_in_a_row", "last_start_at", "last_end_at", "last_executor", "error", "resumes_at",
    "last_state", "last_duration_ms", "warnings",
)  # fmt: skip
FILE_MAX = 256 << 20  # bytes
VALUES_MAX = 5_000_000  # of one YAML document, aliases written out
DEPTH_MAX = 100


@dataclass(frozen=True)
class Document:
    """An object of a file."""

    place: str  # for messages: "item 3", "line 17"
    value: dict[str, Any]
    expired: bool = False  # an answer, of a job that is over


def read_documents(data: bytes, source: str) -> list[Document]:
    """The objects of a file: one, a list, {"items": [...]} (what `jobs list -o json` prints), one in each line, or YAML
    documents that hold any of these.

    Raises a usage error that names the place.
    """
    if len(data) > FILE_MAX:
        raise click.UsageError(f"{source} has {len(data):,} bytes; {FILE_MAX:,} is the limit: split it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise click.UsageError(f"{source} is not UTF-8 text") from None
    if not text.strip():
        raise click.UsageError(f"{source} is empty; write a job as YAML or JSON, or several")
    if text.lstrip()[0] in "{[":
        return _of_json(text, source)
    return _of_yaml(text, source)


def _of_json(text: str, source: str) -> list[Document]:
    try:
        return list(_objects(_json(text), source, ""))
    except ValueError as whole:
        lines: list[Document] = []
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                try:
                    lines += _objects(_json(line), source, f"line {number}")
                except ValueError as error:
                    if lines:  # several good lines before it: meant as JSON lines
                        problem = f"line {number}: {error}"
                        raise click.UsageError(f"{source} is neither JSON nor JSON lines: {problem}") from None
                    break
        else:
            return lines
        try:  # {a: 1} is YAML, too
            return _of_yaml(text, source)
        except click.UsageError:
            raise click.UsageError(f"{source} is neither JSON nor JSON lines nor YAML: {whole}") from None
    except RecursionError:
        raise click.UsageError(f"{source} nests too deeply") from None


def given_twice(pairs: list[tuple[str, Any]]) -> str | None:
    """Returns the first key that an object has twice (for json's `object_pairs_hook`); None: it has none."""
    if len(dict(pairs)) == len(pairs):
        return None
    names = [name for name, _ in pairs]
    return next(name for name in names if names.count(name) > 1)


def _json(text: str) -> Any:
    """ValueError also for a key that is given twice: one of the two would be lost."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice = given_twice(pairs)
        if twice is not None:
            raise ValueError(f"the key {twice!r} is given twice in one object")
        return dict(pairs)

    return json.loads(text, object_pairs_hook=unique)


def _of_yaml(text: str, source: str) -> list[Document]:
    from raftsched.importers.yaml_text import YamlProblem, read_yaml

    found: list[Document] = []
    try:
        for line, value in read_yaml(text, values_max=VALUES_MAX, depth_max=DEPTH_MAX):
            if value is not None:  # an empty document, as after a last ---
                found += _objects(value, source, f"line {line}")
    except YamlProblem as error:
        raise click.UsageError(f"{source} is not YAML: {error}") from None
    return found


def _objects(value: Any, source: str, place: str) -> Iterator[Document]:
    if isinstance(value, dict) and isinstance(value.get("items"), list):
        if value.get("next"):  # what is left out would count as deleted
            raise click.UsageError(
                f"{source} is the beginning of a list, its first {len(value['items'])} jobs: write all of them, with"
                " 'jobs export' or 'jobs list --all -o json'"
            )
        value = value["items"]
    single = not isinstance(value, list)
    for n, item in enumerate([value] if single else value, 1):
        where = place if single and place else ", ".join(filter(None, (place, f"item {n}")))
        if not isinstance(item, dict):
            raise click.UsageError(f"{source}: {where} is not a job; a job is an object with a trigger and a handler")
        yield Document(where, item)


def read_jobs(data: bytes, source: str) -> list[Document]:
    """The same as jobs that can be sent, see `sendable`. Raises a usage error."""
    found = read_documents(data, source)
    return [Document(d.place, sendable(d.value), expired=d.value.get("state") == "EXPIRED") for d in found]


def sendable(job: Mapping[str, Any]) -> dict[str, Any]:
    """A job without what only answers have. Of an answer: one that was NEW or SUSPENDED is to be suspended again, and
    what was due so long after its creation ("in") is due at that time, not as long once more."""
    found = {k: v for k, v in job.items() if k not in READ_ONLY}
    if job.get("state") in ("NEW", "SUSPENDED"):
        found.setdefault("suspended", True)
    trigger = job.get("trigger")
    if isinstance(trigger, dict) and "in" in trigger and isinstance(job.get("next_fire_at"), str):
        found["trigger"] = {"at": job["next_fire_at"]}
    return found
