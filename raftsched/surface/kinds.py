"""Operations that are alike in much: actions, reads with an ETag, and pages of a list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raftsched.surface.operation import BODIES, READ, WRITES, AnyOf, Method, Operation, PageOf, Reply
from raftsched.surface.scalars import Nothing


def action(
    id: str,
    path: str,
    summary: str,
    answers: Mapping[int, Any],
    *,
    method: Method = "POST",
    body: Any = Nothing,
    if_match: bool = False,
    codes: tuple[str, ...] = (),
    **more: Any,
) -> Operation:
    """Returns a POST that may be sent again with an Idempotency-Key. `codes`: of problems, beside those of every write.
    An action that takes `Nothing` can be sent without a body."""
    headers = ("Idempotency-Key", "If-Match") if if_match else ("Idempotency-Key",)
    more.setdefault("body_required", body is not Nothing)
    problems = (*BODIES, *WRITES, *codes, "idempotency-mismatch")
    return Operation(id, method, path, summary, answers, headers=headers, body=body, codes=problems, **more)


def tagged_read(id: str, path: str, summary: str, out: Any, answer: str, **more: Any) -> Operation:
    """Returns a GET that answers with an ETag, and 304 to an If-None-Match that holds. `answer`: the words of its
    answer."""
    answers = {200: Reply(out, answer, ("ETag",)), 304: Reply(None, "Not changed.", ("ETag",))}
    more.setdefault("role", "viewer")
    return Operation(id, "GET", path, summary, answers, query=READ, headers=("If-None-Match",), **more)


def listing(
    id: str,
    path: str,
    summary: str,
    item: Any,
    answer: str,
    query: tuple[str, ...] = (),
    *,
    part: Any = None,
    **more: Any,
) -> Operation:
    """Returns a GET that answers with a page. `query`: parameters, beside those of every page. `part`: an item of which
    only some fields are asked for."""
    answers = {200: Reply(PageOf(item if part is None else AnyOf((item, part))), answer, ("Link",))}
    more.setdefault("role", "viewer")
    return Operation(id, "GET", path, summary, answers, query=(*query, "limit", "cursor", *READ), **more)
