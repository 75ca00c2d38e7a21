"""Reads jobs that are mostly alike: what they have beside trigger, params and name is looked at once.

What is remembered is found by the bytes of that rest, as they came, so that it is what reading them again would give. A
job that is new in any way, or is refused, is read by `read_job`; both give the same content. What may be another for
the next caller, or a moment later, is asked each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from raftsched import names
from raftsched.api.auth.callers import check_permitted
from raftsched.api.http.problems import FieldError
from raftsched.api.jobs.parse import Content, DefaultsLookup, canonical, read_job, refuse_repeats
from raftsched.api.jobs.rules import encode_params
from raftsched.api.jobs.triggers import trigger_of
from raftsched.cluster_settings import Settings
from raftsched.core.limits import RUN_MAX
from raftsched.core.model import Policy
from raftsched.core.rules.selection import DEFAULT_NAMESPACE
from raftsched.surface.content import TriggerIn
from raftsched.surface.jobs_generated import JobIn
from raftsched.surface.scalars import Name

SHAPES_MAX = 64  # remembered at one time,
SHAPE_BYTES_MAX = 16 * 1024  # each of a text of so many bytes at most
USELESS = 16  # jobs in a row that were like none before, after which none is looked for
PAUSE = 1_000  # jobs, until one is looked for again
# Fields that mean something else beside another trigger or other params, or that are kept in another form than given.
_DEPENDENT = frozenset({"triggers", "max_runs", "misfire", "concurrency", "retry", "retention", "notify"})

_pieces = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_trigger_in = msgspec.json.Decoder(TriggerIn).decode
_params_in = msgspec.json.Decoder(dict[str, Any]).decode
_name_in = msgspec.json.Decoder(Name | None).decode
_job_in = msgspec.json.Decoder(JobIn).decode


class Shape(NamedTuple):
    """The part of jobs that is alike: the policy but for its trigger, and the content around trigger and params."""

    policy: Policy
    handler: bytes  # what stands between trigger and params
    rest: bytes  # what stands behind params
    namespace: str | None
    suspended: bool


class AlikeJobs:
    """Reads jobs, and remembers what they were like."""

    def __init__(self) -> None:
        self._settings: Settings | None = None  # by which the shapes were read
        self._shapes: dict[tuple[tuple[str, bytes], ...], Shape | None] = {}
        self._missed = 0  # jobs in a row that were like none before

    def read(self, raw: bytes, settings: Settings, now_ms: int, lookup: DefaultsLookup) -> Content:
        """Returns what `read_job` does, and raises what it raises."""
        if self._missed >= USELESS or len(raw) > SHAPE_BYTES_MAX or len(raw) > settings.body_max_bytes:
            self._missed = self._missed + 1 if self._missed < USELESS + PAUSE else 0
            return read_job(raw, settings, now_ms, lookup)
        if settings is not self._settings:
            if settings != self._settings:
                self._shapes.clear()
            self._settings = settings
        try:
            fields = _pieces(raw)
        except (ValueError, RecursionError):
            return read_job(raw, settings, now_ms, lookup)
        own = fields.pop("trigger", None), fields.pop("params", None), fields.pop("name", None)
        key = tuple([(name, bytes(value)) for name, value in fields.items()])
        shape = self._shapes.get(key)
        if shape is not None:
            self._missed = 0
            content = _fitted(shape, raw, *own, settings, now_ms, lookup)
            return read_job(raw, settings, now_ms, lookup) if content is None else content
        content = read_job(raw, settings, now_ms, lookup)
        self._missed += 1
        if key not in self._shapes:
            if len(self._shapes) >= SHAPES_MAX:
                self._shapes.clear()
            self._shapes[key] = _shape_of(fields, content, lookup)
        content.shape = self._shapes[key]
        return content


def _shape_of(fields: Mapping[str, msgspec.Raw], content: Content, lookup: DefaultsLookup) -> Shape | None:
    """Returns what others may be like in; None: it depends on more than itself."""
    if not _DEPENDENT.isdisjoint(fields) or b'"template"' in content.body:
        return None
    if lookup(content.namespace or DEFAULT_NAMESPACE).defaults is not None:
        return None
    given = _job_in(content.body)
    trigger, params = canonical(given.trigger), canonical(given.params) if given.params else b""
    given.params = {}
    whole, handler = canonical(given), canonical(given.handler)
    rest = whole[len(_body(trigger, handler, b"", b"")) :]
    shape = Shape(content.policy, handler, rest, content.namespace, content.suspended)
    return shape if _body(trigger, handler, params, rest) == content.body else None


def _fitted(
    shape: Shape,
    raw: bytes,
    trigger: msgspec.Raw | None,
    params: msgspec.Raw | None,
    name: msgspec.Raw | None,
    settings: Settings,
    now_ms: int,
    lookup: DefaultsLookup,
) -> Content | None:
    """Returns the job of this shape; None: it is refused, or has to be read whole."""
    if trigger is None:
        return None
    try:
        given = _trigger_in(trigger)
        called = None if name is None else _name_in(name)
        values = {} if params is None else _params_in(params)
    except (ValueError, RecursionError):
        return None
    namespace = shape.namespace or DEFAULT_NAMESPACE
    check_permitted(namespace)
    defaults = lookup(namespace)
    errors: list[FieldError] = []
    due = trigger_of(given, now_ms, errors, None, namespace)
    encoded = encode_params(values, settings, errors) if values else b""
    if errors or defaults.defaults is not None or (called is not None and not names.JOB.allows(called)):
        return None
    body = _body(canonical(given), shape.handler, encoded, shape.rest)
    if len(body) > settings.body_max_bytes or len(body) > RUN_MAX:
        return None
    policy = replace(shape.policy, trigger=due)
    content = Content(shape.namespace, called, policy, body, shape.suspended, defaults.revision, shape=shape)
    refuse_repeats(raw, content, has_params=bool(values))
    return content


def _body(trigger: bytes, handler: bytes, params: bytes, rest: bytes) -> bytes:
    """Returns the canonical content of a job: its fields are in the order of JobIn."""
    between = b',"params":' if params else b""
    return b"".join((b'{"trigger":', trigger, b',"handler":', handler, between, params, rest))
