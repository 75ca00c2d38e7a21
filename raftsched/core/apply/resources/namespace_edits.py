"""Declares, limits and deletes namespaces, and checks a job against its own."""

from __future__ import annotations

from raftsched.core.actions import NamespaceChanged
from raftsched.core.apply.resources.quotas import follow
from raftsched.core.apply.tx import Tx
from raftsched.core.apply.versions import is_stale, put_refused, stale_revision
from raftsched.core.commands import Accepted, Answer, Rejected
from raftsched.core.rules.creation import no_room, undeclared
from raftsched.core.subjects.namespace import (
    CONTENT_MAX,
    DEFAULTS_STALE,
    DeleteNamespace,
    Namespace,
    PutNamespace,
    namespace_error,
)
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE
from raftsched.namespace_limits import LIMITS

_SAID = ("content", *LIMITS)  # fields that a declaration replaces


def put_namespace(tx: Tx, c: PutNamespace) -> Answer:
    wrong = namespace_error(c.name)
    if wrong is None and len(c.content) > CONTENT_MAX:
        wrong = f"what is said about a namespace takes {len(c.content)} bytes; {CONTENT_MAX} is the limit."
    if wrong is None:
        wrong = _wrong_in_limits(c)
    if wrong is None and c.name == SYSTEM_NAMESPACE:
        wrong = f"the namespace {SYSTEM_NAMESPACE} is the cluster's own."
    if wrong is not None:
        return Rejected("invalid-parameter", wrong)
    there = tx.namespace(c.name)
    declared = there is not None and there.revision > 0
    what = f"The namespace {c.name}"
    absent = f"{what} is not declared now; leave out the condition."
    refused = put_refused(c, there if declared else None, what, f"{what} is declared already.", absent)
    if refused is not None:
        return refused
    if not declared:
        limit = tx.meta.settings.namespaces_max
        if tx.meta.namespaces >= limit:
            return Rejected("not-possible", f"{tx.meta.namespaces} namespaces are declared; {limit} is the limit.")
        tx.meta.namespaces += 1
    namespace = there or Namespace(name=c.name)
    if not declared:
        namespace.created_at_ms = tx.now
    unchanged = declared and all(getattr(namespace, name) == getattr(c, name) for name in _SAID)
    if not unchanged:
        for name in _SAID:
            setattr(namespace, name, getattr(c, name))
        follow(tx, namespace)
        namespace.modified_at_ms = tx.now
        namespace.revision = tx.new_revision()
        tx.put_namespace(namespace)
        tx.actions.append(NamespaceChanged(c.name))
    return Accepted(created=not declared, unchanged=unchanged)


def delete_namespace(tx: Tx, c: DeleteNamespace) -> Answer:
    namespace = tx.namespace(c.name)
    if namespace is None or not namespace.revision:
        return Rejected("not-found", f"The namespace {c.name[:100]} is not declared.")
    if is_stale(c.if_revision, namespace):
        return stale_revision(f"The namespace {c.name}", namespace)
    if namespace.jobs or namespace.secrets:
        return Rejected(
            "in-use",
            f"The namespace {c.name} holds {namespace.jobs} jobs and {namespace.secrets} secrets; delete them first.",
        )
    tx.meta.namespaces -= 1
    namespace.revision, namespace.content = 0, b""
    for name in LIMITS:
        setattr(namespace, name, None)
    follow(tx, namespace)
    tx.put_namespace(namespace)
    tx.actions.append(NamespaceChanged(c.name))
    return Accepted()


def _wrong_in_limits(c: PutNamespace) -> str | None:
    for name, row in LIMITS.items():
        value = getattr(c, name)
        if value is not None and not row.least <= value <= row.most:
            return f"{name} is {value}; use {row.least} to {row.most}."
    return None


def refuse_stale_defaults(tx: Tx, name: str, defaults: int | None) -> Rejected | None:
    """Refuses a job whose defaults were taken from a namespace that was changed since. `defaults`: the revision that
    they were taken from (0: of a namespace that is not declared; None: from none)."""
    if defaults is None:
        return None
    namespace = tx.namespace(name)
    if (0 if namespace is None else namespace.revision) != defaults:
        return Rejected(DEFAULTS_STALE, f"The namespace {name[:100]} was changed meanwhile.")
    return None


def refuse_new_job(tx: Tx, name: str) -> Rejected | None:
    """Refuses one more job when the namespace is full or not declared."""
    return no_room(tx.namespace(name), name, strict=bool(tx.meta.settings.namespaces_strict))


def known(tx: Tx, name: str) -> Rejected | None:
    """Refuses a namespace that is not declared, where it has to be. The default one never has to."""
    return undeclared(tx.namespace(name), name) if tx.meta.settings.namespaces_strict else None
