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
from raftsched.api.http.durations import format_duration
from raftsched.api.http.problems import ERRORS_MAX, FieldError, Problem, pointer
from raftsched.api.jobs.conditions_in import conditions_of
from raftsched.api.jobs.defaults import NOWHERE, Space, fill
from raftsched.api.jobs.handlers_in import need_of, target_of
from raftsched.api.jobs.notify_in import normal, notify_of
from raftsched.api.jobs.retry_in import retry_of
from raftsched.api.jobs.schema import (
    READ_ONLY,
    JobIn,
    MisfireIn,
    PlacementIn,
    RetentionIn,
    RetryIn,
)
from raftsched.api.jobs.secrets_in import check_params
from raftsched.api.jobs.triggers_in import duration_of, trigger_of
from raftsched.bounds import DESCRIPTION_MAX, OWNER_MAX
from raftsched.core.allowed import PATH_MAX
from raftsched.core.cluster import Settings
from raftsched.core.commands import CreateJob, encode
from raftsched.core.limits import GRACE_MAX_MS, LABEL_KEY_MAX, LABEL_VALUE_MAX, LABELS_MAX, RUN_MAX
from raftsched.core.model import (
    HOUR_MS,
    MINUTE_MS,
    Delivery,
    Misfire,
    MisfirePolicy,
    Overlap,
    Policy,
    Retention,
    Retry,
    Trigger,
)
from raftsched.core.notices import SYSTEM_NAMESPACE, SYSTEM_QUEUES
from raftsched.core.references import may_refer
from raftsched.core.selection import DEFAULT_NAMESPACE

DEFAULT_QUEUE = "default"

_name = names.JOB.allows
_namespace = names.NAMESPACE.allows

_OVERLAP = {v.name.lower(): v for v in Overlap}
_MISFIRE = {v.name.lower(): v for v in MisfirePolicy}
_DELIVERY = {v.name.lower(): v for v in Delivery}
_RETRY = Retry()
_MISFIRE_DEFAULT = Misfire()
_RETENTION = Retention()
_PRIORITY = 5
_MAX_LOST = 3
_TIMEOUT_MS = 5 * MINUTE_MS
_TIMEOUT_TEXT = format_duration(_TIMEOUT_MS)
_CONDITIONS_TIMEOUT_MS = HOUR_MS
_CONDITIONS_TIMEOUT_TEXT = format_duration(_CONDITIONS_TIMEOUT_MS)
_RETRY_IN, _MISFIRE_IN, _RETENTION_IN, _PLACEMENT_IN = RetryIn(), MisfireIn(), RetentionIn(), PlacementIn()

Spaces = Callable[[str], Space]  # namespace -> what is said about it

_BACKSLASH = ord("\\")
_EMPTY_PARAMS = re.compile(rb'"params": ?\{\}')
_json = msgspec.json.Encoder(order="deterministic").encode
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
    says_notify: bool = False  # itself, not by these defaults


def nowhere(namespace: str) -> Space:
    """Nothing is said about any."""
    return NOWHERE


def read_job(
    raw: bytes,
    settings: Settings,
    now_ms: int,
    spaces: Spaces = nowhere,
    namespace: str | None = None,
    *,
    kept: Trigger | None = None,
    tolerant: bool = False,
) -> Content:
    """A request's body. Problem invalid-json, invalid-job or invalid-trigger.

    `namespace`: where the job is, when that is not for the body to say. `kept` is the trigger of the job to be edited;
    `tolerant` skips what is read-only, so that an answer can be edited and put back."""
    if len(raw) > settings.body_max_bytes:
        raise too_large(len(raw), settings.body_max_bytes)
    try:
        given = _decoder.decode(raw)
    except (ValueError, RecursionError):
        return _slow(strict.parse(raw), settings, now_ms, spaces, namespace, kept, tolerant)
    errors: list[FieldError] = []
    space = spaces(namespace or given.namespace or DEFAULT_NAMESPACE)
    says_notify = given.notify is not None
    filled = space.defaults is not None and fill(given, space.defaults)
    if given.retry is not None or given.misfire is not None or given.retention is not None:
        filled = True  # these are kept with all their fields: what was not said of them hides what was said twice
    content = content_of(given, settings, now_ms, errors, kept, namespace)
    if errors:
        raise refused(errors)
    # A key given twice leaves one colon more than there are in what was understood. So does what is left out of it,
    # such as a default: only then is it worth reading the text again. Params that are empty are often said.
    said = (content.name is not None) + (content.namespace is not None) + content.suspended
    more = raw.count(b":") - content.body.count(b":") - said
    if more == 1 and not given.params and _EMPTY_PARAMS.search(raw):
        more = 0
    if more > 0 or filled or (_BACKSLASH in raw and b"\\u00" in raw):
        strict.refuse_repeats(raw)
    content.defaults, content.says_notify = space.revision, says_notify
    return content


def read_given(given: JobIn, settings: Settings, now_ms: int, spaces: Spaces, errors: list[FieldError]) -> Content:
    """The same from a body that was decoded, which is used up. Errors are added to the list, see `content_of`."""
    space = spaces(given.namespace or DEFAULT_NAMESPACE)
    says_notify = given.notify is not None
    if space.defaults is not None:
        fill(given, space.defaults)
    content = content_of(given, settings, now_ms, errors)
    content.defaults, content.says_notify = space.revision, says_notify
    return content


def read_plain(
    value: Any,
    settings: Settings,
    now_ms: int,
    spaces: Spaces,
    namespace: str,
    kept: Trigger | None = None,
    only: frozenset[str] | None = None,
) -> Content:
    """The same from a decoded value. `only`: the fields that the namespace's defaults may fill in."""
    return _slow(value, settings, now_ms, spaces, namespace, kept, False, only)


def _slow(
    value: Any,
    settings: Settings,
    now_ms: int,
    spaces: Spaces,
    namespace: str | None,
    kept: Trigger | None,
    tolerant: bool,
    only: frozenset[str] | None = None,
) -> Content:
    errors: list[FieldError] = []
    if tolerant and isinstance(value, dict):
        value = {k: v for k, v in value.items() if k not in READ_ONLY}
    given = strict.examine(value, JobIn, errors, READ_ONLY)
    if given is not None:
        bad = {error.pointer for error in errors}
        more: list[FieldError] = []
        space = spaces(namespace or given.namespace or DEFAULT_NAMESPACE)
        says_notify = given.notify is not None
        if space.defaults is not None:
            fill(given, space.defaults, only)
        content = content_of(given, settings, now_ms, more, kept, namespace)
        content.defaults, content.says_notify = space.revision, says_notify
        # What the walk took out looks missing now: only errors at other places are news.
        errors += [
            e for e in more[:ERRORS_MAX] if not any(b == e.pointer or b.startswith(e.pointer + "/") for b in bad)
        ]
        if not errors:
            return content
    raise refused(errors)


def refused(errors: list[FieldError]) -> Problem:
    only_trigger = all(e.pointer == "/trigger" or e.pointer.startswith("/trigger/") for e in errors)
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
    kept: Trigger | None = None,
    where: str | None = None,
) -> Content:
    """Errors are added to the list; the result is of use only when none were. The given job is used up. `where`: its
    namespace, when that is not for the job to say."""
    name, namespace = given.name, given.namespace
    if namespace is not None and not _namespace(namespace):
        errors.append(FieldError("/namespace", f"breaks the rule for namespaces; use {names.NAMESPACE.rule}"))
    elif namespace == SYSTEM_NAMESPACE:
        errors.append(FieldError("/namespace", "is the cluster's own; take another"))
    if name is not None and not _name(name):
        errors.append(FieldError("/name", f"breaks the rule for names; use {names.JOB.rule}"))
    policy = _policy(given, settings, now_ms, errors, kept)
    if given.user is not None:
        policy = msgspec.structs.replace(policy, user=_user(given, where or namespace or DEFAULT_NAMESPACE, errors))
    if given.labels:
        _labels(given.labels, "/labels", errors)
    if given.owner is not None and not 1 <= len(given.owner) <= OWNER_MAX:
        errors.append(FieldError("/owner", f"must have 1 to {OWNER_MAX} characters"))
    if given.description is not None and len(given.description) > DESCRIPTION_MAX:
        errors.append(
            FieldError("/description", f"has {len(given.description):,} characters; {DESCRIPTION_MAX:,} is the limit")
        )
    if given.params:
        encode_params(given.params, settings, errors)
    suspended = given.suspended
    if errors:
        return Content(namespace, name, policy, b"", suspended)
    given.name = given.namespace = None
    given.suspended = False
    _leave_out_defaults(given)
    body = _json(given)
    if len(body) > settings.body_max_bytes:
        errors.append(FieldError("", f"takes {len(body):,} bytes; {settings.body_max_bytes:,} is the limit"))
    elif len(body) > RUN_MAX:
        check_run(len(_json(given.handler)), len(_json(given.params or {})), errors)
    return Content(namespace, name, policy, body, suspended)


def _leave_out_defaults(given: JobIn) -> None:
    """Said or not said, it is the same job: a repeated creation or an answer put back must not look like a change."""
    if given.priority == _PRIORITY:
        given.priority = None
    if given.max_lost == _MAX_LOST:
        given.max_lost = None
    if given.labels == {}:
        given.labels = None
    if given.timeout == _TIMEOUT_TEXT:
        given.timeout = None
    if given.delivery == "at_least_once":
        given.delivery = None
    if given.overlap == "forbid":
        given.overlap = None
    if given.max_concurrency == 1 and given.overlap != "allow":
        given.max_concurrency = None
    if given.retry is not None and given.retry == _RETRY_IN:
        given.retry = None
    if given.misfire is not None and given.misfire == _MISFIRE_IN:
        given.misfire = None
    if given.retention is not None and given.retention == _RETENTION_IN:
        given.retention = None
    if given.conditions_timeout == _CONDITIONS_TIMEOUT_TEXT:
        given.conditions_timeout = None
    if given.notify is not None:
        given.notify = normal(given.notify)
    if given.placement is not None:
        if given.placement.on == "one":
            given.placement.on = None
        if given.placement == _PLACEMENT_IN:
            given.placement = None


def _policy(given: JobIn, settings: Settings, now_ms: int, errors: list[FieldError], kept: Trigger | None) -> Policy:
    trigger = trigger_of(given.trigger, now_ms, errors, kept)
    need = need_of(given.handler, errors)
    timeout = min(_TIMEOUT_MS, settings.timeout_ceiling_ms)
    if given.timeout is not None:
        timeout = _timeout(given.timeout, settings, errors)
    queue = given.queue
    if queue is None or queue == DEFAULT_QUEUE:
        given.queue, queue = None, DEFAULT_QUEUE
    elif not names.QUEUE.allows(queue):
        errors.append(FieldError("/queue", f"breaks the rule for names; use {names.QUEUE.rule}"))
    elif queue.startswith(SYSTEM_QUEUES):
        errors.append(FieldError("/queue", "is that of a webhook or a namespace; take another"))
    more: dict[str, Any] = {}  # what is not as it is by default
    if given.overlap is not None:
        more["overlap"] = _OVERLAP[given.overlap]
    if given.max_concurrency is not None:
        more["max_concurrency"] = _max_concurrency(given.max_concurrency, given.overlap)
    if given.priority is not None:
        more["priority"] = given.priority
    if given.delivery is not None:
        more["delivery"] = _DELIVERY[given.delivery]
    if given.max_lost is not None:
        more["max_lost"] = given.max_lost
    if given.grace is not None:
        more["grace_ms"] = _grace(given.grace, errors)
    if given.suspend_after is not None:
        more["suspend_after"] = given.suspend_after
    if given.retry is not None:
        more["retry"] = retry_of(given.retry, errors)
    if given.misfire is not None:
        more["misfire"] = _misfire(given.misfire, trigger, errors)
    if given.placement is not None:
        more["node_labels"] = _placement(given.placement, errors)
    if given.conditions:
        more["conditions"] = conditions_of(given.conditions, errors)
    if given.conditions_timeout is not None:
        more["conditions_timeout_ms"] = _conditions_timeout(given.conditions_timeout, errors)
    if given.notify is not None:
        more["notify"] = notify_of(given.notify, errors)
    if given.retention is not None:
        more["retention"] = _retention(given.retention, errors)
    if given.handler is not None and not errors:
        more["target"] = target_of(given.handler)
        if given.handler.cwd is not None:
            more["cwd"] = given.handler.cwd[:PATH_MAX]
    return Policy(trigger=trigger, queue=queue, timeout_ms=timeout, handler_need=need, **more)


def _max_concurrency(given: int, overlap: str | None) -> int:
    """As the policy has it: 0 where it says what the overlap policy says by itself."""
    return 0 if given == 1 and overlap != "allow" else given


def _timeout(text: str, settings: Settings, errors: list[FieldError]) -> int:
    timeout = duration_of(text, "/timeout", errors)
    if timeout is None:
        return _TIMEOUT_MS
    ceiling = settings.timeout_ceiling_ms
    if timeout > ceiling:
        errors.append(
            FieldError("/timeout", f"is above the cluster's ceiling; at most {format_duration(ceiling)} is allowed")
        )
    elif timeout == 0:
        errors.append(FieldError("/timeout", f"must be more than zero and at most {format_duration(ceiling)}"))
    return timeout


def _grace(text: str, errors: list[FieldError]) -> int:
    grace = duration_of(text, "/grace", errors)
    if grace is not None and grace > GRACE_MAX_MS:
        errors.append(FieldError("/grace", f"must be at most {format_duration(GRACE_MAX_MS)}"))
    return grace or 0


def _user(given: JobIn, namespace: str, errors: list[FieldError]) -> str:
    """As the policy has it."""
    assert given.user is not None
    if not names.USER.allows(given.user):
        errors.append(FieldError("/user", f"is no name of a user; use {names.USER.rule}"))
    if given.handler is not None and given.handler.http is not None:
        errors.append(FieldError("/user", "has no meaning with http, which is no process of the job's; leave it out"))
    return f"{namespace}:{given.user}"


def _conditions_timeout(text: str, errors: list[FieldError]) -> int:
    timeout = duration_of(text, "/conditions_timeout", errors)
    if timeout == 0:
        errors.append(FieldError("/conditions_timeout", "must be more than zero, such as 1h"))
    return _CONDITIONS_TIMEOUT_MS if timeout is None else timeout


def _misfire(given: MisfireIn, trigger: Trigger, errors: list[FieldError]) -> Misfire:
    if trigger.once and given.policy != _MISFIRE_IN.policy:
        errors.append(
            FieldError(
                "/misfire/policy",
                f'"{given.policy}" has no meaning for a job that is due once: it runs, however late; leave misfire out '
                "(where a job has one, give null)",
            )
        )
    grace = duration_of(given.grace, "/misfire/grace", errors) or 0
    return Misfire(_MISFIRE[given.policy], grace)


def _placement(given: PlacementIn, errors: list[FieldError]) -> tuple[tuple[str, str], ...]:
    _labels(given.labels, "/placement/labels", errors)
    return tuple(sorted(given.labels.items()))


def _retention(given: RetentionIn, errors: list[FieldError]) -> Retention:
    age = duration_of(given.max_age, "/retention/max_age", errors) or 0
    return Retention(given.succeeded, given.failed, age)


def _labels(labels: dict[str, str], at: str, errors: list[FieldError]) -> None:
    if len(labels) > LABELS_MAX:
        errors.append(FieldError(at, f"has {len(labels)} labels; at most {LABELS_MAX} are allowed"))
        return
    for key, value in labels.items():
        if not 1 <= len(key) <= LABEL_KEY_MAX:
            errors.append(FieldError(at + pointer(key[:32]), f"needs a key of 1 to {LABEL_KEY_MAX} characters"))
        if len(value) > LABEL_VALUE_MAX:
            errors.append(FieldError(at + pointer(key[:32]), f"is too long; at most {LABEL_VALUE_MAX} characters"))


def check_run(handler_bytes: int, params_bytes: int, errors: list[FieldError]) -> None:
    """Whether a node can hand them over to what runs: whatever the limits of jobs are set to."""
    if handler_bytes + params_bytes > RUN_MAX:
        which, other = ("/params", "the handler") if params_bytes >= handler_bytes else ("/handler", "params")
        both = f"with {other} takes {handler_bytes + params_bytes:,} bytes"
        errors.append(FieldError(which, f"{both}; a run is given {RUN_MAX:,} at most, and may fetch what is more"))


def encode_params(params: dict[str, Any], settings: Settings, errors: list[FieldError]) -> bytes:
    """JSON of params, within their limits of size and depth."""
    if strict.nests_deeper(params):
        errors.append(FieldError("/params", f"nests too deeply; at most {strict.DEPTH_MAX} levels are allowed"))
        return b"{}"
    raw = _json(params)
    if may_refer(raw):
        check_params(params, errors)
    if len(raw) > settings.params_max_bytes:
        errors.append(FieldError("/params", f"takes {len(raw):,} bytes; {settings.params_max_bytes:,} is the limit"))
    return raw
