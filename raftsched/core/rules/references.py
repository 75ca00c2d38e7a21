"""Finds references of jobs to secrets: {"$secret": "name"}, a secret of the job's own namespace, or {"$secret":
"namespace/name"}. One of another namespace has to be shared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from raftsched.core import rows
from raftsched.core.subjects.secret import Secret, secret_name_error
from raftsched.core.tables import ReadView

SECRET = "$secret"  # the name of a field, no secret  # nosec B105
REFERENCES_MAX = 32  # of one job
_MARK = b'"$secret"'
_DOLLAR = ord("$")


class Reference(NamedTuple):
    namespace: str
    name: str
    pointer: str  # where it stands in the job

    @property
    def text(self) -> str:
        return f"{self.namespace}/{self.name}"


def target(namespace: str, text: str) -> tuple[str, str]:
    """Returns (namespace, name) of the secret that the text means in a job of this namespace."""
    other, slash, name = text.partition("/")
    return (other, name) if slash else (namespace, text)


def may_refer(raw: bytes) -> bool:
    """Returns whether this JSON may hold references."""
    return _DOLLAR in raw and _MARK in raw  # one byte is looked for at once; most jobs have none of it


def references(namespace: str, body: bytes) -> list[Reference]:
    """Returns the references of a job: in its handler's env, headers and body, and anywhere in its params. The body is
    canonical JSON, as the API writes it; anything else has none."""
    if not may_refer(body):
        return []
    try:
        job = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return []
    return list(_of_job(namespace, job))


def references_in(namespace: str, params: bytes) -> list[Reference]:
    """Returns the references in the params of a run."""
    if not may_refer(params):
        return []
    try:
        value = msgspec.json.decode(params)
    except (ValueError, RecursionError):
        return []
    return list(_anywhere(namespace, value, "/params"))


def _of_job(namespace: str, job: Any) -> Iterator[Reference]:
    if not isinstance(job, dict):
        return
    handler = job.get("handler")
    if isinstance(handler, dict):
        http = handler.get("http")
        places = [("/handler/env", handler.get("env"))]
        if isinstance(http, dict):
            places.append(("/handler/http/headers", http.get("headers")))
            yield from _here(namespace, http.get("body"), "/handler/http/body")
        for at, values in places:
            if isinstance(values, dict):
                for key, value in values.items():
                    yield from _here(namespace, value, at + _part(key))
    yield from _anywhere(namespace, job.get("params"), "/params")


def _here(namespace: str, value: Any, at: str) -> Iterator[Reference]:
    if isinstance(value, dict) and isinstance(value.get(SECRET), str):
        yield Reference(*target(namespace, value[SECRET]), at)


def _anywhere(namespace: str, value: Any, at: str) -> Iterator[Reference]:
    waiting = [(value, at)]
    while waiting:
        one, place = waiting.pop()
        if isinstance(one, dict):
            if isinstance(one.get(SECRET), str):
                yield from _here(namespace, one, place)
            else:
                waiting += [(item, place + _part(key)) for key, item in one.items()]
        elif isinstance(one, list):
            waiting += [(item, f"{place}/{i}") for i, item in enumerate(one)]


def _part(key: str) -> str:
    return "/" + key[:128].replace("~", "~0").replace("/", "~1")


def find_secret(view: ReadView, namespace: str, name: str) -> Secret | None:
    if secret_name_error(namespace, name) is not None:
        return None
    return rows.SECRETS.get(view, namespace, name)


def missing(view: ReadView, namespace: str, found: list[Reference]) -> Iterator[tuple[Reference, str]]:
    """Yields the references of a job, or a run, of this namespace that lead nowhere, and why."""
    if len(found) > REFERENCES_MAX:
        yield found[REFERENCES_MAX], f"is one secret too many; a job refers to {REFERENCES_MAX} at most"
    for reference in found[:REFERENCES_MAX]:
        secret = find_secret(view, reference.namespace, reference.name)
        if reference.namespace == namespace:
            if secret is None:
                yield reference, f'refers to the secret "{reference.text[:200]}", which does not exist; PUT it first'
        elif secret is None or not secret.shared:
            yield (
                reference,
                f'refers to the secret "{reference.text[:200]}", which does not exist, or is not shared with other '
                "namespaces",
            )
