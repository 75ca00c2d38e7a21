"""Errors as RFC 9457 problem details (application/problem+json).

`type` is stable (`urn:raftsched:problem:<code>`, the code again in `code`), `errors` names each bad field by its JSON
pointer (RFC 6901), or each bad query parameter by its name (`parameter`), and says what would be right. A place that is
as the description of the API says, and is refused for what it means, has a `code` of its own. All codes are in
`raftsched.errors`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec
from aiohttp import web

from raftsched.bounds import OutOfRange
from raftsched.core.commands import Rejected
from raftsched.errors import KINDS, MEANINGS, Meaning, RaftschedError, WrongOffset

MEDIA_TYPE = "application/problem+json"
ERRORS_MAX = 100  # reported of one request
_RETRY_AFTER_S = {"no-leader": "1", "overloaded": "1", "stopping": "1", "behind": "1", "too-many": "1"}


class FieldError(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error at one place of the body (`pointer`, "" for all of it), and what would be right. `code`: why it is
    refused; None: it is not as the description of the API says."""

    pointer: str
    detail: str
    code: Meaning | None = None


class Combination(FieldError, frozen=True):
    """Fields that the description lets stand in no body together; see `of_a_change`."""


class ParameterError(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error of a query parameter, and what would be right. `code`: as of a FieldError."""

    parameter: str
    detail: str
    code: Meaning | None = None


class ProblemBody(msgspec.Struct, omit_defaults=True):
    """The JSON of a problem."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: Sequence[FieldError | ParameterError] = ()
    offset: int | None = None  # with wrong-offset: where the node's copy of the output ends


class Problem(RaftschedError):
    """Answers the request with a problem."""

    def __init__(
        self,
        code: str,
        detail: str = "",
        errors: Sequence[FieldError | ParameterError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        if not detail and errors:
            first = errors[0]
            detail = f"{_place(first)} {first.detail}"
            detail += "" if detail.endswith("?") else "."
            if len(errors) > 1:
                detail += f" And {len(errors) - 1} more."
        super().__init__(code, detail)
        self.errors = tuple(errors[:ERRORS_MAX])
        self.headers = dict(headers or {})
        self.actor = ""  # name of the token that is refused, where the refusal is the first to know it


def _place(error: FieldError | ParameterError) -> str:
    if isinstance(error, ParameterError):
        return f'The parameter "{error.parameter}"'
    return error.pointer or "The body"


def pointer(*parts: str | int) -> str:
    """RFC 6901."""
    return "".join("/" + str(p).replace("~", "~0").replace("/", "~1") for p in parts)


def unread(place: str, error: ValueError) -> FieldError:
    """Returns the error of a text that was not understood."""
    return FieldError(place, str(error), code_of(error))


def code_of(error: ValueError) -> Meaning | None:
    """Returns why a text is refused; None: it is not as the description of the API says."""
    return "out-of-range" if isinstance(error, OutOfRange) else None


@contextmanager
def of_a_change() -> Iterator[None]:
    """Within it a value is checked that a change was merged into: what the description lets stand in no body together
    may be there by the change and by what was there before."""
    try:
        yield
    except Problem as problem:
        if not any(isinstance(error, Combination) for error in problem.errors):
            raise
        errors = [
            FieldError(e.pointer, e.detail, "inconsistent") if isinstance(e, Combination) else e for e in problem.errors
        ]
        raise Problem(problem.code, problem.detail, errors, problem.headers) from None


def body_of(error: RaftschedError) -> ProblemBody:
    kind = KINDS[error.code]
    return ProblemBody(
        type=f"urn:raftsched:problem:{error.code}",
        title=kind.title,
        status=kind.status,
        code=error.code,
        detail=error.detail.encode("utf-8", "replace").decode(),  # it may quote a header, whose bytes are anything
        errors=error.errors if isinstance(error, Problem) else (),
        offset=error.offset if isinstance(error, WrongOffset) else None,
    )


def retry_after(error: RaftschedError) -> str | None:
    """Seconds after which it is worth trying again."""
    return _RETRY_AFTER_S.get(error.code)


def answer(error: RaftschedError) -> web.Response:
    body = body_of(error)
    response = web.Response(body=msgspec.json.encode(body), status=body.status, headers={"Content-Type": MEDIA_TYPE})
    wait = retry_after(error)
    if wait is not None:
        response.headers["Retry-After"] = wait
    if isinstance(error, Problem):
        response.headers.update(error.headers)
    return response


def from_rejected(rejected: Rejected) -> RaftschedError:
    """Returns the problem for what apply refused. A code that errors.py does not know would be a bug, and is shown as
    one."""
    if rejected.pointer is not None:
        meaning = next((code for code in MEANINGS if code == rejected.meaning), None)
        return Problem(rejected.code, errors=[FieldError(rejected.pointer, rejected.detail, meaning)])
    if rejected.code in KINDS:
        return RaftschedError(rejected.code, rejected.detail)
    return RaftschedError("internal", f"{rejected.code}: {rejected.detail}")
