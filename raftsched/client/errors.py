"""What a request can end with besides its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class FieldError:
    """One bad place of the body: a JSON pointer ("" for all of it) and what would be right there."""

    pointer: str
    detail: str


class ClientError(RaftschedError):
    """A refusal by the cluster (`status` is the HTTP status), or no answer at all (`status` 0).

    Codes without an answer: "unreachable" (nothing was sent anywhere) and "unknown-outcome" (it was sent, and may have
    happened).
    """

    def __init__(self, code: str, detail: str, *, status: int = 0, errors: Sequence[FieldError] = ()) -> None:
        super().__init__(code, detail)
        self.status = status
        self.errors = tuple(errors)

    @property
    def exit(self) -> Exit:
        """The exit code of a command that ends with this."""
        if self.code == "unreachable":
            return Exit.UNAVAILABLE
        kind = KINDS.get(self.code)
        return kind.exit if kind is not None else _EXIT_OF_STATUS.get(self.status, Exit.ERROR)
