"""Declarations of operations that many endpoints share: actions, reads with an ETag, and pages of a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from raftsched.api.http.requests import READ
from raftsched.api.openapi.operation import BODIES, WRITES, AnyOf, H, PageOf, Reply, Role, Scope, operation
from raftsched.surface.scalars import Nothing


def action(
    summary: str,
    answers: Mapping[int, Any],
    *,
    body: Any = Nothing,
    if_match: bool = False,
    codes: Sequence[str] = (),
    **more: Any,
) -> Callable[[H], H]:
    """Declares a POST that may be sent again with an Idempotency-Key. `codes`: of problems, beside those of every
    write. An action that takes `Nothing` can be sent without a body."""
    headers = ("Idempotency-Key", "If-Match") if if_match else ("Idempotency-Key",)
    more.setdefault("body_required", body is not Nothing)
    problems = (*BODIES, *WRITES, *codes, "idempotency-mismatch")
    return operation(summary, answers, headers=headers, body=body, codes=problems, **more)


def tagged_read(
    summary: str, out: Any, says: str, *, codes: Sequence[str] = (), role: Role = "viewer", scope: Scope = ""
) -> Callable[[H], H]:
    """Declares a GET that answers with an ETag, and 304 to an If-None-Match that holds."""
    answers = {200: Reply(out, says, ("ETag",)), 304: Reply(None, "Not changed.", ("ETag",))}
    return operation(summary, answers, query=READ, headers=("If-None-Match",), codes=codes, role=role, scope=scope)


def listing(
    summary: str,
    item: Any,
    says: str,
    query: Sequence[str] = (),
    *,
    part: Any = None,
    role: Role = "viewer",
    **more: Any,
) -> Callable[[H], H]:
    """Declares a GET that answers with a page. `query`: parameters, beside those of every page. `part`: an item of
    which only some fields are asked for."""
    answers = {200: Reply(PageOf(item if part is None else AnyOf((item, part))), says, ("Link",))}
    return operation(summary, answers, query=(*query, "limit", "cursor", *READ), role=role, **more)
