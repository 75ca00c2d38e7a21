"""Errors with which a request can end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raftsched.errors import KINDS, Exit, RaftschedError

_EXIT_OF_STATUS = {
    401: Exit.AUTH,
    403: Exit.AUTH,
    404: Exit.NOT_FOUND,
    408: Exit.TIMEOUT,
    409: Exit.CONFLICT,
    410: Exit.NOT_FOUND,
    412: Exit.CONFLICT,
    429: Exit.UNAVAILABLE,
    502: Exit.UNAVAILABLE,
    503: Exit.UNAVAILABLE,
    504: Exit.TIMEOUT,
    507: Exit.UNAVAILABLE,
}
_EXIT_OF_CODE = {
    "unreachable": Exit.UNAVAILABLE,
    "not-raftsched": Exit.UNAVAILABLE,
    "redirected": Exit.UNAVAILABLE,
    "insecure": Exit.AUTH,
    "no-token": Exit.AUTH,
    "untrusted": Exit.ERROR,
}


@dataclass(frozen=True)
class FieldError:
    """A wrong place in the body: a JSON pointer ("" for all of it), and what would be right there. `code`: why it is
    refused (raftsched.errors.MEANINGS); "": it is not as the API's description says."""

    pointer: str
    detail: str
    code: str = ""


class ClientError(RaftschedError):
    """A refusal by the cluster (`status` is the HTTP status), or no answer at all (`status` 0).

    Codes without an answer: "unreachable" (nothing was sent anywhere), "not-raftsched" (who answers is no node),
    "unknown-outcome" (it was sent, and may have happened), "insecure" (a token would have gone in clear), "no-token" (a
    file has none) and
    "untrusted" (the files of TLS cannot be used; nothing was sent).
    """

    def __init__(self, code: str, detail: str, *, status: int = 0, errors: Sequence[FieldError] = ()) -> None:
        super().__init__(code, detail)
        self.status = status
        self.errors = tuple(errors)

    @property
    def exit(self) -> Exit:
        """The exit code of a command that ends with this error."""
        if self.code in _EXIT_OF_CODE:
            return _EXIT_OF_CODE[self.code]
        kind = KINDS.get(self.code)
        return kind.exit if kind is not None else _EXIT_OF_STATUS.get(self.status, Exit.ERROR)


class InvalidError(ClientError):
    """The request is wrong, and would be wrong again: 400, 413, 415, 422. `errors` names the wrong places."""


class AuthError(ClientError):
    """A token is missing, or this one does not suffice: 401, 403."""


class NotFoundError(ClientError):
    """The thing does not exist, or not any more: 404, 410."""


class ConflictError(ClientError):
    """Not possible in this state, or somebody changed the thing meanwhile: 409, 412."""


class UnavailableError(ClientError):
    """Nothing was done: no node answers, there is no leader, all are overloaded, or the disk is full (503, 507, status
    0)."""


class NotRaftschedError(ClientError):
    """Somebody else answers at the address: nothing was done."""


class UnknownOutcomeError(ClientError):
    """Nobody knows whether it was done (504, or no answer)."""


_KIND_OF_STATUS: dict[int, type[ClientError]] = {
    **dict.fromkeys((400, 413, 415, 422), InvalidError),
    **dict.fromkeys((401, 403), AuthError),
    **dict.fromkeys((404, 410), NotFoundError),
    **dict.fromkeys((409, 412), ConflictError),
    **dict.fromkeys((429, 502, 503, 507), UnavailableError),
    504: UnknownOutcomeError,
}


def error_of(status: int, reason: str, raw: bytes, said: str = "") -> ClientError:
    """Returns the error in an answer's body: problem+json (RFC 9457), or anything else as far as it can be read.
    `said`: the words for what is no answer of a node; empty: it is one."""
    if said:
        first = raw.decode("utf-8", "replace").strip().split("\n", 1)[0][:200].strip()
        if first and first[0] not in "<{" and first.isprintable():  # a page says nothing in its first line
            said += f" It says: {first}"
        return _KIND_OF_STATUS.get(status, ClientError)(f"http-{status}", said, status=status)
    try:
        problem = json.loads(raw)
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        first = raw.decode("utf-8", "replace").strip().split("\n", 1)[0][:200]
        detail = f"{status} {reason}{': ' if first else ''}{first}"
        return _KIND_OF_STATUS.get(status, ClientError)(f"http-{status}", detail, status=status)
    return error_of_problem(status, reason, problem)


def error_of_problem(status: int, reason: str, problem: Mapping[str, Any]) -> ClientError:
    """Returns the error of a decoded problem: a body, or an item of a batch."""
    code = problem.get("code") or str(problem.get("type", "")).rpartition(":")[2] or f"http-{status}"
    detail = problem.get("detail") or problem.get("title") or f"{status} {reason}".rstrip()
    fields = problem.get("errors")
    errors = [
        FieldError(
            str(e.get("pointer") or e.get("parameter") or ""), str(e.get("detail", "")), str(e.get("code") or "")
        )
        for e in (fields if isinstance(fields, list) else [])
        if isinstance(e, dict)
    ]
    kind = _KIND_OF_STATUS.get(status, ClientError)
    return kind(str(code), str(detail), status=status, errors=errors)
