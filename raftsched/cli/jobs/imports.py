"""`raftsched jobs import`: what users leave behind. Reading it is in `crontab`, `dkron` and `kubernetes`."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.remote import by_name, check_namespace, format_option, remote, source_name
from raftsched.cli.terminal.output import cell, print_json
from raftsched.cli.terminal.progress import progress, progress_option

if TYPE_CHECKING:
    from raftsched.cli.importers.foreign import Reading
    from raftsched.client.http import Client

_LINE = re.compile(r"line ([0-9]+)", re.ASCII)
_NO_LIMIT = {
    "crontab": "cron has no limit",
    "dkron": "Dkron has no limit unless a job says one",
    "kubernetes": "Kubernetes has no limit unless a job says one",
}
_PREFIX = re.compile(r"[a-z0-9._-]{0,30}", re.ASCII)


@dataclass
class _Report:
    source: str
    how: str  # it was read
    imported: list[dict[str, Any]] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    created: int = 0
    unlimited: bool = False  # a job has no timeout of its own


@click.command("import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.File("rb"))
@click.option(
    "--from", "kind", type=click.Choice(["crontab", "dkron", "kubernetes"]), required=True, help="What the files are."
)
@click.option(
    "--user-column/--no-user-column", "--system/--no-system", "system", default=None,
    help="Crontabs: whether a user stands before each command.  [default: only where that is clear]",
)  # fmt: skip
@click.option(
    "--seconds/--no-seconds", default=None,
    help="Crontabs: whether seconds come first.  [default: only where nothing else makes sense]",
)  # fmt: skip
@click.option("--suspended", is_flag=True, help="Import without scheduling; see jobs resume.")
@click.option("--timeout", metavar="DURATION", help="End a run after this, where the file says nothing.  [default: 5m]")
@click.option("--namespace", "-N", metavar="NS", help="[default: what a manifest says, else default]")
@click.option(
    "--timezone", "-z", metavar="TZ", help="Where the file says none.  [default: this machine's, kubernetes: UTC]"
)
@click.option("--prefix", default="", metavar="P", help="Put before each job name, such as web1-.")
@click.option("--dry-run", is_flag=True, help="Read and report, send nothing.")
@format_option
@progress_option
@remote
def import_(
    client: Client, files: tuple[Any, ...], kind: str, system: bool | None, seconds: bool | None, suspended: bool,
    timeout: str | None, namespace: str | None, timezone: str | None, prefix: str, dry_run: bool, fmt: str,
) -> None:  # fmt: skip
    """Make jobs of crontabs, of jobs of Dkron (its API's JSON), and of CronJobs of Kubernetes (manifests).

    Importing a file again brings its jobs up to date; what was taken out of it stays as a job. What cannot be imported
    is listed with its place and the reason, and the rest goes in: the exit code is then 1. What works differently is
    said, too, and what lacks something that it needs to run comes in suspended.

    Crontabs, of users (crontab -l) and of the system (/etc/crontab, /etc/cron.d): what holds in cron holds after the
    import: environment lines, @nicknames, % (in lines of five fields; lines with seconds first are not cron's, and
    there % is only a character), CRON_TZ or the machine's time zone, runs that may overlap. Commands run as the user of
    the node, in HOME if the file sets it. The job's name is made of the file's name and the line. A user column is
    taken for one in /etc/crontab and /etc/cron.d/, and where every line has a user and then a command: a user of this
    machine that is no command too, or root, www-data, nobody, ubuntu and the like. --system and --no-system say it
    instead.

    \b
      crontab -l | raftsched jobs import --from crontab - --prefix $(hostname -s)- --dry-run
      raftsched jobs import --from crontab /etc/crontab /etc/cron.d/* --timeout 2h --suspended
      curl -s http://dkron:8080/v1/jobs | raftsched jobs import --from dkron - --dry-run
      kubectl get cronjobs -A -o yaml | raftsched jobs import --from kubernetes - --suspended
    """
    from raftsched.cli.importers.hostzone import host_zone
    from raftsched.crontabs.reading import is_zone

    if namespace is not None:
        check_namespace(namespace)
    if not _PREFIX.fullmatch(prefix):
        raise click.UsageError(f"--prefix {prefix!r}: at most 30 of a-z, 0-9, '.', '_' and '-'")
    if kind != "crontab" and (system is not None or seconds is not None):
        raise click.UsageError("--system, --user-column and --seconds are about crontabs; leave them out")
    if timezone is not None and not is_zone(timezone):
        raise click.UsageError(f"--timezone {timezone!r} is not a time zone; write an IANA name such as Europe/Madrid")
    zone = timezone or ("UTC" if kind == "kubernetes" else host_zone())
    if zone is None:
        raise click.UsageError("this machine does not tell its time zone; say --timezone, such as --timezone UTC")
    reports = []
    for file in files:
        source = kind if source_name(file) == "stdin" else source_name(file)
        if kind == "crontab":
            reading, how = _crontab(file.read(), source, zone, system, seconds, prefix)
        else:
            reading, how = _foreign(kind, file.read(), source, zone, prefix)
        report = _Report(source, how)
        reports.append(report)
        try:
            _send(client, reading, report, namespace, {"suspended": suspended, "timeout": timeout}, dry_run)
        except Exception:
            if report.imported:
                what = f"{len(reading.entries)} {'lines' if kind == 'crontab' else 'jobs'} of {source}"
                click.echo(f"{len(report.imported)} of {what} are in; it is safe to repeat.", err=True)
            raise
        if fmt == "table":
            _print(report, dry_run)
        elif fmt == "name":
            for job in report.imported:
                click.echo(job["name"] if job["namespace"] == "default" else f"{job['namespace']}/{job['name']}")
            _print_refused(report)
    if fmt == "json":
        print_json(
            {
                "items": [
                    {"file": r.source, "imported": r.imported, "refused": r.refused, "notes": r.notes} for r in reports
                ]
            }
        )
    if fmt == "table" and timeout is None and any(r.unlimited for r in reports):
        click.echo(f"note: runs end after 5m, the default; {_NO_LIMIT[kind]} (--timeout 2h sets another)", err=True)
    sys.exit(1 if any(r.refused for r in reports) else 0)


def _crontab(
    data: bytes, source: str, zone: str, system: bool | None, seconds: bool | None, prefix: str
) -> tuple[Reading, str]:
    from raftsched.cli.importers.foreign import Entry, Reading
    from raftsched.cli.importers.hostuser import is_account
    from raftsched.crontabs.reading import read_crontab

    tab = read_crontab(
        data, source=source, timezone=zone, system=system, seconds=seconds, prefix=prefix, is_account=is_account
    )
    found = Reading(
        [Entry(f"line {e.line}", e.text, e.name, None, e.job) for e in tab.entries],
        [(f"line {r.line}", r.text, r.reason) for r in tab.refused],
        [(f"line {line}", note) for line, note in tab.notes],
    )
    style = "with a user column" if tab.system else "without a user column"
    return found, f"read {style}, times in {zone} unless CRON_TZ says otherwise"


def _foreign(kind: str, data: bytes, source: str, zone: str, prefix: str) -> tuple[Reading, str]:
    from raftsched.cli.terminal.documents import read_documents
    from raftsched.clock import SystemClock

    documents = read_documents(data, source)
    how = f"times in {zone} unless a job says otherwise"
    if kind == "dkron":
        from raftsched.cli.importers.dkron import read_dkron

        return read_dkron(documents, timezone=zone, prefix=prefix, now_ms=SystemClock().wall_ms()), how
    from raftsched.cli.importers.kubernetes import read_cronjobs

    return read_cronjobs(documents, timezone=zone, prefix=prefix), how


def _where(place: str) -> dict[str, Any]:
    """Returns the number of a line, as programs want it."""
    line = _LINE.fullmatch(place)
    return {"line": int(line[1])} if line else {"place": place}


def _send(
    client: Client, reading: Reading, report: _Report, namespace: str | None, more: dict[str, Any], dry_run: bool
) -> None:
    """PUT by name for each job; a refusal is about that job, anything else ends the import. `more`: "suspended", and
    "timeout" where the job has none."""
    from raftsched.client.errors import ClientError

    report.refused += [{**_where(place), "text": text, "reason": reason} for place, text, reason in reading.refused]
    report.notes += [{**_where(place), "note": note} for place, note in reading.notes]
    with progress(reading.entries, "importing") as entries:
        for entry in entries:
            target = namespace or entry.namespace or "default"
            done = {**_where(entry.place), "name": entry.name, "namespace": target, "result": "read"}
            job = {**entry.job}
            if more["suspended"]:
                job["suspended"] = True
            if more["timeout"]:
                job.setdefault("timeout", more["timeout"])
            report.unlimited = report.unlimited or "timeout" not in job
            if dry_run:
                report.imported.append({**done, "job": job})
                continue
            try:
                answer = client.request("PUT", by_name(target, entry.name), body=job)
            except ClientError as e:
                if e.status not in (400, 409, 413, 422):
                    raise
                reason = "; ".join([e.detail, *(f"{f.pointer}: {f.detail}" for f in e.errors if len(e.errors) > 1)])
                report.refused.append({**_where(entry.place), "text": entry.text, "reason": reason})
                continue
            report.created += answer.status == 201
            report.imported.append({**done, "result": "created" if answer.status == 201 else "known"})
    report.refused.sort(key=lambda r: int(r.get("line", 0)))


def _label(item: dict[str, Any]) -> str:
    return f"line {item['line']}" if "line" in item else str(item["place"])


def _print(report: _Report, dry_run: bool) -> None:
    if dry_run:
        for item in report.imported:
            trigger = item["job"]["trigger"]
            when = trigger.get("cron") or " ".join(f"{k} {v}" for k, v in trigger.items() if k != "timezone")
            place = f" {trigger['timezone']}" if "timezone" in trigger else ""
            click.echo(f"{_label(item)}: {item['name']}\n    {when}{place}: {_what(item['job']['handler'])}")
    _print_refused(report)
    for note in report.notes:
        click.echo(f"{_label(note)}: note: {cell(note['note'])}", err=True)
    known = len(report.imported) - report.created
    parts = [f"{len(report.imported)} would be imported"] if dry_run else [f"{report.created} imported"]
    if known and not dry_run:
        parts.append(f"{known} known before (brought up to date)")
    parts.append(f"{len(report.refused)} refused")
    click.echo(f"{report.source}: {', '.join(parts)}; {report.how}")


def _what(handler: dict[str, Any]) -> str:
    if "shell" in handler:
        return str(handler["shell"])
    if "exec" in handler:
        return shlex.join(handler["exec"])
    return f"{handler['http']['method']} {handler['http']['url']}"


def _print_refused(report: _Report) -> None:
    for r in report.refused:
        text = r["text"] if len(r["text"]) <= 100 else r["text"][:99] + "…"
        if "line" in r:
            click.echo(f"{_label(r)}: refused: {cell(text)}\n    {cell(r['reason'])}", err=True)
        else:
            click.echo(f"{cell(_label(r))}: refused: {cell(r['reason'])}", err=True)
