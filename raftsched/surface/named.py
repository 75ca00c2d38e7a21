"""The operations on named things, such as queues and calendars: list, read, put, patch and delete, which are alike for
all kinds.

    QUEUES = Named("queues", "/v1/queues/{name}", "queue", QueueIn, QueueOut)
    LIST = QUEUES.list_all("List queues with limits", "By name.")
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from raftsched.surface.operation import (
    BODIES,
    BODY_MAX,
    JSON,
    MERGE_PATCH,
    READ,
    WRITES,
    Method,
    Operation,
    PageOf,
    Reply,
    Role,
    Scope,
)

_CONDITIONS = ("If-Match", "If-None-Match")


@dataclass(frozen=True)
class Named:
    """A kind of named things. `plural`: its name in operation ids and cursors. `path`: the address of one. `body`: the
    struct of a PUT, of at most `body_max` bytes; `patch_body`: the schema of a PATCH, where it is not that. `out`: the
    struct of an answer. `role`: of those who may change one."""

    plural: str
    path: str
    noun: str
    body: Any
    out: Any
    patch_body: Any = None
    body_max: int = BODY_MAX
    role: Role = "operator"
    scope: Scope = "shared"

    def list_all(self, summary: str, says: str, *, scope: Scope | None = None, **more: Any) -> Operation:
        answers = {200: Reply(PageOf(self.out), f"A page of {self.plural}.", ("Link",))}
        path = self.path.rpartition("/")[0]
        query = ("limit", "cursor", *READ)
        return self._operation("list_all", "GET", summary, says, answers, path=path, query=query, scope=scope, **more)

    def get(self, summary: str, says: str = "", *, scope: Scope | None = None, **more: Any) -> Operation:
        shown = Reply(self.out, f"The {self.noun}.", ("ETag",))
        answers = {200: shown, 304: Reply(None, "Not changed.", ("ETag",))}
        headers = ("If-None-Match",)
        return self._operation("get", "GET", summary, says, answers, query=READ, headers=headers, scope=scope, **more)

    def put(self, summary: str, says: str, *codes: str, **more: Any) -> Operation:
        answers = {201: Reply(self.out, "Created.", ("ETag", "Location")), 200: self._changed}
        more.update(body=self.body, body_max=self.body_max, headers=_CONDITIONS)
        problems = (*BODIES, *WRITES, "stale-revision", "exists", "not-possible", *codes)
        return self._operation("put", "PUT", summary, says, answers, codes=problems, **more)

    def patch(self, summary: str, says: str, *codes: str, **more: Any) -> Operation:
        more.update(body=self.patch_body or self.body, body_max=self.body_max, media=(JSON, MERGE_PATCH))
        problems = (*BODIES, *WRITES, "stale-revision", *codes)
        answers = {200: self._changed}
        return self._operation("patch", "PATCH", summary, says, answers, headers=("If-Match",), codes=problems, **more)

    def delete(self, summary: str, says: str, *codes: str, **more: Any) -> Operation:
        problems = (*WRITES, "stale-revision", *codes)
        more.update(headers=("If-Match",), codes=problems)
        return self._operation("delete", "DELETE", summary, says, {204: None}, **more)

    @property
    def _changed(self) -> Reply:
        return Reply(self.out, "As it is now.", ("ETag",))

    def _operation(
        self,
        name: str,
        method: Method,
        summary: str,
        says: str,
        answers: Mapping[int, Any],
        *,
        path: str = "",
        scope: Scope | None = None,
        **more: Any,
    ) -> Operation:
        return Operation(
            f"{self.plural}_{name}",
            method,
            path or self.path,
            summary,
            answers,
            role="viewer" if method == "GET" else self.role,
            scope=self.scope if scope is None else scope,
            says=says,
            **more,
        )
