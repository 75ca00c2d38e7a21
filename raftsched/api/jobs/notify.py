"""A job's notify as given -> core.notices.Notify, with every error and its JSON pointer."""

from __future__ import annotations

from raftsched import names
from raftsched.api.http.problems import FieldError, Problem
from raftsched.api.jobs.schema import NotifyIn
from raftsched.core.model import Policy
from raftsched.core.notices import NOTIFY_MAX, Ending, Notify
from raftsched.core.tables import ReadView, Table

Given = NotifyIn | list[NotifyIn] | None

ENDINGS = {ending.name.lower(): ending for ending in Ending}
_CHOICES = ", ".join(f'"{name}"' for name in ENDINGS)


def normal(given: Given) -> Given:
    """Returns one form for all that mean the same: the item of a list of one, None for an empty list."""
    if isinstance(given, list):
        given = given[0] if len(given) == 1 else given or None
    for one in given if isinstance(given, list) else [given] if given is not None else []:
        one.on = [ending.name.lower() for ending in sorted({ENDINGS[name] for name in one.on})]  # type: ignore[misc]
    return given


def notify_of(given: Given, errors: list[FieldError]) -> tuple[Notify, ...]:
    """Errors are added to the list; the result is of use only when none were. Whether the webhooks are there is said
    by apply."""
    listed = isinstance(given, list)
    many = given if isinstance(given, list) else [] if given is None else [given]
    found: dict[str, Notify] = {}
    if len(many) > NOTIFY_MAX:
        errors.append(FieldError("/notify", f"names {len(many)} webhooks; at most {NOTIFY_MAX} are allowed"))
        return ()
    for i, one in enumerate(many):
        at = f"/notify/{i}" if listed else "/notify"
        name = one.webhook
        if name is None:
            errors.append(FieldError(f"{at}/webhook", 'is missing; give the name of a webhook, such as "ops"'))
        elif not names.WEBHOOK.allows(name):
            errors.append(FieldError(f"{at}/webhook", f"breaks the rule for webhooks' names; use {names.WEBHOOK.rule}"))
        elif name in found:
            errors.append(FieldError(f"{at}/webhook", f'is named before; say all "on" of "{name}" in one place'))
        else:
            found[name] = Notify(name, tuple(sorted({ENDINGS[end] for end in one.on})))
        if not one.on:
            errors.append(FieldError(f"{at}/on", f"is empty; give one or more of {_CHOICES}"))
    return tuple(found.values())


def absent(policy: Policy, at: int) -> FieldError:
    """Returns the refusal of a webhook that does not exist, as apply finds it."""
    where = f"/notify/{at}/webhook" if len(policy.notify) > 1 else "/notify/webhook"
    name = policy.notify[at].webhook
    return FieldError(where, f'names the webhook "{name}", which is not there; create it first')


def refuse_unknown(view: ReadView, policy: Policy) -> None:
    """Refuses webhooks that do not exist, for requests that propose nothing. Raises Problem invalid-job."""
    for i, one in enumerate(policy.notify):
        if view.get(Table.WEBHOOKS, one.webhook.encode()) is None:
            raise Problem("invalid-job", errors=[absent(policy, i)])
