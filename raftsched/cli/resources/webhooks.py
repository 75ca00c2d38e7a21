"""`raftsched webhooks`: addresses that are notified of the outcomes of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from raftsched import names
from raftsched.cli.lazy import Group
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
from raftsched.cli.runs.states import state_option
from raftsched.cli.runs.why import error_line
from raftsched.cli.terminal.output import print_for_programs, print_rows
from raftsched.cli.terminal.table import Column
from raftsched.surface.plain import runs
from raftsched.surface.plain import webhooks as addresses
from raftsched.surface.plain.enums import CLUSTER_EVENT_NAME, EVENT_NAME, INSTANCE_STATE_NAME

if TYPE_CHECKING:
    from raftsched.client.http import Client

WEBHOOKS = Resource(addresses.LIST, names.WEBHOOK)
_SYSTEM = "_system"

_COLUMNS = [
    Column("NAME", lambda w: w["name"], "name", 1),
    Column("KIND", lambda w: w["kind"], "state", 5),
    Column("TO", lambda w: w["url"] or ",".join(w["smtp"]["to"]), "text", 3),
    Column("EVENTS", lambda w: ",".join([*w["events"], *w["cluster_events"]]), "text", 7),
    Column("ACTIVE", lambda w: "gone" if w["gone"] else w["active"], "state", 2),
    Column("WAITING", lambda w: w["waiting"], "number", 6),
    Column("FAILURES", lambda w: w["failures_in_a_row"], "number", 4),
    Column("DROPPED", lambda w: w["dropped"], "number", 8),
]
_DELIVERY_COLUMNS = [
    Column("ID", lambda i: i["id"], "id", 1),
    Column("STATE", lambda i: i["state"], "state", 2),
    Column("EVENT", lambda i: i["event"]["type"].rpartition(".")[2] if i.get("event") else "", "text", 4),
    Column("ABOUT", lambda i: i["event"]["subject"] if i.get("event") else "", "text", 5),
    Column("ATTEMPT", lambda i: i["attempt"], "number", 7),
    Column("AT", lambda i: i["scheduled_at"], "time", 3),
    Column("ERROR", error_line, "text", 6),
]


@click.group(cls=Group)
def webhooks() -> None:
    """Webhooks: programs and people that are told what becomes of runs, jobs and the cluster.

    A job names the webhooks that are to hear of it (jobs create --notify), or a webhook listens to many by itself
    (--event, and a filter). What is sent is sent again until it is taken; to programs it is signed.
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
    click.option("--event", "events", type=click.Choice(EVENT_NAME), multiple=True, help="Of jobs; may be repeated."),
    click.option(
        "--cluster-event",
        "cluster_events",
        type=click.Choice(CLUSTER_EVENT_NAME),
        multiple=True,
        help="May be repeated.",
    ),
    click.option("--namespace", "-N", metavar="NS", help="Listen to jobs of this namespace only."),
    click.option("--owner", help="Only to those of this owner."),
    click.option("--label", metavar="KEY=VALUE", multiple=True, help="Only with this label; may be repeated."),
    click.option("--queue", metavar="QUEUE", help="Only to those of this queue."),
    click.option("--header", metavar="NAME=VALUE", multiple=True, help="Sent along; may be repeated."),
    click.option("--timeout", metavar="DURATION", help="For an answer.  [default: 15s]"),
    click.option("--retry", metavar="DELAYS", help="Delays before each retry, such as 5s,5m,1h; 'none'."),
    click.option("--max-running", type=click.IntRange(1, 100), help="So many at one time.  [default: 4]"),
    click.option("--at-most", metavar="COUNT/TIME", help="So many messages, such as 10/1h; the next counts the rest."),
    click.option("--page", metavar="URL", help="Where people see the page of the cluster: texts link to it."),
)


# Who receives the events.
_receivers = options(
    click.option("--url", help="The address of a program that events are sent to."),
    click.option(
        "--slack", metavar="URL", help="An incoming webhook of Slack, Mattermost or the like ('-': from stdin)."
    ),
    click.option("--email", metavar="ADDRESS", multiple=True, help="An address for mails; may be repeated."),
    click.option("--smtp", metavar="HOST[:PORT]", help="The mail server."),
    click.option("--tls", type=click.Choice(addresses.TLS_NAME), help="To the mail server.  [default: starttls]"),
    click.option("--from", "sender", metavar="ADDRESS", help="The sender of mails."),
    click.option("--smtp-user", metavar="USER", help="To log in at the mail server."),
    click.option("--smtp-password-file", type=click.File("r"), help="A file with the password ('-': stdin)."),
)


@webhooks.command()
@click.argument("webhook", metavar="WEBHOOK")
@_receivers
@_content
@click.option("--inactive", is_flag=True, help="Send nothing yet.")
@click.option("--secret-file", type=click.File("r"), help="Its secret, whsec_...; one is made otherwise ('-': stdin).")
@format_option
@remote
def create(
    client: Client,
    webhook: str,
    inactive: bool,
    secret_file: Any,
    fmt: str,
    **options: Any,
) -> None:
    """Create a webhook. The secret by which a program checks what it is sent is printed this one time.

    With --event it listens to all jobs that the filter lets through; without, only to those that name it.

    \b
      raftsched webhooks create ops --url https://ops.example/hook
      raftsched webhooks create audit --url https://audit.example/ --event failed --event killed -N billing
      raftsched webhooks create team --slack https://hooks.slack.com/services/T0/B0/x --event dead_letter
      raftsched webhooks create night --email ops@example.com --smtp mail.example.com --from raftsched@example.com
    """
    WEBHOOKS.path_of(webhook)  # checked here, so that the message speaks of the argument
    if sum(bool(options[name]) for name in ("url", "slack", "email")) != 1:
        raise click.UsageError("say where to: one of --url, --slack, --email")
    if options["email"] and not (options["smtp"] and options["sender"]):
        raise click.UsageError("--email needs --smtp and --from")
    body: dict[str, Any] = {"name": webhook, **_receiver(options), **_said(options)}
    if inactive:
        body["active"] = False
    if secret_file is not None:
        body["secret"] = secret_file.read().strip()
    found = client.post(WEBHOOKS.path, body)
    if not print_for_programs(fmt, found, found["name"]):
        click.echo(f"created: {found['name']}")
        if found["secret"]:
            click.echo(f"its secret, which is not shown again: {found['secret']}")
        elif secret_file is None and found["kind"] == "webhook":
            click.echo(f"it has its secret already; 'raftsched webhooks rotate {webhook}' gives it another")


@webhooks.command()
@click.argument("webhook", metavar="WEBHOOK")
@_receivers
@_content
@click.option(
    "--active/--inactive", default=None, help="While inactive, nothing is sent; deliveries that wait go on waiting."
)
@click.option("--change", metavar="JSON", help="Any change, as a merge patch (RFC 7396); null is the default.")
@format_option
@remote
def edit(
    client: Client,
    webhook: str,
    active: bool | None,
    change: str | None,
    fmt: str,
    **options: Any,
) -> None:
    """Change the options that you give; this holds for deliveries that wait already, too.

    \b
      raftsched webhooks edit ops --inactive
      raftsched webhooks edit ops --retry 5s,1m --timeout 30s
      raftsched webhooks edit ops --change '{"events": [], "filter": null}'
    """
    body = _said(options)
    body |= _receiver(options)
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
    """Delete webhooks. Deliveries that wait are not sent any more.

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
    """Send an event that is about nothing, and say which run delivers it.

    \b
      raftsched webhooks test ops
      raftsched logs -f $(raftsched webhooks test ops -o name)
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
@state_option(INSTANCE_STATE_NAME)
@listing(limit=20)
def deliveries(client: Client, webhook: str, state: str | None, fmt: str, **given: Any) -> None:
    """List what was sent to a webhook, the newest first. Each is a run: see raftsched runs.

    \b
      raftsched webhooks deliveries ops
      raftsched webhooks deliveries ops --state FAILED,RETRYING
    """
    WEBHOOKS.path_of(webhook)
    query = {"namespace": _SYSTEM, "job": webhook, **({"state": state} if state else {})}
    found = rows(client, runs.LIST, given, query)
    print_rows(fmt, found, _DELIVERY_COLUMNS, lambda i: str(i["id"]), "nothing was sent")


def _receiver(o: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields that say who receives the events."""
    slack = o["slack"]
    if slack is not None:
        return {"kind": "slack", "url": click.open_file("-").read().strip() if slack == "-" else slack}
    smtp = _smtp(o)
    if smtp:
        return {"kind": "email", "smtp": smtp}
    return {} if o["url"] is None else {"url": o["url"]}


def _smtp(o: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if o["smtp"] is not None:
        host, colon, port = o["smtp"].rpartition(":")
        if colon and port.isdigit() and not host.endswith(":"):
            found |= {"host": host, "port": int(port)}
        else:
            found["host"] = o["smtp"]
    for field, option in (("tls", "tls"), ("from", "sender"), ("user", "smtp_user")):
        if o[option] is not None:
            found[field] = o[option]
    if o["email"]:
        found["to"] = list(o["email"])
    if o["smtp_password_file"] is not None:
        found["password"] = o["smtp_password_file"].read().rstrip("\r\n")
    return found


def _said(o: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of a webhook that were given as options."""
    from raftsched.cli.jobs.create import pairs

    found: dict[str, Any] = {}
    if o["events"]:
        found["events"] = list(o["events"])
    if o["cluster_events"]:
        found["cluster_events"] = list(o["cluster_events"])
    if o["page"] is not None:
        found["page"] = o["page"]
    if o["at_most"] is not None:
        count, slash, per = o["at_most"].partition("/")
        if not count.isdigit() or not slash or not per:
            raise click.UsageError("--at-most is no number in a time; write 10/1h")
        found["at_most"] = {"count": int(count), "per": per}
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
