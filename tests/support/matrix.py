"""What each caller is to be answered at each route, by what the route says of itself: its role and its namespaces.

A new kind of caller is one more `Who`: `roles` says what he may do by namespace, and under None everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from raftsched.api.auth.access import role_of
from raftsched.api.auth.callers import ROLES
from raftsched.api.routes import ROUTES
from raftsched.api.serving import Route
from raftsched.core.ids import job_text
from raftsched.core.subjects.access import Role
from raftsched.surface.operation import HEALTH, Operation
from tests.support.places import BY_BODY, JOB, Place, body_of
from tests.support.tokens import As

NOWHERE = job_text(1)


@dataclass(frozen=True)
class Who:
    name: str
    ask: As
    roles: Mapping[str | None, str] = field(default_factory=dict)  # empty: nobody who is known
    shared: str = ""  # his role for what is in no namespace; empty: the highest of his roles

    def role_in(self, namespace: str | None) -> Role | None:
        said = self.roles.get(namespace, self.roles.get(None))
        return None if said is None else ROLES[said]  # type: ignore[index]

    @property
    def most(self) -> Role:
        return max(ROLES[role] for role in self.roles.values())  # type: ignore[index]

    @property
    def limited(self) -> bool:
        return None not in self.roles


@dataclass(frozen=True)
class Request:
    route: Route
    path: str
    namespace: str  # in which lies what the address leads to
    named: str | None  # the namespace that the request names
    body: Any
    headers: Mapping[str, str]

    @property
    def said(self) -> Operation:
        return self.route.operation

    def __str__(self) -> str:
        return f"{self.route.method} {self.path}{' by aiohttp' if self.headers else ''}"


def requests(place: Place) -> Iterator[Request]:
    """For each route: about what lies in "mine" and in "theirs", with and without ?namespace=. What is answered on the
    fast path is asked for both ways."""
    for route in ROUTES:
        said = route.operation
        if said.peers:
            continue  # for nobody who has a token
        for namespace in ("mine", "theirs"):
            path = place.address(route, namespace).replace("/tokens/none", f"/tokens/{NOWHERE}")
            if said.streams:
                path += "?follow=false"
            named = namespace if "{ns}" in route.path else None
            body = body_of(route)
            if (route.method, route.path) == ("POST", "/v1/jobs"):
                body = {**JOB, "namespace": namespace}
            elif route.path == "/v1/cluster/leader":
                body = {"to": "n1"}
            elif route.path == "/v1/cluster/access" and body is not None:
                body = {}
            ways: tuple[Mapping[str, str], ...] = ({}, {"X-Ordinary": "1"}) if route.path == "/v1/jobs" else ({},)
            for way in ways:
                yield Request(route, path, namespace, named, body, way)
                if "namespace" in said.query and named is None:
                    query = f"{path}{'&' if '?' in path else '?'}namespace={namespace}"
                    yield Request(route, query, namespace, namespace, body, way)


def wrong(request: Request, who: Who, status: int, answer: Any, *, locked: bool) -> str | None:
    """What is wrong with the answer; None: it is by the rules."""
    code = answer.get("code") if isinstance(answer, dict) else None
    wanted = _wanted(request, who, locked=locked)
    if wanted == "passes":
        good = status not in (401, 403)
    elif wanted == "elsewhere":
        good = status in (403, 404)
    elif wanted == "by body":
        good = status != 401
    else:
        good = code == wanted and status == (403 if wanted == "forbidden" else 401)
    return None if good else f"{who.name}: {request} -> {status} {code}, wanted: {wanted}"


def _wanted(request: Request, who: Who, *, locked: bool) -> str:
    said, needed = request.said, role_of(request.said)
    if locked and request.route.path not in HEALTH:
        return "passes" if who.name == "local" else "locked"
    if needed is None:
        return "passes"
    if not who.roles:
        return "unauthorized"
    if needed is Role.WORKER:
        return "passes" if who.most in (Role.WORKER, Role.ADMIN) else "forbidden"
    if who.most is Role.WORKER:
        return "passes" if said.of_caller else "forbidden"
    if not who.limited:
        return "passes" if who.most >= needed else "forbidden"
    if who.most < needed:
        return "forbidden"
    if request.named is not None:
        role = who.role_in(request.named)
        return "passes" if role is not None and role >= needed else "forbidden"
    if "namespace" in said.query or not said.scope:
        return "forbidden"  # goes over all, or over what is no namespace's
    if (request.route.method, request.route.path) in BY_BODY:
        return "by body"
    if said.scope == "shared":
        return "passes" if not who.shared or ROLES[who.shared] >= needed else "forbidden"  # type: ignore[index]
    role = who.role_in(request.namespace)
    return "passes" if role is not None and role >= needed else "elsewhere"
