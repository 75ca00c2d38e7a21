"""Secrets: values that jobs refer to by name, and that nobody can read back.

A value lies in its row, and in the log entry that put it there; sealed with a key that the tables do not hold, when the
cluster has one. A job refers to it as {"$secret": "name"}, in its own namespace, or {"$secret": "namespace/name"}; one
of another namespace has to be shared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from raftsched.core.tables import ReadView, Table, name_key

SECRET = "$secret"  # the name of a field, no secret  # nosec B105
VALUE_MAX = 8 * 1024  # bytes
SEALED_MAX = VALUE_MAX + 64  # with what sealing adds
SECRET_NAME_MAX = 128  # bytes
REFERENCES_MAX = 32  # of one job
_MARK = b'"$secret"'
_DOLLAR = ord("$")


class Secret(msgspec.Struct, array_like=True, kw_only=True):
    """One row of SECRETS."""

    namespace: str
    name: str
    revision: int  # greater with each change, and never used again
    value: bytes  # sealed when there is a nonce
    nonce: bytes = b""
    digest: bytes = b""  # of a sealed value under the same key: the same one again is no change
    shared: bool = False  # jobs of other namespaces may refer to it
    created_at_ms: int = 0
    modified_at_ms: int = 0

    def __repr__(self) -> str:
        return f"Secret({self.namespace}/{self.name})"


class PutSecret(msgspec.Struct, array_like=True, frozen=True, tag=82):
    """Creates the secret or gives it another value. `shared` None: as it is, not shared when it is new."""

    namespace: str
    name: str
    value: bytes
    nonce: bytes = b""
    digest: bytes = b""
    shared: bool | None = None
    if_revision: int | None = None  # refused unless it is there, at this revision
    if_none: bool = False  # refused when it is there

    def __repr__(self) -> str:
        return f"PutSecret({self.namespace}/{self.name})"


class DeleteSecret(msgspec.Struct, array_like=True, frozen=True, tag=83):
    """Refused while jobs refer to it, unless it is forced: their runs fail then."""

    namespace: str
    name: str
    if_revision: int | None = None
    force: bool = False


SecretCommand = PutSecret | DeleteSecret


class Reference(NamedTuple):
    namespace: str
    name: str
    pointer: str  # where it stands in the job

    @property
    def text(self) -> str:
        return f"{self.namespace}/{self.name}"


_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Secret)
_encode = msgspec.msgpack.Encoder().encode


def decode_secret(raw: bytes) -> Secret:
    secret: Secret = _decoder.decode(raw)
    return secret


def encode_secret(secret: Secret) -> bytes:
    return _encode(secret)


def target(namespace: str, text: str) -> tuple[str, str]:
    """(namespace, name) of what a job of this namespace means by the text."""
    other, slash, name = text.partition("/")
    return (other, name) if slash else (namespace, text)


def may_refer(raw: bytes) -> bool:
    """Whether it is worth looking for references in this JSON."""
    return _DOLLAR in raw and _MARK in raw  # one byte is looked for at once; most jobs have none of it


def references(namespace: str, body: bytes) -> list[Reference]:
    """Of a job: in its handler's env, headers and body, and anywhere in its params. Canonical JSON, as the API writes
    it; of anything else none."""
    if not may_refer(body):
        return []
    try:
        job = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return []
    return list(_of_job(namespace, job))


def references_in(namespace: str, params: bytes) -> list[Reference]:
    """Of the params of a run alone."""
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
    if wrong_in_secret(namespace, name) is not None:
        return None
    raw = view.get(Table.SECRETS, name_key(namespace, name))
    return None if raw is None else decode_secret(raw)


def missing(view: ReadView, namespace: str, found: list[Reference]) -> Iterator[tuple[Reference, str]]:
    """Of the references of a job, or a run, of this namespace those that lead nowhere, and why."""
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


def wrong_in_secret(namespace: str, name: str) -> str | None:
    """What is wrong and what would be right; None: nothing. Of the namespace only what would be no key."""
    if not 1 <= len(name.encode()) <= SECRET_NAME_MAX or "\0" in name or "/" in name:
        return f"a secret has a name of 1 to {SECRET_NAME_MAX} bytes, without / and NUL."
    if not 1 <= len(namespace.encode()) <= SECRET_NAME_MAX or "\0" in namespace:
        return "a secret is in a namespace."
    return None
