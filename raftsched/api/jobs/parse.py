"""A job as given -> the command that creates or edits it. All errors are collected, each with its JSON pointer.

`Job.body` holds the content of the job as given, in canonical JSON: known fields in the order of the schema, those
left at their default left out, text forms of durations and times kept. The worker reads "handler" and "params" there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from raftsched import names
from raftsched.api.auth.callers import check_permitted
from raftsched.api.http import strict
from raftsched.api.http.problems import ERRORS_MAX, FieldError, Problem
from raftsched.api.jobs.defaults import NO_DEFAULTS, NamespaceDefaults, fill
from raftsched.api.jobs.generated import leave_out_defaults, policy_of
from raftsched.api.jobs.handlers import check_templates
from raftsched.api.jobs.rules import check_run
from raftsched.cluster_settings import Settings
from raftsched.core.commands import CreateJob, encode
from raftsched.core.limits import RUN_MAX
from raftsched.core.model import Policy
from raftsched.core.rules.selection import DEFAULT_NAMESPACE
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE
from raftsched.surface.job_shapes import READ_ONLY
from raftsched.surface.jobs_generated import JobIn

DefaultsLookup = Callable[[str], NamespaceDefaults]  # namespace -> its defaults

_TRIGGERS = ("/trigger", "/triggers", "/max_runs")
_BACKSLASH = ord("\\")
_EMPTY_PARAMS = re.compile(rb'"params": ?\{\}')
canonical = msgspec.json.Encoder(order="deterministic").encode
_decoder = msgspec.json.Decoder(JobIn)


@dataclass(slots=True)
class Content:
    """A job that was checked. `namespace` is None when it was not given."""

    namespace: str | None
    name: str | None
    policy: Policy
    body: bytes
    suspended: bool
    defaults: int | None = None  # revision of the namespace that it was filled in from
    has_own_notify: bool = False  # itself, not by these defaults
    shape: object = None  # jobs of the same one differ in trigger, params and name alone (alike.py); None: not known


def no_defaults(namespace: str) -> NamespaceDefaults:
    """Returns no defaults, for any namespace."""
    return NO_DEFAULTS


def read_job(
    raw: bytes,
    settings: Settings,
    now_ms: int,
    lookup: DefaultsLookup = no_defaults,
    namespace: str | None = None,
    *,
    kept: Policy | None = None,
    tolerant: bool = False,
) -> Content:
    """A request's body. Problem invalid-json, invalid-job or invalid-trigger.

    `namespace`: where the job is, when that is not for the body to say. `kept`: of the job to be edited, as it is;
    `tolerant` skips what is read-only, so that an answer can be edited and put back."""
    if len(raw) > settings.body_max_bytes:
        raise too_large(len(raw), settings.body_max_bytes)
    try:
        given = _decoder.decode(raw)
    except (ValueError, RecursionError):
        return _slow(strict.parse(raw), settings, now_ms, lookup, namespace, kept, tolerant)
    errors: list[FieldError] = []
    check_permitted(namespace or given.namespace or DEFAULT_NAMESPACE)  # before what takes longer
    found = lookup(namespace or given.namespace or DEFAULT_NAMESPACE)
    has_own_notify = given.notify is not None
    filled = found.defaults is not None and fill(given, found.defaults)
    if given.retry is not None or given.misfire is not None or given.retention is not None:
        filled = True  # these are kept with all their fields: what was not said of them hides what was said twice
    content = content_of(given, settings, now_ms, errors, kept, namespace)
    if errors:
        raise refused(errors)
    refuse_repeats(raw, content, has_params=bool(given.params), filled=filled)
    content.defaults, content.has_own_notify = found.revision, has_own_notify
    return content


def refuse_repeats(raw: bytes, content: Content, *, has_params: bool, filled: bool = False) -> None:
    """Raises Problem for a body in which a key is given twice. `filled`: its content has more than was said."""
    # A key given twice leaves one colon more than there are in what was understood. So does what is left out of it,
    # such as a default: only then is it worth reading the text again. Params that are empty are often said.
    # `said` counts the fields of the request that are not in `content.body`. It has to have all of them: one that it
    # lacks leaves a colon with each request that has it, so that all of these take the slow way; one that it counts
    # though it is in the body, or was not given, hides a key that was given twice.
    said = (content.name is not None) + (content.namespace is not None) + content.suspended
    more = raw.count(b":") - content.body.count(b":") - said
    if more == 1 and not has_params and _EMPTY_PARAMS.search(raw):
        more = 0
    if more > 0 or filled or (_BACKSLASH in raw and b"\\u00" in raw):
        strict.refuse_repeats(raw)


def read_plain(
    value: Any,
    settings: Settings,
    now_ms: int,
    lookup: DefaultsLookup,
    namespace: str,
    kept: Policy | None = None,
    only: frozenset[str] | None = None,
) -> Content:
    """The same from a decoded value, which is used up. `only`: the fields that the namespace's defaults may fill in."""
    return _slow(value, settings, now_ms, lookup, namespace, kept, False, only)


def _slow(
    value: Any,
    settings: Settings,
    now_ms: int,
    lookup: DefaultsLookup,
    namespace: str | None,
    kept: Policy | None,
    tolerant: bool,
    only: frozenset[str] | None = None,
) -> Content:
    errors: list[FieldError] = []
    if tolerant and isinstance(value, dict):
        value = {k: v for k, v in value.items() if k not in READ_ONLY}
    given = strict.examine(value, JobIn, errors, READ_ONLY)
    if given is not None:
        bad = {error.pointer for error in errors}
        if any(pointer.startswith("/triggers") for pointer in bad):
            bad.add("/trigger")  # several were meant, and may have been taken out whole
        more: list[FieldError] = []
        found = lookup(namespace or given.namespace or DEFAULT_NAMESPACE)
        has_own_notify = given.notify is not None
        if found.defaults is not None:
            fill(given, found.defaults, only)
        content = content_of(given, settings, now_ms, more, kept, namespace)
        content.defaults, content.has_own_notify = found.revision, has_own_notify
        # What the walk took out looks missing now: only errors at other places are news.
        errors += [
            e for e in more[:ERRORS_MAX] if not any(b == e.pointer or b.startswith(e.pointer + "/") for b in bad)
        ]
        if not errors:
            return content
    raise refused(errors)


def refused(errors: list[FieldError]) -> Problem:
    only_trigger = all(e.pointer in _TRIGGERS or e.pointer.startswith(("/trigger/", "/triggers/")) for e in errors)
    return Problem("invalid-trigger" if only_trigger else "invalid-job", errors=errors)


def too_large(size: int, limit: int) -> Problem:
    return Problem("too-large", f"The job takes {size:,} bytes; {limit:,} is the limit.")


def create_command(
    content: Content,
    *,
    replace: bool = False,
    if_none: bool = False,
    key: bytes = b"",
    digest: bytes = b"",
    place: int | None = None,
) -> bytes:
    """Raises Problem forbidden: the caller may not be there."""
    namespace = content.namespace or DEFAULT_NAMESPACE
    check_permitted(namespace)
    return encode(
        CreateJob(
            namespace,
            content.name,
            content.policy,
            content.body,
            content.suspended,
            replace,
            if_none,
            key,
            digest,
            place,
            content.defaults,
        )
    )


def content_of(
    given: JobIn,
    settings: Settings,
    now_ms: int,
    errors: list[FieldError],
    kept: Policy | None = None,
    where: str | None = None,
) -> Content:
    """Errors are added to the list; the result is of use only when none were. The given job is used up. `where`: its
    namespace, when that is not for the job to say."""
    name, namespace = given.name, given.namespace
    if namespace is not None and not names.NAMESPACE.allows(namespace):
        errors.append(FieldError("/namespace", f"breaks the rule for namespaces; use {names.NAMESPACE.rule}"))
    elif namespace == SYSTEM_NAMESPACE:
        errors.append(FieldError("/namespace", "is the cluster's own; take another", "reserved"))
    if name is not None and not names.JOB.allows(name):
        errors.append(FieldError("/name", f"breaks the rule for names; use {names.JOB.rule}"))
    policy = policy_of(given, settings, now_ms, errors, kept, where or namespace or DEFAULT_NAMESPACE)
    suspended = given.suspended
    if given.handler is not None and given.handler.template and not errors:
        check_templates(given.handler, given.params, errors)
    if errors:
        return Content(namespace, name, policy, b"", suspended)
    given.name = given.namespace = None
    given.suspended = False
    leave_out_defaults(given)
    body = canonical(given)
    if len(body) > settings.body_max_bytes:
        errors.append(
            FieldError("", f"takes {len(body):,} bytes; {settings.body_max_bytes:,} is the limit", "out-of-range")
        )
    elif len(body) > RUN_MAX:
        check_run(len(canonical(given.handler)), len(canonical(given.params or {})), errors)
    return Content(namespace, name, policy, body, suspended)
