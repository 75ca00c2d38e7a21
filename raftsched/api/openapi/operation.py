"""Declarations of endpoints that are not operations of `raftsched.surface` yet, beside each handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from raftsched.api.serving import OPERATIONS
from raftsched.surface.operation import (
    ALWAYS,
    BODIES,
    BODY_MAX,
    HEALTH,
    JOB_BODIES,
    JSON,
    MERGE_PATCH,
    READS,
    TEXT,
    WRITES,
    AnyOf,
    Operation,
    PageOf,
    Reply,
    Role,
    Scope,
)

__all__ = [
    "ALWAYS",
    "BODIES",
    "BODY_MAX",
    "HEALTH",
    "JOB_BODIES",
    "JSON",
    "MERGE_PATCH",
    "OPERATIONS",
    "READS",
    "TEXT",
    "WRITES",
    "AnyOf",
    "H",
    "Operation",
    "PageOf",
    "Reply",
    "Role",
    "Scope",
    "operation",
]
H = TypeVar("H", bound=Callable[..., Awaitable[Any]])


def operation(
    summary: str,
    answers: Mapping[int, Any],
    *,
    query: Sequence[str] = (),
    required: Sequence[str] = (),
    headers: Sequence[str] = (),
    body: Any = None,
    body_required: bool = True,
    body_max: int | None = BODY_MAX,
    media: Sequence[str] = (JSON,),
    codes: Sequence[str] = (),
    of_job: bool = False,
    schemas: Mapping[str, Any] | None = None,
    streams: bool = False,
    changes_nothing: bool = False,
    role: Role | None = None,
    scope: Scope = "",
    work: bool = False,
    of_caller: bool = False,
    paced: bool = False,
    repeatable: bool = False,
    peers: bool = False,
) -> Callable[[H], H]:
    """Declares what a handler takes and answers. In `answers` a bare type stands for JSON of it, None for no body."""
    declared = Operation(
        "",  # as its route says: api.routes fills in id, method and path
        "GET",
        "",
        summary,
        answers,
        query=tuple(query),
        required=tuple(required),
        headers=tuple(headers),
        body=body,
        body_required=body_required,
        body_max=body_max,
        media=tuple(media),
        codes=tuple(codes),
        of_job=of_job,
        schemas=schemas or {},
        streams=streams,
        changes_nothing=changes_nothing,
        role=role,
        scope=scope,
        work=work,
        of_caller=of_caller,
        paced=paced,
        repeatable=repeatable,
        peers=peers,
    )

    def declare(handler: H) -> H:
        OPERATIONS[handler] = declared
        return handler

    return declare
