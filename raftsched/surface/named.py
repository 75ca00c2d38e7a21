"""The operations on named things, such as queues and calendars: list, read, put, patch and delete, which are alike for
all kinds.

    QUEUES = Named("queues", "/v1/queues/{name}", "queue", QueueIn, QueueOut)
    LIST = QUEUES.list_all("List queues with limits", "By name.")
"""

from __future__ import annotations

import re
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
from raftsched.surface.sdk import Arg, Sdk

_CONDITIONS = ("If-Match", "If-None-Match")
_AS_IN_PUT = "`if_match` as in `put`."


@dataclass(frozen=True)
class Named:
    """A kind of named things. `plural`: its name in operation ids and cursors. `path`: the address of one. `body`: the
    struct of a PUT, of at most `body_max` bytes; `patch_body`: the schema of a PATCH, where it is not that. `out`: the
    struct of an answer. `role`: of those who may change one.

    `sdk`: the class of the SDK that has methods for it. They take its name, and what is put or patched as `given`, a
    `given_type`; they return a `record`, where that is not the class of `out`. Each says what the operation `tells`,
    and what the conditions mean."""

    plural: str
    path: str
    noun: str
    body: Any
    out: Any
    patch_body: Any = None
    body_max: int = BODY_MAX
    role: Role = "operator"
    scope: Scope = "shared"
    sdk: str = ""
    given: str = ""
    given_type: str = ""
    record: str = ""

    def list_all(
        self, summary: str, says: str, *, scope: Scope | None = None, tells: str = "", **more: Any
    ) -> Operation:
        answers = {200: Reply(PageOf(self.out), f"A page of {self.plural}.", ("Link",))}
        path = self.path.rpartition("/")[0]
        query = ("limit", "cursor", *READ)
        return self._operation(
            "list_all",
            "GET",
            summary,
            says,
            answers,
            path=path,
            query=query,
            scope=scope,
            **more,
            sdk=self._method("list", (), f"{tells}, at most `most` (None: all)."),
        )

    def get(
        self, summary: str, says: str = "", *, scope: Scope | None = None, tells: str = "", **more: Any
    ) -> Operation:
        shown = Reply(self.out, f"The {self.noun}.", ("ETag",))
        answers = {200: shown, 304: Reply(None, "Not changed.", ("ETag",))}
        headers = ("If-None-Match",)
        return self._operation(
            "get",
            "GET",
            summary,
            says,
            answers,
            query=READ,
            headers=headers,
            scope=scope,
            **more,
            sdk=self._method("get", (), f"Returns the {self.noun}. Raises NotFoundError: {tells}."),
        )

    def put(self, summary: str, says: str, *codes: str, tells: str = "", **more: Any) -> Operation:
        answers = {201: Reply(self.out, "Created.", ("ETag", "Location")), 200: self._changed}
        more.update(body=self.body, body_max=self.body_max, headers=_CONDITIONS)
        problems = (*BODIES, *WRITES, "stale-revision", "exists", "not-possible", *codes)
        return self._operation("put", "PUT", summary, says, answers, codes=problems, **more, sdk=self.put_method(tells))

    def patch(self, summary: str, says: str, *codes: str, tells: str = "", **more: Any) -> Operation:
        more.update(body=self.patch_body or self.body, body_max=self.body_max, media=(JSON, MERGE_PATCH))
        problems = (*BODIES, *WRITES, "stale-revision", *codes)
        answers = {200: self._changed}
        return self._operation(
            "patch",
            "PATCH",
            summary,
            says,
            answers,
            headers=("If-Match",),
            codes=problems,
            **more,
            sdk=self._method("patch", self._changing, f"{tells} {_AS_IN_PUT}"),
        )

    def delete(self, summary: str, says: str, *codes: str, tells: str = "", **more: Any) -> Operation:
        problems = (*WRITES, "stale-revision", *codes)
        more.update(headers=("If-Match",), codes=problems)
        return self._operation(
            "delete",
            "DELETE",
            summary,
            says,
            {204: None},
            **more,
            sdk=self._method("delete", ("*", "if_match"), f"{tells} {_AS_IN_PUT}"),
        )

    def put_method(self, tells: str) -> Sdk | tuple[()]:
        """Returns the method of the SDK for a PUT."""
        conditions = (
            'With `only_new` it must not be there yet, else ConflictError "exists". `if_match`: only while it is at '
            'this revision, else ConflictError "stale-revision".'
        )
        return self._method("put", ("*", "only_new", *self._changing[1:]), f"{tells} {conditions}")

    @property
    def _changing(self) -> tuple[str | Arg, ...]:
        return "*", "if_match", Arg(f"**{self.given}", f"Unpack[{self.given_type}]")

    def _method(self, name: str, args: tuple[str | Arg, ...], says: str) -> Sdk | tuple[()]:
        if not self.sdk:
            return ()
        (part,) = re.findall(r"{(\w+)}", self.path)
        own = () if name == "list" else (Arg("name", sent_as=part),)
        returns = "" if name == "delete" else self.record
        return Sdk(f"{self.sdk}.{name}", (*own, *args), says, returns=returns)

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
