"""`raftsched jobs export`: jobs as files that `jobs apply -f` takes."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.each import each
from raftsched.cli.jobs.filters import filter_options, said
from raftsched.cli.jobs.generated import DEFAULTS, UNSAID
from raftsched.cli.lazy import Command
from raftsched.cli.remote import find_job, job_ref, remote
from raftsched.cli.terminal.output import print_json
from raftsched.importers.documents import sendable
from raftsched.surface.plain import jobs, namespaces

if TYPE_CHECKING:
    from raftsched.client.http import Client

_NO = object()
_WHEN = ("trigger", "triggers", "max_runs")  # one or several of them
_FOR_NONE = ("timezone", "placement", "notify")  # those of UNSAID that have a value which means none
_FIRST = ("name", "namespace", "description", "owner", "suspended", *_WHEN, "handler")


def portable(job: Mapping[str, Any], *, full: bool = False, says: Collection[str] = ()) -> dict[str, Any]:
    """An answer about a job -> the job as one would write it: without state, nor (unless `full`) what is a default.
    `says`: fields of which its namespace has a default of its own, see `said_by_namespace`; they are always written."""
    found = sendable(job)
    if not full:
        found = {
            k: _short(k, v) for k, v in found.items() if k in says or (v is not None and v != DEFAULTS.get(k, _NO))
        }
        if found.get("max_concurrency") == (None if found.get("overlap") == "allow" else 1):
            found.pop("max_concurrency", None)
    found = {k: v for k, v in found.items() if k not in _WHEN or v}
    if "placement" in says and found.get("placement") is None:
        found["placement"] = {}
    if "notify" in says and found.get("notify") is None:
        found["notify"] = []
    if "timezone" in says:
        if "trigger" in found:
            found["trigger"] = _with_zone(found["trigger"])
        if "triggers" in found:
            found["triggers"] = [_with_zone(trigger) for trigger in found["triggers"]]
    return {k: found[k] for k in (*(k for k in _FIRST if k in found), *(k for k in found if k not in _FIRST))}


def _with_zone(trigger: Any) -> Any:
    """One that counts in a time zone and does not say in which counts in UTC."""
    text = trigger.get("cron") or trigger.get("rrule") if isinstance(trigger, dict) else None
    if not text or trigger.get("timezone") or text.lstrip().upper().startswith(("TZ=", "CRON_TZ=", "@EVERY")):
        return trigger
    return {**trigger, "timezone": "UTC"}


def said_by_namespace(client: Client, namespace: str) -> frozenset[str]:
    """The fields of which a namespace has defaults: a job that leaves them out means those, and not the usual ones."""
    from raftsched.client.errors import ClientError

    try:
        return frozenset(client.get(namespaces.GET.format(ns=namespace)).get("defaults") or ())
    except ClientError as error:
        if error.code != "not-found":
            raise
        return frozenset()


def unwritable(job: Mapping[str, Any], says: Collection[str]) -> list[str]:
    """Returns the fields that a job has no value of, which no file can say, since its namespace has a default."""
    of_http = "http" in job["handler"]  # nobody's process
    return [
        field
        for field in sorted(UNSAID.difference(_FOR_NONE).intersection(says))
        if job.get(field) is None and not (of_http and field == "user")
    ]


def _short(field: str, value: Any) -> Any:
    default = DEFAULTS.get(field)
    if isinstance(value, dict) and isinstance(default, dict) and default:
        return {k: v for k, v in value.items() if k not in default or v != default[k]}
    return value


@click.command(cls=Command)
@click.argument("refs", metavar="[JOB]...", nargs=-1)
@filter_options
@click.option("--full", is_flag=True, help="Write the defaults, too, for namespaces with other ones.")
@click.option("--name-unnamed", is_flag=True, help="Give jobs without a name their id as one, so that they can go.")
@click.option(
    "-o",
    "--output",
    "fmt",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="How to write.",
)
@remote
def export(client: Client, refs: tuple[str, ...], full: bool, name_unnamed: bool, fmt: str, **given: Any) -> None:
    """Write jobs as 'jobs apply -f' reads them: all of the cluster, those of a filter, or those that are named.

    Jobs that are NEW or SUSPENDED come back suspended. One that is due so long after its creation ("in") is written
    with its time, unless it is suspended or has several triggers. Jobs that have expired would run again, and those
    without a name could not be found again: they are left out, and counted on stderr. A job without a user, for
    example, in a namespace that has a default one by now would get that one from the file: that is said on stderr, too.

    \b
      raftsched jobs export > jobs.yaml
      raftsched jobs export -N billing --label team=fin -o json
      raftsched jobs export billing/nightly-report
    """
    filters = said(given)
    if refs and filters:
        raise click.UsageError("say JOB... or a filter, not both")
    written: list[dict[str, Any]] = []
    says: dict[str, frozenset[str]] = {}
    left_out = {"expired": 0, "without a name": 0}
    anew = 0
    without: Counter[str] = Counter()

    def one(job: dict[str, Any]) -> None:
        nonlocal anew
        if job["state"] == "EXPIRED":
            left_out["expired"] += 1
            if refs:
                click.echo(f"raftsched: {job_ref(job)} has expired; it is left out", err=True)
        elif not job.get("name") and not name_unnamed:
            left_out["without a name"] += 1
        else:
            job["name"] = job.get("name") or job["id"]
            namespace = job["namespace"]
            if namespace not in says:  # --full is for any cluster, whatever its namespaces say
                says[namespace] = UNSAID if full else said_by_namespace(client, namespace)
            plain = portable(job, full=full, says=says[namespace])
            if not full:
                without.update(unwritable(job, says[namespace]))
            anew += any(trigger.get("in") for trigger in plain.get("triggers", ()))
            if fmt == "json":
                written.append(plain)
            else:
                _write(plain)

    if refs:
        each(refs, lambda ref: one(find_job(client, ref)))
    else:
        for job in _all(client, filters):
            one(job)
    if fmt == "json":
        print_json({"items": written})
    for what, count in left_out.items():
        hint = "; --name-unnamed takes them along" if what == "without a name" else ""
        if count:
            click.echo(f"left out: {count} {what}{hint}", err=True)
    for field, count in sorted(without.items()):
        hint = "applied, they get the default of their namespace"
        click.echo(f"written as they are: {count} without {field}; {hint}", err=True)
    if anew:
        hint = "it counts anew where they are created"
        click.echo(f'written as they are: {anew} with "in" among several triggers; {hint}', err=True)


def _all(client: Client, filters: dict[str, str]) -> Iterator[dict[str, Any]]:
    yield from client.items(jobs.LIST, filters, None)


def _write(job: dict[str, Any]) -> None:
    """A YAML document, at once: there may be more jobs than fit in memory."""
    from raftsched.importers.yaml_text import yaml_text

    sys.stdout.write("---\n" + yaml_text(job))
