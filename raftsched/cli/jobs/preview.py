"""`raftsched preview`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.lazy import Command
from raftsched.cli.remote import format_option, remote
from raftsched.cli.terminal.output import print_json
from raftsched.cli.terminal.values import cell
from raftsched.surface.plain import schedules

if TYPE_CHECKING:
    from raftsched.client.http import Client


@click.command(cls=Command)
@click.argument("expression", metavar="EXPR", required=False)
@click.option(
    "--rrule", metavar="RULE", help="Instead of EXPR: a recurrence rule of RFC 5545, such as FREQ=WEEKLY;BYDAY=MO."
)
@click.option("--timezone", "-z", metavar="TZ", help="IANA name, such as Europe/Madrid.  [default: UTC]")
@click.option("--calendar", metavar="CALENDAR", help="Leave out the days of this calendar.")
@click.option("--quartz", is_flag=True, help="Read EXPR as Quartz does: 1 is Sunday.")
@click.option("--name", metavar="NAME", help="Of the job that is to be made: H in EXPR depends on it.")
@click.option("--namespace", "-N", metavar="NS", help="The namespace of that job.  [default: default]")
@click.option("-n", "--count", type=click.IntRange(1, 100), default=10, show_default=True, help="How many times.")
@click.option("--from", "start", metavar="TIME", help="Count from this time (RFC 3339).  [default: now]")
@format_option
@remote
def preview(
    client: Client,
    expression: str | None,
    rrule: str | None,
    timezone: str | None,
    calendar: str | None,
    quartz: bool,
    name: str | None,
    namespace: str | None,
    count: int,
    start: str | None,
    fmt: str,
) -> None:
    """Say in words and times when EXPR is due, daylight saving time included. Nothing is saved.

    EXPR is a cron expression (5 fields, 6 with seconds first, 7 with the year last), a nickname such as @daily, or an
    interval such as 90s.

    \b
      raftsched preview '30 2 * * *' -z Europe/Madrid --from 2027-03-27T00:00:00Z
      raftsched preview '0 9 * * MON#1' -n 3
      raftsched preview 90s
      raftsched preview 'H 2 * * *' --name backup
      raftsched preview --rrule 'FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17' -z Europe/Madrid --calendar holidays
    """
    if (expression is None) == (rrule is None):
        raise click.UsageError("say what to preview: EXPR, or --rrule RULE")
    if rrule is not None:
        wanted: dict[str, Any] = {"rrule": rrule, **({"timezone": timezone} if timezone else {})}
    else:
        wanted = trigger(expression or "", timezone, quartz)
    if calendar:
        wanted["calendar"] = calendar
    body: dict[str, Any] = {"trigger": wanted, "count": count}
    given = {"from": start, "name": name, "namespace": namespace}
    body |= {field: value for field, value in given.items() if value}
    print_times(client.post(schedules.PREVIEW, body), fmt)


def trigger(expression: str, timezone: str | None, quartz: bool) -> dict[str, Any]:
    """The trigger that EXPR stands for; a single word that is no nickname is an interval."""
    if len(expression.split()) == 1 and not expression.startswith("@"):
        return {"every": expression}
    found: dict[str, Any] = {"cron": expression}
    if timezone:
        found["timezone"] = timezone
    if quartz:
        found["dialect"] = "quartz"
    return found


def print_times(answer: dict[str, Any], fmt: str, none: str = "never again") -> None:
    """Prints {"description", "next": [{"at", "note", "trigger"}]}, which preview and next answer. `none`: what is said
    where there is no time."""
    if fmt == "json":
        print_json(answer)
        return
    if fmt == "table" and answer.get("description"):
        click.echo(cell(answer["description"]))
    for time in answer["next"]:
        more = [cell(time[name]) for name in ("trigger", "note") if time.get(name)] if fmt == "table" else []
        click.echo("  ".join([time["at"], *more]))
    if fmt == "table" and not answer["next"]:
        click.echo(none)
