"""Reads jobs of one request that are mostly alike: what they have beside trigger, params and name is looked at once.

What is remembered is found by the bytes of that rest, as they came, so that it is what reading them again would give. A
job that is new in any way, or is refused, is read by `read_job`; both give the same content.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from raftsched import names
from raftsched.api.http.idempotency import Named
from raftsched.api.http.problems import FieldError
from raftsched.api.jobs.parse import Content, DefaultsLookup, canonical, create_command, read_job, refuse_repeats
from raftsched.api.jobs.rules import encode_params
from raftsched.api.jobs.triggers import trigger_of
from raftsched.cluster_settings import Settings
from raftsched.core.commands import CreateJobs, encode
from raftsched.core.limits import RUN_MAX
from raftsched.core.model import Policy
from raftsched.core.rules.selection import DEFAULT_NAMESPACE
from raftsched.core.subjects.idempotency import BATCH_PLACES
from raftsched.surface.content import TriggerIn
from raftsched.surface.jobs_generated import JobIn
from raftsched.surface.scalars import Name

SHAPES_MAX = 64  # remembered of one request
USELESS = 16  # jobs without one that is like an earlier one, after which none is looked for
# Fields that mean something else beside another trigger or other params, or that are kept in another form than given.
_DEPENDENT = frozenset({"triggers", "max_runs", "misfire", "concurrency", "retry", "retention", "notify"})

_pieces = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_trigger_in = msgspec.json.Decoder(TriggerIn).decode
_params_in = msgspec.json.Decoder(dict[str, Any]).decode
_name_in = msgspec.json.Decoder(Name | None).decode
_job_in = msgspec.json.Decoder(JobIn).decode


class Shape(NamedTuple):
    """What is alike: the job's policy but for the trigger, and its content around trigger and params."""

    policy: Policy
    handler: bytes  # what stands between trigger and params
    rest: bytes  # what stands behind params
    namespace: str | None
    suspended: bool
    defaults: int | None


class AlikeJobs:
    """Reads the jobs of one request."""

    def __init__(self, settings: Settings, now_ms: int, lookup: DefaultsLookup) -> None:
        self._settings = settings
        self._now_ms = now_ms
        self._lookup = lookup
        self._shapes: dict[tuple[tuple[str, bytes], ...], Shape | None] = {}
        self._missed = 0  # jobs in a row that were like none before

    def read(self, raw: bytes) -> Content:
        """Returns what `read_job` does, and raises what it raises."""
        if self._missed >= USELESS or len(raw) > self._settings.body_max_bytes:
            return self._read(raw)
        try:
            fields = _pieces(raw)
        except (ValueError, RecursionError):
            return self._read(raw)
        own = fields.pop("trigger", None), fields.pop("params", None), fields.pop("name", None)
        key = tuple([(name, bytes(value)) for name, value in fields.items()])
        shape = self._shapes.get(key)
        if shape is not None:
            self._missed = 0
            return self._fitted(shape, raw, *own) or self._read(raw)
        content = self._read(raw)
        self._missed += 1
        if key not in self._shapes:
            if len(self._shapes) >= SHAPES_MAX:
                self._shapes.clear()
            self._shapes[key] = self._shape(fields, content)
        content.shape = self._shapes[key]
        return content

    def _read(self, raw: bytes) -> Content:
        return read_job(raw, self._settings, self._now_ms, self._lookup)

    def _shape(self, fields: Mapping[str, msgspec.Raw], content: Content) -> Shape | None:
        """Returns what others may be like in; None: it depends on more than itself."""
        if not _DEPENDENT.isdisjoint(fields) or b'"template"' in content.body:
            return None
        if self._lookup(content.namespace or DEFAULT_NAMESPACE).defaults is not None:
            return None
        given = _job_in(content.body)
        trigger, params = canonical(given.trigger), canonical(given.params) if given.params else b""
        given.params = {}
        whole, handler = canonical(given), canonical(given.handler)
        rest = whole[len(_body(trigger, handler, b"", b"")) :]
        shape = Shape(content.policy, handler, rest, content.namespace, content.suspended, content.defaults)
        return shape if _body(trigger, handler, params, rest) == content.body else None

    def _fitted(
        self,
        shape: Shape,
        raw: bytes,
        trigger: msgspec.Raw | None,
        params: msgspec.Raw | None,
        name: msgspec.Raw | None,
    ) -> Content | None:
        """Returns the job of this shape; None: it is refused, or has to be read whole."""
        if trigger is None:
            return None
        settings = self._settings
        try:
            given = _trigger_in(trigger)
            called = None if name is None else _name_in(name)
            values = {} if params is None else _params_in(params)
        except (ValueError, RecursionError):
            return None
        errors: list[FieldError] = []
        due = trigger_of(given, self._now_ms, errors, None, shape.namespace or DEFAULT_NAMESPACE)
        encoded = encode_params(values, settings, errors) if values else b""
        if errors or (called is not None and not names.JOB.allows(called)):
            return None
        body = _body(canonical(given), shape.handler, encoded, shape.rest)
        if len(body) > settings.body_max_bytes or len(body) > RUN_MAX:
            return None
        policy = replace(shape.policy, trigger=due)
        content = Content(shape.namespace, called, policy, body, shape.suspended, shape.defaults, shape=shape)
        refuse_repeats(raw, content, has_params=bool(values))
        return content


def _body(trigger: bytes, handler: bytes, params: bytes, rest: bytes) -> bytes:
    """Returns the canonical content of a job: its fields are in the order of JobIn."""
    between = b',"params":' if params else b""
    return b"".join((b'{"trigger":', trigger, b',"handler":', handler, between, params, rest))


class Group:
    """Jobs next to each other in a batch that are one command."""

    def __init__(self, content: Content, name: Named, place: int) -> None:
        """`name`: of the part of the batch that they are in. `place`: in the batch."""
        self.places = [place]
        self._first = content
        self._name = name
        self._trigger = content.policy.trigger
        self._contents = [content]

    def takes(self, content: Content, name: Named, place: int) -> bool:
        """Adds a job, unless it is not like the others. Returns whether it did."""
        if content.shape is None or content.shape is not self._first.shape or name is not self._name:
            return False
        trigger = content.policy.trigger
        if trigger != self._trigger and replace(trigger, at_ms=self._trigger.at_ms) != self._trigger:
            return False
        self._contents.append(content)
        self.places.append(place)
        return True

    def command(self) -> bytes:
        """Returns the command that makes them, encoded."""
        first, name = self._first, self._name
        if len(self._contents) == 1:
            place = self.places[0] % BATCH_PLACES if name.key else None
            return create_command(first, key=name.key, digest=name.digest, place=place)
        times = tuple([content.policy.trigger.at_ms for content in self._contents])
        names = tuple([content.name for content in self._contents])
        return encode(
            CreateJobs(
                first.namespace or DEFAULT_NAMESPACE,
                first.policy,
                tuple([content.body for content in self._contents]),
                times if any(at_ms != self._trigger.at_ms for at_ms in times) else (),
                names if any(name is not None for name in names) else (),
                first.suspended,
                name.key,
                name.digest,
                tuple([place % BATCH_PLACES for place in self.places]) if name.key else (),
                first.defaults,
            )
        )
