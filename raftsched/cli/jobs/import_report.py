"""The report of an import: what became a job, with what notes, what did not and why. For people, programs and files."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.terminal.values import cell

if TYPE_CHECKING:
    from raftsched.importers.foreign import Reading

_LINE = re.compile(r"line ([0-9]+)", re.ASCII)
TEXT_MAX = 100  # characters of a refused text that are shown
REPORT_ENDINGS = (".md", ".json")


@dataclass
class SourceReport:
    """About one source."""

    source: str
    kind: str
    how: str  # it was read
    imported: list[dict[str, Any]] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    created: int = 0
    unlimited: bool = False  # a job has no timeout of its own

    def take(self, reading: Reading) -> None:
        """Adds what reading the source said; jobs are added when they are sent."""
        self.refused += [{**where(place), "text": text, "reason": reason} for place, text, reason in reading.refused]
        for place, note in reading.notes:
            todo = {"todo": True} if (place, note) in reading.todo else {}
            self.notes.append({**where(place), "note": note, **todo})

    def with_notes(self) -> int:
        """Returns the number of jobs that have a note."""
        noted = {_label(note) for note in self.notes}
        return sum(_label(item) in noted for item in self.imported)

    def counts(self) -> dict[str, int]:
        """Returns the numbers of one line of the report."""
        return {"jobs": len(self.imported), "with_notes": self.with_notes(), "refused": len(self.refused)}


def where(place: str) -> dict[str, Any]:
    """Returns the number of a line, as programs want it."""
    line = _LINE.fullmatch(place)
    return {"line": int(line[1])} if line else {"place": place}


def as_json(reports: Sequence[SourceReport], dry_run: bool) -> dict[str, Any]:
    """Returns the whole report for programs."""
    items = [
        {"file": r.source, "kind": r.kind, "imported": r.imported, "refused": r.refused, "notes": r.notes,
         "summary": r.counts()}
        for r in reports
    ]  # fmt: skip
    return {"items": items, "dry_run": dry_run}


def write(path: str, reports: Sequence[SourceReport], dry_run: bool) -> None:
    """Writes the report to a file, Markdown or JSON by its ending."""
    if path.endswith(".json"):
        text = json.dumps(as_json(reports, dry_run), indent=2, ensure_ascii=False) + "\n"
    else:
        text = "\n".join(_markdown(reports, dry_run)) + "\n"
    with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)


def print_all(reports: Sequence[SourceReport], dry_run: bool) -> None:
    """Prints the report: what is refused and noted to standard error, jobs (of a dry run) and counts to output."""
    for report in reports:
        prefix = "" if len(reports) == 1 else f"{cell(report.source)}: "
        if dry_run:
            for item in report.imported:
                what = cell(f"{_when(item['job'])}: {_what(item['job'])}")
                click.echo(f"{prefix}{cell(_label(item))}: {item['name']}\n    {what}")
        print_refused(report, prefix)
        for note in report.notes:
            word = "to do" if "todo" in note else "note"
            click.echo(f"{prefix}{cell(_label(note))}: {word}: {cell(note['note'])}", err=True)
    for report in reports:
        click.echo(f"{cell(report.source)}: {_summary(report, dry_run)}; {report.how}")
    if len(reports) > 1:
        jobs, noted, refused = (sum(r.counts()[name] for r in reports) for name in ("jobs", "with_notes", "refused"))
        word = "would be imported" if dry_run else "imported or brought up to date"
        click.echo(f"{len(reports)} sources: {jobs} {word}, {noted} of them with a note, {refused} refused")


def print_refused(report: SourceReport, prefix: str = "") -> None:
    """Prints what could not be imported, to standard error."""
    for r in report.refused:
        text = r["text"] if len(r["text"]) <= TEXT_MAX else r["text"][: TEXT_MAX - 1] + "…"
        if "line" in r:
            click.echo(f"{prefix}{_label(r)}: refused: {cell(text)}\n    {cell(r['reason'])}", err=True)
        else:
            click.echo(f"{prefix}{cell(_label(r))}: refused: {cell(r['reason'])}", err=True)


def _summary(report: SourceReport, dry_run: bool) -> str:
    known = len(report.imported) - report.created
    parts = [f"{len(report.imported)} would be imported"] if dry_run else [f"{report.created} imported"]
    if known and not dry_run:
        parts.append(f"{known} known before (brought up to date)")
    noted = report.with_notes()
    if noted:
        parts.append(f"{noted} with a note")
    parts.append(f"{len(report.refused)} refused")
    return ", ".join(parts)


def _label(item: dict[str, Any]) -> str:
    return f"line {item['line']}" if "line" in item else str(item["place"])


def _when(job: dict[str, Any]) -> str:
    return "; ".join(_trigger(trigger) for trigger in job.get("triggers") or [job["trigger"]])


def _trigger(trigger: dict[str, Any]) -> str:
    when = trigger.get("cron") or " ".join(f"{k} {v}" for k, v in trigger.items() if k not in ("timezone", "id"))
    return f"{when} {trigger['timezone']}" if "timezone" in trigger else str(when)


def _what(job: dict[str, Any]) -> str:
    handler = job["handler"]
    if "shell" in handler:
        return str(handler["shell"])
    if "exec" in handler:
        return shlex.join(handler["exec"])
    if "http" in handler:
        return f"{handler['http'].get('method', 'GET')} {handler['http']['url']}"
    return next(f"{kind} {handler[kind]}" for kind in ("call", "python") if kind in handler)


def _markdown(reports: Sequence[SourceReport], dry_run: bool) -> Iterable[str]:
    yield "# Import"
    yield ""
    if dry_run:
        yield "A dry run: nothing was sent."
        yield ""
    yield from _table(
        ("source", "kind", "jobs", "with a note", "not imported", "read"),
        ((r.source, r.kind, *r.counts().values(), r.how) for r in reports),
    )
    sections = (
        ("Not imported", ("source", "place", "text", "reason"),
         [(r.source, _label(x), x["text"][:TEXT_MAX], x["reason"]) for r in reports for x in r.refused]),
        ("To do", ("source", "place", "what"),
         [(r.source, _label(x), x["note"]) for r in reports for x in r.notes if "todo" in x]),
        ("Notes", ("source", "place", "note"),
         [(r.source, _label(x), x["note"]) for r in reports for x in r.notes if "todo" not in x]),
        ("Jobs", ("source", "place", "namespace", "name", "result"),
         [(r.source, _label(x), x["namespace"], x["name"], x["result"]) for r in reports for x in r.imported]),
    )  # fmt: skip
    for title, columns, rows in sections:
        if rows:
            yield ""
            yield f"## {title}"
            yield ""
            yield from _table(columns, rows)


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterable[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(_markdown_cell(value) for value in row)} |"


def _markdown_cell(value: Any) -> str:
    """One line, in which nothing is markup: files are written by strangers."""
    return re.sub(r"([\\|`*_<>\[\]#])", r"\\\1", cell(str(value)))
