"""`raftsched jobs import`: brings along jobs of other schedulers. Their files are read in `crontabs`, `importers`."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.jobs.warned import print_warnings
from raftsched.cli.lazy import Command
from raftsched.cli.remote import check_namespace, format_option, remote
from raftsched.cli.terminal.output import print_json
from raftsched.cli.terminal.progress import progress, progress_option
from raftsched.importers.kinds import KINDS
from raftsched.surface.plain import jobs

if TYPE_CHECKING:
    from raftsched.cli.jobs.import_report import SourceReport
    from raftsched.client.http import Client
    from raftsched.importers.foreign import Reading
    from raftsched.importers.sources import Source
    from raftsched.importers.template import Template

_NO_LIMIT = {
    "apscheduler": "APScheduler has no limit",
    "celery": "Celery has no limit unless a worker says one",
    "crontab": "cron has no limit",
    "dkron": "Dkron has no limit unless a job says one",
    "kubernetes": "Kubernetes has no limit unless a job says one",
    "powerjob": "PowerJob has no limit unless a job says one",
    "quartz": "Quartz has no limit",
    "systemd": "systemd has no limit for oneshot services unless TimeoutStartSec= says one",
    "xxl-job": "XXL-JOB has no limit unless a job says one",
}
_UTC = ("apscheduler", "kubernetes", "celery")  # what they take where nothing is said
_TASKS = ("apscheduler", "celery", "powerjob", "quartz", "xxl-job")  # their jobs are names of code elsewhere
_PREFIX = re.compile(r"[a-z0-9._-]{0,30}", re.ASCII)


@click.command("import", cls=Command)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--from", "--format", "kind", type=click.Choice(KINDS),
    help="The format of the files.  [default: found out for each]",
)  # fmt: skip
@click.option(
    "--user-column/--no-user-column", "--system/--no-system", "system", default=None,
    help="Crontabs: whether a user stands before each command.  [default: only where that is clear]",
)  # fmt: skip
@click.option(
    "--seconds/--no-seconds", default=None,
    help="Crontabs: whether seconds come first.  [default: only where nothing else makes sense]",
)  # fmt: skip
@click.option(
    "--handler-template", metavar="KIND:TEXT",
    help="APScheduler, Celery, Quartz, XXL-JOB, PowerJob: how a task is run.  [default: call:{task}]",
)  # fmt: skip
@click.option("--suspended", is_flag=True, help="Import without scheduling; see jobs resume.")
@click.option("--timeout", metavar="DURATION", help="End a run after this, where the file says nothing.  [default: 5m]")
@click.option("--namespace", "-N", metavar="NS", help="[default: what a manifest says, else default]")
@click.option(
    "--timezone", "-z", metavar="TZ",
    help="The zone, if the file names none.  [default: this machine's; apscheduler, celery, kubernetes: UTC]",
)  # fmt: skip
@click.option("--prefix", default="", metavar="P", help="Put before each job name, such as web1-.")
@click.option("--dry-run", is_flag=True, help="Read and report, change nothing; a cluster is asked what it refuses.")
@click.option("--report", "report_path", metavar="PATH", help="Write the report there too: PATH ends in .md or .json.")
@format_option
@progress_option
@remote
def import_(
    client: Client, files: tuple[str, ...], kind: str | None, system: bool | None, seconds: bool | None,
    handler_template: str | None, suspended: bool, timeout: str | None, namespace: str | None, timezone: str | None,
    prefix: str, dry_run: bool, report_path: str | None, fmt: str,
) -> None:  # fmt: skip
    """Make jobs of crontabs, systemd timers, CronJobs of Kubernetes (manifests), beat schedules of Celery, and the jobs
    of APScheduler (an export of its store), Dkron (its API's JSON), Quartz (XML, or an export of its tables), XXL-JOB
    and PowerJob (their JSON).

    FILE is a file, a directory, or - for standard input. All files are read before anything is sent. The report at the
    end lists for each file what cannot be imported (with its place and the reason), what works differently, and what
    you have to do by hand. The rest is imported; the exit code is 1 if something was refused. A job that lacks
    something it needs is imported suspended. A second import of a file updates its jobs; jobs that are no longer in it
    stay. docs/moving.md says field by field what is carried over.

    Crontabs, of users (crontab -l) and of the system (/etc/crontab, /etc/cron.d), keep what they mean in cron:

    \b
    - Environment lines and @nicknames hold, and CRON_TZ or the machine's zone.
    - Runs may overlap.
    - % ends the command in lines of five fields. In lines with seconds first,
      which are not cron's, it is a character.
    - Commands run as the user of the node, in HOME if the file sets it.
    - The job's name is made of the file's name and the line.

    A user column is expected in /etc/crontab and /etc/cron.d/, and where every line has a user and then a command: a
    user of this machine that is no command too, or root, www-data, nobody, ubuntu and the like. --system and
    --no-system say it instead.

    systemd: a timer together with its service, as unit files, as a directory of them (whose X.timer.d/*.conf count), or
    as systemctl cat prints them. Nothing is asked of systemd itself.

    APScheduler: its job stores hold pickles, and reading one runs code. So python -m raftsched.apscheduler export,
    which you run beside the program, writes them as JSON.

    Celery: a Python file is read and never run, so its schedule has to be written out. --handler-template says how
    tasks are run: call:, python:, exec: or shell: and a text in which {task}, {module}, {function}, {args} and {kwargs}
    stand for those of each task.

    \b
      crontab -l | raftsched jobs import - --prefix $(hostname -s)- --dry-run
      raftsched jobs import --from crontab /etc/crontab /etc/cron.d/* --timeout 2h --suspended
      systemctl cat backup.timer backup.service | raftsched jobs import - --dry-run
      raftsched jobs import /etc/systemd/system --report moved.md --suspended
      raftsched jobs import shop/celeryconfig.py --handler-template 'exec:celery -A shop call {task} --args {args}'
      python -m raftsched.apscheduler export sqlite:///jobs.sqlite | raftsched jobs import - --dry-run
      curl -s http://dkron:8080/v1/jobs | raftsched jobs import --from dkron - --dry-run
      kubectl get cronjobs -A -o yaml | raftsched jobs import --from kubernetes - --suspended
    """
    from raftsched.cli.jobs import import_report as reporting
    from raftsched.importers.due import judge
    from raftsched.importers.sources import gather
    from raftsched.system.clock import SystemClock

    if namespace is not None:
        check_namespace(namespace)
    if not _PREFIX.fullmatch(prefix):
        raise click.UsageError(f"--prefix {prefix!r}: at most 30 of a-z, 0-9, '.', '_' and '-'")
    if report_path is not None and not report_path.endswith(reporting.REPORT_ENDINGS):
        raise click.UsageError(f"--report {report_path!r} ends neither in .md nor in .json")
    if report_path is not None and not os.path.isdir(os.path.dirname(report_path) or "."):
        raise click.UsageError(f"--report {report_path!r} lies in no directory that there is")
    template = _template(handler_template)
    sources = gather(files, kind)
    kinds = {source.kind for source in sources}
    if "crontab" not in kinds and (system is not None or seconds is not None):
        raise click.UsageError("--system, --user-column and --seconds are about crontabs; leave them out")
    if handler_template is not None and kinds.isdisjoint(_TASKS):
        raise click.UsageError(f"--handler-template is for {', '.join(_TASKS)}; leave it out")
    zones = {source.kind: _zone(source.kind, timezone) for source in sources}
    readings = []
    for source in sources:
        zone = zones[source.kind]
        if source.kind == "crontab":
            readings.append(_crontab(source, zone, system, seconds, prefix))
        else:
            readings.append(_foreign(source, zone, prefix, template, namespace))
    now_ms = SystemClock().wall_ms()
    reports = []
    for source, (reading, how) in zip(sources, readings, strict=True):
        judge(reading, source.kind, now_ms)
        report = reporting.SourceReport(source.name, source.kind, how)
        report.take(reading)
        reports.append(report)
        try:
            _send(client, reading, report, namespace, {"suspended": suspended, "timeout": timeout}, dry_run)
        except Exception:
            sent = sum(len(r.imported) for r in reports)
            if sent:
                what = f"{len(reading.entries)} {'lines' if source.kind == 'crontab' else 'jobs'} of {source.name}"
                click.echo(f"{len(report.imported)} of {what} are in; it is safe to repeat.", err=True)
            raise
    unasked = _ask(client, reports) if dry_run else None
    if report_path is not None:
        _write(report_path, reports, dry_run)
    if fmt == "table":
        reporting.print_all(reports, dry_run)
        if timeout is None:
            for of in sorted({r.kind for r in reports if r.unlimited}):
                told = _NO_LIMIT[of]
                click.echo(f"note: runs end after 5m, the default; {told} (--timeout 2h sets another)", err=True)
    elif fmt == "name":
        for report in reports:
            for job in report.imported:
                click.echo(job["name"] if job["namespace"] == "default" else f"{job['namespace']}/{job['name']}")
            reporting.print_refused(report)
    else:
        print_json(reporting.as_json(reports, dry_run))
    print_warnings((job["name"], job) for report in reports for job in report.imported)
    if unasked is not None:
        click.echo(f"note: no cluster was asked what it would refuse: {unasked}", err=True)
    sys.exit(1 if any(r.refused for r in reports) else 0)


def _template(text: str | None) -> Template:
    from raftsched.importers.template import DEFAULT, Template

    if text is None:
        return DEFAULT
    try:
        return Template.read(text)
    except ValueError as error:
        raise click.UsageError(f"--handler-template: {error}") from None


def _zone(kind: str, given: str | None) -> str:
    from raftsched.importers.hostzone import host_zone
    from raftsched.schedule.zones import is_zone

    if given is not None and not is_zone(given):
        raise click.UsageError(f"--timezone {given!r} is not a time zone; write an IANA name such as Europe/Madrid")
    zone = given or ("UTC" if kind in _UTC else host_zone())
    if zone is None:
        raise click.UsageError("this machine does not tell its time zone; say --timezone, such as --timezone UTC")
    return zone


def _crontab(source: Source, zone: str, system: bool | None, seconds: bool | None, prefix: str) -> tuple[Reading, str]:
    from raftsched.crontabs.reading import read_crontab
    from raftsched.importers.foreign import Entry, Reading
    from raftsched.importers.hostuser import is_account

    tab = read_crontab(
        source.files[0][1],
        source=source.name,
        timezone=zone,
        system=system,
        seconds=seconds,
        prefix=prefix,
        is_account=is_account,
    )
    found = Reading(
        [Entry(f"line {e.line}", e.text, e.name, None, e.job) for e in tab.entries],
        [(f"line {r.line}", r.text, r.reason) for r in tab.refused],
        [(f"line {line}", note) for line, note in tab.notes],
    )
    style = "with a user column" if tab.system else "without a user column"
    return found, f"read {style}, times in {zone} unless CRON_TZ says otherwise"


def _foreign(source: Source, zone: str, prefix: str, template: Template, namespace: str | None) -> tuple[Reading, str]:
    from raftsched.importers.how import How
    from raftsched.importers.reading import read_source
    from raftsched.system.clock import SystemClock

    how = How(zone, prefix, SystemClock().wall_ms(), template, namespace)
    return read_source(source, how), f"times in {zone} unless a job says otherwise"


def _send(
    client: Client, reading: Reading, report: SourceReport, namespace: str | None, more: dict[str, Any], dry_run: bool
) -> None:
    """PUT by name for each job that is not there as it is; a refusal is about that job, anything else ends the import.
    `more`: "suspended", and "timeout" where the job has none."""
    from raftsched.cli.jobs.comparing import compare_all, reason_of
    from raftsched.cli.jobs.import_report import where
    from raftsched.cli.jobs.job_files import Wanted
    from raftsched.client.errors import ClientError

    found = []
    for entry in reading.entries:
        job = {**entry.job, "name": entry.name}
        if more["suspended"]:
            job["suspended"] = True
        if more["timeout"]:
            job.setdefault("timeout", more["timeout"])
        report.unlimited = report.unlimited or "timeout" not in job
        found.append(Wanted(str(entry.place), namespace or entry.namespace or "default", job, False))
    seen = {} if dry_run else compare_all(client, found)
    with progress(list(zip(reading.entries, found, strict=True)), "importing") as entries:
        for entry, wanted in entries:
            done = {**where(entry.place), "name": entry.name, "namespace": wanted.namespace, "result": "read"}
            job = {field: value for field, value in wanted.job.items() if field != "name"}
            if dry_run:
                report.imported.append({**done, "job": job})
                continue
            if seen.get(wanted.path, {}).get("result") == "unchanged":
                report.imported.append({**done, "result": "known"})
                continue
            try:
                answer = client.request("PUT", wanted.path, body=job)
            except ClientError as e:
                if e.status not in (400, 409, 413, 422):
                    raise
                report.refused.append({**where(entry.place), "text": entry.text, "reason": reason_of(e)})
                continue
            report.created += answer.status == 201
            result = "created" if answer.status == 201 else "known"
            warned = answer.json().get("warnings")
            report.imported.append({**done, "result": result, **({"warnings": warned} if warned else {})})
    report.refused.sort(key=lambda r: int(r.get("line", 0)))


def _ask(client: Client, reports: list[SourceReport]) -> str | None:
    """Moves the jobs that the cluster would refuse to what is refused. Returns why none was asked, None: one was."""
    from raftsched.cli.jobs.comparing import portions
    from raftsched.cli.jobs.job_files import Wanted
    from raftsched.client.errors import ClientError

    places: dict[int, tuple[SourceReport, dict[str, Any]]] = {}
    wanted = []
    for report in reports:
        for item in report.imported:
            one = Wanted(str(item.get("place", "")), item["namespace"], {**item["job"], "name": item["name"]}, False)
            places[id(one)] = report, item
            wanted.append(one)
    try:
        for some in portions(wanted):
            answer = client.post(jobs.COMPARE_ALL, [one.body for one in some])
            for one, found in zip(some, answer["items"], strict=True):
                if found.get("warnings"):
                    places[id(one)][1]["warnings"] = found["warnings"]
                if found["result"] == "refused":
                    report, item = places[id(one)]
                    report.imported.remove(item)
                    at: dict[str, Any] = {key: item[key] for key in ("line", "place") if key in item}
                    report.refused.append({**at, "text": item["name"], "reason": found["detail"]})
    except ClientError as error:
        return str(error.detail)
    return None


def _write(path: str, reports: list[SourceReport], dry_run: bool) -> None:
    from raftsched.cli.jobs.import_report import write

    try:
        write(path, reports, dry_run)
    except OSError as error:
        raise click.UsageError(f"--report {path}: {error.strerror}") from None
