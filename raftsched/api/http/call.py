"""A request as its operation declares it: `Operation` says what it may have, `parse_call` reads it for the handler.

    @serves(cluster.TRANSFER)
    async def transfer(ctx: ApiContext, call: Call[cluster.TransferIn]) -> web.Response:
        leader = await ctx.cluster.members.transfer(call.body.to, ctx.propose_timeout_s)

What is declared has been checked when the handler begins, in this order: query parameters, preconditions and
Idempotency-Key, the type of the body, how fresh a read has to be (`consistency`, `min_index`), the size of the body.
The body is decoded when it is first asked for: a handler may have reasons to answer before. A body that cannot say
anything (a struct without fields) is decoded at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Generic, TypeVar, cast

import msgspec
from aiohttp import web

from raftsched.api.context import ApiContext
from raftsched.api.http import strict
from raftsched.api.http.idempotency import Named, named
from raftsched.api.http.preconditions import create_only, if_match, not_modified
from raftsched.api.http.problems import Problem
from raftsched.api.http.requests import (
    Query,
    check_namespace,
    check_operation,
    check_type,
    fresh_enough,
    read_body,
)
from raftsched.surface.operation import BODY_MAX, JSON, Operation

B = TypeVar("B")


class Call(Generic[B]):
    """`raw` is the body as bytes, decompressed: `{}` where there is none and none is required. `if_match` is the
    revision that may be changed; None: any, which with `must_exist` (If-Match was given) is one that exists.
    `if_match_id`: the job that it is the revision of; None: the one that is addressed. `create_only`: If-None-Match: *
    was given, so that nothing that exists may be changed."""

    __slots__ = (
        "_body",
        "_declared",
        "create_only",
        "if_match",
        "if_match_id",
        "must_exist",
        "query",
        "raw",
        "request",
    )

    def __init__(self, request: web.Request, declared: Operation, query: Query) -> None:
        self.request = request
        self.query = query
        self.raw = b""
        self.if_match: int | None = None
        self.if_match_id: int | None = None
        self.must_exist = False
        self.create_only = False
        self._declared = declared
        self._body: B | None = None

    @property
    def path(self) -> Mapping[str, str]:
        """The parts of the address that the route names, such as `id`."""
        return self.request.match_info

    match_info = path  # as the request has it

    @property
    def body(self) -> B:
        """The body as the type that the operation declares. Raises Problem invalid-json, invalid-body."""
        if self._body is None:
            model = self._declared.body
            self._body = cast(B, strict.read(self.raw, model, _decoder(model), "invalid-body"))
        return self._body

    def json(self) -> Any:
        """The body as plain values, for changes that are merged. Raises Problem invalid-json."""
        return strict.parse(self.raw)

    def key(self, kind: str, *parts: bytes) -> Named:
        """The request's Idempotency-Key; `parts`: all that makes the request of this kind what it is."""
        return named(self.request, kind, *parts)

    @property
    def conditions(self) -> bytes:
        """If-Match as it was given, as a part of what the request is."""
        return self.request.headers.get("If-Match", "").strip().encode("utf-8", "surrogateescape")

    def not_modified(self, etag: str) -> bool:
        """Returns whether the reader of a GET has this version already (If-None-Match)."""
        return not_modified(self.request, etag)

    def must_not_exist(self) -> None:
        """Raises Problem exists: the job exists, and If-None-Match: * was given."""
        if self.create_only:
            raise Problem("exists", "If-None-Match: * was given, and the job exists; nothing was changed.")


async def parse_call(ctx: ApiContext, request: web.Request, declared: Operation) -> Call[Any]:
    """Raises Problem invalid-parameter, unsupported-media-type, too-large, request-timeout, invalid-json and
    invalid-body; where reads may have to wait, NoLeader, Overloaded and Problem behind."""
    query = check_operation(request, declared)
    call: Call[Any] = Call(request, declared, query)
    reads = request.method in ("GET", "HEAD")
    if not reads and declared.headers:
        headers = request.headers
        if "If-Match" in headers:
            tag, call.must_exist = if_match(request, of_job=declared.of_job), True
            if tag is not None:
                call.if_match, call.if_match_id = tag
        call.create_only = "If-None-Match" in headers and create_only(request)
    if declared.body is not None and declared.body_required:
        check_type(request, declared.media)
    if "namespace" in declared.query:
        check_namespace(query.text("namespace"))
    if "consistency" in declared.query:
        await fresh_enough(ctx, query)
    if declared.body is not None:
        await _read(ctx, call, declared)
    return call


class _Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """A body that cannot say anything."""


async def read_no_body(call: Call[None]) -> None:
    """Reads the body of a request that declares none, and refuses anything other than an empty object. Raises what
    `parse_call` raises."""
    strict.read(await _read_optional(call.request, BODY_MAX, (JSON,)), _Nothing, _decoder(_Nothing), "invalid-body")


async def _read(ctx: ApiContext, call: Call[Any], declared: Operation) -> None:
    limit = ctx.settings().body_max_bytes if declared.body_max is None else declared.body_max
    if declared.body_required:
        call.raw = await read_body(call.request, limit)
    else:
        call.raw = await _read_optional(call.request, limit, declared.media)
    if not isinstance(declared.body, dict) and _says_nothing(declared.body):
        _ = call.body


async def _read_optional(request: web.Request, limit: int, media: tuple[str, ...]) -> bytes:
    """Returns `{}` where there is no body. A type that pages of other origins may send without being asked (a form's,
    text/plain) is refused without a body, too."""
    raw = await read_body(request, limit)
    if raw or request.headers.get("Content-Type"):
        check_type(request, media)
    return raw or b"{}"


@cache
def _decoder(model: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(model)


@cache
def _says_nothing(model: Any) -> bool:
    return isinstance(model, type) and issubclass(model, msgspec.Struct) and not model.__struct_fields__
