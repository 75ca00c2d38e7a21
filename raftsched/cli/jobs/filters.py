"""The options that say which jobs are meant, for lists and for what is done to many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from raftsched.cli.remote import check_namespace, options
from raftsched.cli.runs.states import state_option
from raftsched.surface.plain.enums import JOB_STATE
from raftsched.surface.plain.jobs import FILTERS

_F = TypeVar("_F", bound=Callable[..., Any])


# Gives the command FILTERS as keyword arguments, but for `name`.
filter_options = options(
    click.option("--namespace", "-N", metavar="NS", help="Of this namespace."),
    state_option(JOB_STATE),
    click.option("--owner", help="Of this owner."),
    click.option("--label", metavar="KEY=VALUE", help="With this label."),
    click.option("--queue", metavar="QUEUE", help="In this queue."),
    click.option("--calendar", metavar="CALENDAR", help="Whose trigger uses this calendar."),
    click.option("--name-prefix", metavar="TEXT", help="Whose name starts so."),
    click.option("--name-contains", metavar="TEXT", help="Whose name has this in it."),
    click.option("--created-from", metavar="TIME", help="Created at or after (RFC 3339)."),
    click.option("--created-to", metavar="TIME", help="Created before."),
    click.option("--next-from", metavar="TIME", help="Due next at or after."),
    click.option("--next-to", metavar="TIME", help="Due next before."),
)


def said(given: dict[str, Any]) -> dict[str, str]:
    """Returns the filter that was given, as query parameters. Raises a usage error."""
    found = {name: str(given[name]) for name in FILTERS if given.get(name) is not None}
    if "namespace" in found:
        check_namespace(found["namespace"])
    if "label" in found and not found["label"].partition("=")[1]:
        raise click.UsageError("--label takes KEY=VALUE")
    return found


def as_body(filters: dict[str, str]) -> dict[str, Any]:
    """The same as the body of a request has it."""
    body: dict[str, Any] = dict(filters)
    if "state" in body:
        body["state"] = body["state"].split(",")
    if "label" in body:
        key, _, value = body.pop("label").partition("=")
        body["labels"] = {key: value}
    return body
