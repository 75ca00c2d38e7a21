"""`raftsched jobs import`: what users leave behind. For now from crontabs; reading those is in `crontab`."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.output import print_json
from raftsched.cli.remote import by_name, check_namespace, format_option, remote, source_name

if TYPE_CHECKING:
    from raftsched.cli.crontab import Crontab
    from raftsched.client.http import Client

_PREFIX = re.compile(r"[a-z0-9._-]{0,30}", re.ASCII)


@dataclass
class _Report:
    source: str
    imported: list[dict[str, Any]] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    created: int = 0


@click.command("import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.File("rb"))
@click.option("--from", "kind", type=click.Choice(["crontab"]), required=True, help="What the files are.")
@click.option(
    "--user-column/--no-user-column", "--system/--no-system", "system", default=None,
    help="Whether a user stands before each command.  [default: only where that is clear]",
)  # fmt: skip
@click.option(
    "--seconds/--no-seconds", default=None,
    help="Whether seconds come first.  [default: only where nothing else makes sense]",
)  # fmt: skip
@click.option("--suspended", is_flag=True, help="Import without scheduling; see jobs resume.")
@click.option("--timeout", metavar="DURATION", help="End a run after this; cron has no such limit.  [default: 5m]")
@click.option("--namespace", "-N", default="default", show_default=True, metavar="NS")
@click.option("--timezone", "-z", metavar="TZ", help="Where the file has no CRON_TZ.  [default: this machine's]")
@click.option("--prefix", default="", metavar="P", help="Put before each job name, such as web1-.")
@click.option("--dry-run", is_flag=True, help="Read and report, send nothing.")
@format_option
@remote
def import_(
    client: Client, files: tuple[Any, ...], kind: str, system: bool | None, seconds: bool | None, suspended: bool,
    timeout: str | None, namespace: str, timezone: str | None, prefix: str, dry_run: bool, fmt: str,
) -> None:  # fmt: skip
    """Make jobs of crontabs, of users (crontab -l) and of the system (/etc/crontab, /etc/cron.d).

    What holds in cron holds after the import: environment lines, @nicknames, % (in lines of five fields; lines with
    seconds first are not cron's, and there % is only a character), CRON_TZ or the machine's time zone, runs that may
    overlap. Commands run as the user of the node, in HOME if the file sets it. The job's name is made of the file's
    name and the line, so importing a file again changes only what changed in it; lines that were removed stay as jobs.

    A user column is taken for one in /etc/crontab and /etc/cron.d/, and where every line has a user and then a command:
    a user of this machine that is no command too, or root, www-data, nobody, ubuntu and the like. --system and
    --no-system say it instead.

    Lines that cannot be imported are listed with number and reason, and the rest goes in. The exit code is then 1.

    \b
      crontab -l | raftsched jobs import --from crontab - --prefix $(hostname -s)- --dry-run
      raftsched jobs import --from crontab /etc/crontab /etc/cron.d/* --timeout 2h --suspended
      raftsched jobs import --from crontab deploy/crontab -N web -z Europe/Madrid
    """
    from raftsched.cli.crontab import is_zone, read_crontab
    from raftsched.cli.hostuser import is_account
    from raftsched.cli.hostzone import host_zone

    check_namespace(namespace)
    if not _PREFIX.fullmatch(prefix):
        raise click.UsageError(f"--prefix {prefix!r}: at most 30 of a-z, 0-9, '.', '_' and '-'")
    if timezone is not None and not is_zone(timezone):
        raise click.UsageError(f"--timezone {timezone!r} is not a time zone; write an IANA name such as Europe/Madrid")
    zone = timezone or host_zone()
    if zone is None:
        raise click.UsageError("this machine does not tell its time zone; say --timezone, such as --timezone UTC")
    reports = []
    for file in files:
        source = "crontab" if source_name(file) == "stdin" else source_name(file)
        tab = read_crontab(
            file.read(), source=source, timezone=zone, system=system, seconds=seconds, prefix=prefix,
            is_account=is_account,
        )  # fmt: skip
        report = _Report(source)
        reports.append(report)
        extra: dict[str, Any] = {"suspended": True} if suspended else {}
        if timeout:
            extra["timeout"] = timeout
        try:
            _send(client, tab, report, namespace, extra, dry_run)
        except Exception:
            if report.imported:
                click.echo(
                    f"{len(report.imported)} of {len(tab.entries)} lines of {source} are in; it is safe to repeat.",
                    err=True,
                )
            raise
        if fmt == "table":
            _print(report, tab, zone, dry_run)
        elif fmt == "name":
            for job in report.imported:
                click.echo(job["name"] if namespace == "default" else f"{namespace}/{job['name']}")
            _print_refused(report)
    if fmt == "json":
        print_json(
            {
                "items": [
                    {"file": r.source, "imported": r.imported, "refused": r.refused, "notes": r.notes} for r in reports
                ]
            }
        )
    if fmt == "table" and timeout is None and any(r.imported for r in reports):
        click.echo("note: runs end after 5m, the default; cron has no limit (--timeout 2h sets another)", err=True)
    sys.exit(1 if any(r.refused for r in reports) else 0)


def _send(client: Client, tab: Crontab, report: _Report, namespace: str, extra: dict[str, Any], dry_run: bool) -> None:
    """PUT by name for each line; a refusal is about that line, anything else ends the import."""
    from raftsched.client.errors import ClientError

    report.refused += [{"line": r.line, "text": r.text, "reason": r.reason} for r in tab.refused]
    report.notes += [{"line": line, "note": note} for line, note in tab.notes]
    for entry in tab.entries:
        done = {"line": entry.line, "name": entry.name, "result": "read"}
        job = {**entry.job, **extra}
        if dry_run:
            report.imported.append({**done, "job": job})
            continue
        try:
            answer = client.request("PUT", by_name(namespace, entry.name), body=job)
        except ClientError as e:
            if e.status not in (400, 409, 413, 422):
                raise
            report.refused.append({"line": entry.line, "text": entry.text, "reason": e.detail})
            continue
        report.created += answer.status == 201
        report.imported.append({**done, "result": "created" if answer.status == 201 else "known"})
    report.refused.sort(key=lambda r: int(r["line"]))


def _print(report: _Report, tab: Crontab, zone: str, dry_run: bool) -> None:
    if dry_run:
        for item in report.imported:
            trigger = item["job"]["trigger"]
            when = trigger.get("cron") or f"every {trigger['every']}"
            place = f" {trigger['timezone']}" if "timezone" in trigger else ""
            click.echo(f"line {item['line']}: {item['name']}\n    {when}{place}: {item['job']['handler']['shell']}")
    _print_refused(report)
    for note in report.notes:
        click.echo(f"line {note['line']}: note: {note['note']}", err=True)
    style = "with a user column" if tab.system else "without a user column"
    known = len(report.imported) - report.created
    parts = [f"{len(report.imported)} would be imported"] if dry_run else [f"{report.created} imported"]
    if known and not dry_run:
        parts.append(f"{known} known before (brought up to date)")
    parts.append(f"{len(report.refused)} refused")
    click.echo(f"{report.source}: {', '.join(parts)}; read {style}, times in {zone} unless CRON_TZ says otherwise")


def _print_refused(report: _Report) -> None:
    for r in report.refused:
        text = r["text"] if len(r["text"]) <= 100 else r["text"][:99] + "…"
        shown = "".join(c if c.isprintable() else " " for c in text)
        click.echo(f"line {r['line']}: refused: {shown}\n    {r['reason']}", err=True)
