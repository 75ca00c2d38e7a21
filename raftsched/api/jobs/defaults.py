"""Defaults of a namespace, for the fields that the body of a job leaves out.

They are filled in when a job is written, and stored with it: a later change of the defaults changes no job that
exists. A field that is given is taken whole, as it is; null is the same as left out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from raftsched.core.rows import decode_namespace
from raftsched.core.subjects.namespace import Namespace, namespace_error
from raftsched.core.tables import ReadView, Table
from raftsched.surface.content import TriggerIn
from raftsched.surface.jobs_generated import DefaultsIn, JobIn

FILLED = tuple(f for f in DefaultsIn.__struct_encode_fields__ if f != "timezone")  # and it in the trigger


class NamespaceContent(msgspec.Struct, omit_defaults=True):
    """The content of a namespace, as Namespace.content stores it."""

    description: str | None = None
    owner: str | None = None
    defaults: DefaultsIn | None = None


class NamespaceDefaults(NamedTuple):
    """A namespace as a job that is written sees it. `revision`: 0 of one that is not declared."""

    revision: int = 0
    defaults: DefaultsIn | None = None


NO_DEFAULTS = NamespaceDefaults()
_content = msgspec.json.Decoder(NamespaceContent)


def find_namespace(view: ReadView, name: str) -> Namespace | None:
    raw = None if namespace_error(name) else view.get(Table.NAMESPACES, name.encode())
    return None if raw is None else decode_namespace(raw)


def content_of_namespace(namespace: Namespace) -> NamespaceContent:
    return _content.decode(namespace.content) if namespace.content else NamespaceContent()


def read_defaults(view: ReadView, name: str) -> NamespaceDefaults:
    namespace = find_namespace(view, name)
    if namespace is None or not namespace.revision:
        return NO_DEFAULTS
    return NamespaceDefaults(namespace.revision, content_of_namespace(namespace).defaults)


def fill(given: JobIn, defaults: DefaultsIn, only: frozenset[str] | None = None) -> bool:
    """Fills in what is not given (of the fields in `only`, where that is said); False: there was nothing to fill in."""
    filled = False
    triggers: list[TriggerIn] = [*given.triggers]
    if given.trigger is not None:
        triggers.append(given.trigger)
    once = bool(triggers) and all(trigger.at is not None or trigger.in_ is not None for trigger in triggers)
    for field in FILLED:
        if once and field == "misfire":
            continue  # it runs, however late
        if field == "user" and given.handler is not None and given.handler.http is not None:
            continue  # it is nobody's process
        if (only is None or field in only) and getattr(given, field) is None:
            value = getattr(defaults, field)
            if value is not None:
                setattr(given, field, own(value))
                filled = True
    if defaults.timezone is not None and (only is None or not only.isdisjoint(("trigger", "triggers"))):
        for trigger in triggers:
            if _open(trigger):
                trigger.timezone = defaults.timezone
                filled = True
    return filled


def own(value: Any) -> Any:
    """Returns a copy: a change of the job's field must not change the namespace's."""
    if isinstance(value, list):
        return [own(one) for one in value]
    return msgspec.structs.replace(value) if isinstance(value, msgspec.Struct) else value


def _open(trigger: TriggerIn) -> bool:
    """Returns True for a trigger that counts in a time zone and does not name it."""
    if trigger.timezone is not None:
        return False
    if trigger.cron is not None:
        words = trigger.cron.split(maxsplit=1)
        return not words or not words[0].upper().startswith(("CRON_TZ=", "TZ=", "@EVERY"))
    return trigger.rrule is not None
