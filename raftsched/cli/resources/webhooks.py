"""`raftsched webhooks`: addresses that are notified of the outcomes of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from raftsched import names
from raftsched.cli.remote import check_namespace, format_option, options, read_json, remote
from raftsched.cli.resources.resource import (
    Resource,
    delete_command,
    get_command,
    list_command,
    listing,
    rows,
    tell,
)
from raftsched.cli.runs.states import INSTANCE_STATES, state_option
from raftsched.cli.terminal.output import Column, print_for_programs, print_rows

if TYPE_CHECKING:
    from raftsched.client.http import Client

ENDINGS = ("succeeded", "failed", "timed_out", "killed", "skipped", "dead_letter", "lost")
WEBHOOKS = Resource("/v1/webhooks", names.WEBHOOK)
_SYSTEM = "_system"

_COLUMNS: list[Column] = [
    ("NAME", lambda w: w["name"]),
    ("URL", lambda w: w["url"]),
    ("EVENTS", lambda w: ",".join(w["events"])),
    ("ACTIVE", lambda w: "gone" if w["gone"] else w["active"]),
    ("WAITING", lambda w: w["waiting"]),
    ("FAILURES", lambda w: w["failures_in_a_row"]),
    ("DROPPED", lambda w: w["dropped"]),
]
_DELIVERY_COLUMNS: list[Column] = [
    ("ID", lambda i: i["id"]),
    ("STATE", lambda i: i["state"]),
    ("EVENT", lambda i: i["event"]["type"].rpartition(".")[2] if i.get("event") else ""),
    ("ABOUT", lambda i: i["event"]["subject"] if i.get("event") else ""),
    ("ATTEMPT", lambda i: i["attempt"]),
    ("AT", lambda i: i["scheduled_at"]),
    ("ERROR", lambda i: (i["error"] or "").partition("\n")[0]),
]


@click.group()
def webhooks() -> None:
    """Webhooks: addresses that are told what becomes of runs.

    A job names the webhooks that are to hear of it (jobs create --notify), or a webhook listens to many by itself
    (--event, and a filter). What is sent is signed, and sent again until it is taken.
    """


list_command(
    webhooks,
    WEBHOOKS,
    _COLUMNS,
    "no webhooks",
    """List the webhooks.

    WAITING counts deliveries that are not at their end, FAILURES those that failed for good since the last success.

    \b
      raftsched webhooks list
    """,
)


get_command(
    webhooks,
    WEBHOOKS,
    "WEBHOOK",
    """Show a webhook: all but its secret.

    \b
      raftsched webhooks get ops
    """,
)


# The content of a webhook.
_content = options(
    click.option("--event", "events", type=click.Choice(ENDINGS), multiple=True, help="May be repeated."),
    click.option("--namespace", "-N", metavar="NS", help="Listen to jobs of this namespace only."),
    click.option("--owner", help="Only to those of this owner."),
    click.option("--label", metavar="KEY=VALUE", multiple=True, help="Only with this label; may be repeated."),
    click.option("--queue", metavar="NAME", help="Only to those of this queue."),
    click.option("--header", metavar="NAME=VALUE", multiple=True, help="Sent along; may be repeated."),
    click.option("--timeout", metavar="DURATION", help="For an answer.  [default: 15s]"),
    click.option("--retry", metavar="DELAYS", help="Delays before each retry, such as 5s,5m,1h; 'none'."),
    click.option("--max-running", type=click.IntRange(1, 100), help="So many at one time.  [default: 4]"),
)


@webhooks.command()
@click.argument("webhook", metavar="WEBHOOK")
@click.option("--url", required=True, help="The address that events are sent to.")
@_content
@click.option("--inactive", is_flag=True, help="Send nothing yet.")
@click.option("--secret-file", type=click.File("r"), help="Its secret, whsec_...; one is made otherwise ('-': stdin).")
@format_option
@remote
def create(client: Client, webhook: str, url: str, inactive: bool, secret_file: Any, fmt: str, **options: Any) -> None:
    """Create a webhook, and print its secret this one time.

    With --event it listens to all jobs that the filter lets through; without, only to those that name it.

    \b
      raftsched webhooks create ops --url https://ops.example/hook
      raftsched webhooks create audit --url https://audit.example/ --event failed --event killed -N billing
    """
    WEBHOOKS.path_of(webhook)  # checked here, so that the message speaks of the argument
    body: dict[str, Any] = {"name": webhook, "url": url, **_said(options)}
    if inactive:
        body["active"] = False
    if secret_file is not None:
        body["secret"] = secret_file.read().strip()
    found = client.post(WEBHOOKS.path, body)
    if not print_for_programs(fmt, found, found["name"]):
        click.echo(f"created: {found['name']}")
        if found["secret"]:
            click.echo(f"its secret, which is not shown again: {found['secret']}")
        elif secret_file is None:
            click.echo(f"it has its secret already; 'raftsched webhooks rotate {webhook}' gives it another")


@webhooks.command()
@click.argument("webhook", metavar="WEBHOOK")
@click.option("--url", help="The address that events are sent to.")
@_content
@click.option("--active/--inactive", default=None, help="While inactive nothing is sent; what waits goes on waiting.")
@click.option("--change", metavar="JSON", help="Any change, as a merge patch (RFC 7396); null is the default.")
@format_option
@remote
def edit(
    client: Client, webhook: str, url: str | None, active: bool | None, change: str | None, fmt: str, **options: Any
) -> None:
    """Change what is named; it holds for deliveries that wait already, too.

    \b
      raftsched webhooks edit ops --inactive
      raftsched webhooks edit ops --retry 5s,1m --timeout 30s
      raftsched webhooks edit ops --change '{"events": [], "filter": null}'
    """
    body = _said(options)
    if url is not None:
        body["url"] = url
    if active is not None:
        body["active"] = active
    if change is not None:
        given = read_json(change, "--change")
        if not isinstance(given, dict):
            raise click.UsageError("--change is no object; write the fields to change")
        body = {**body, **given}
    if not body:
        raise click.UsageError("say what to change; see 'raftsched webhooks edit --help'")
    found = client.request("PATCH", WEBHOOKS.path_of(webhook), body=body, repeatable=True).json()
    tell(fmt, found, f"changed: {found['name']}{'' if found['active'] else ', not active'}")


delete_command(
    webhooks,
    WEBHOOKS,
    "WEBHOOK",
    """Delete webhooks. What waits to be sent is not sent any more.

    One that jobs name stays: take it out of their notify first, or make it inactive.

    \b
      raftsched webhooks delete ops
    """,
)


@webhooks.command()
@click.argument("webhook", metavar="WEBHOOK")
@format_option
@remote
def test(client: Client, webhook: str, fmt: str) -> None:
    """Send an event that is about nothing, and say which instance delivers it.

    \b
      raftsched webhooks test ops
      raftsched instances output -f $(raftsched webhooks test ops -o name)
    """
    found = client.post(f"{WEBHOOKS.path_of(webhook)}/test", {})
    tell(fmt, found, f"sending: {found['id']} ({found['state']})", lambda i: str(i["id"]))


@webhooks.command()
@click.argument("webhook", metavar="WEBHOOK")
@click.option("--overlap", metavar="DURATION", default="24h", show_default=True, help="Both secrets sign so long.")
@click.option("--secret-file", type=click.File("r"), help="The new one, whsec_...; one is made otherwise ('-': stdin).")
@format_option
@remote
def rotate(client: Client, webhook: str, overlap: str, secret_file: Any, fmt: str) -> None:
    """Give a webhook another secret, and print it this one time.

    \b
      raftsched webhooks rotate ops --overlap 24h
    """
    body: dict[str, Any] = {"overlap": overlap}
    if secret_file is not None:
        body["secret"] = secret_file.read().strip()
    found = client.post(f"{WEBHOOKS.path_of(webhook)}/rotate", body)
    until = found["previous_secret_until"]
    line = f"rotated: {found['name']}" + (f", the one before signs until {until}" if until else "")
    if found["secret"]:
        line += f"\nits secret, which is not shown again: {found['secret']}"
    tell(fmt, found, line)


@webhooks.command()
@click.argument("webhook", metavar="WEBHOOK")
@state_option(INSTANCE_STATES)
@listing(limit=20)
def deliveries(client: Client, webhook: str, state: str | None, fmt: str, **given: Any) -> None:
    """List what was sent to a webhook, the newest first. Each is an instance: see raftsched instances.

    \b
      raftsched webhooks deliveries ops
      raftsched webhooks deliveries ops --state FAILED,RETRYING
    """
    WEBHOOKS.path_of(webhook)
    query = {"namespace": _SYSTEM, "job": webhook, **({"state": state} if state else {})}
    found = rows(client, "/v1/instances", given, query)
    print_rows(fmt, found, _DELIVERY_COLUMNS, lambda i: str(i["id"]), "nothing was sent")


def notify_of(texts: Sequence[str]) -> list[dict[str, Any]]:
    """WEBHOOK:END,END options of a job. Raises a usage error."""
    found = []
    for text in texts:
        webhook, colon, ends = text.partition(":")
        on = [end.strip() for end in ends.split(",") if end.strip()]
        unknown = [end for end in on if end not in ENDINGS]
        if not webhook or not colon or not on or unknown:
            what = f"{unknown[0]!r} is none of {', '.join(ENDINGS)}" if unknown else "write WEBHOOK:END,END"
            raise click.UsageError(f"--notify {text!r}: {what}, such as ops:dead_letter")
        found.append({"webhook": webhook, "on": on})
    return found


def _said(o: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of a webhook that were given as options."""
    from raftsched.cli.jobs.create import pairs

    found: dict[str, Any] = {}
    if o["events"]:
        found["events"] = list(o["events"])
    chosen: dict[str, Any] = {key: o[key] for key in ("namespace", "owner", "queue") if o[key] is not None}
    if o["namespace"] is not None:
        check_namespace(o["namespace"])
    if o["label"]:
        chosen["labels"] = pairs("label", o["label"])
    if chosen:
        found["filter"] = chosen
    if o["header"]:
        found["headers"] = pairs("header", o["header"])
    if o["timeout"] is not None:
        found["timeout"] = o["timeout"]
    if o["retry"] is not None:
        found["retry_delays"] = [] if o["retry"] == "none" else [d.strip() for d in o["retry"].split(",")]
    if o["max_running"] is not None:
        found["max_running"] = o["max_running"]
    return found
