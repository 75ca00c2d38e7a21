"""Defines the errors that users meet: each with its stable code, HTTP status and exit code."""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import Literal, NamedTuple


class Exit(IntEnum):
    """Exit codes of the command line."""

    OK = 0
    ERROR = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    AUTH = 5
    UNAVAILABLE = 6
    TIMEOUT = 7


class Kind(NamedTuple):
    """The meaning of a code."""

    status: int  # HTTP
    title: str
    exit: Exit


KINDS: dict[str, Kind] = {
    "invalid-json": Kind(400, "The body is not JSON", Exit.ERROR),
    "invalid-request": Kind(400, "Malformed HTTP request", Exit.USAGE),
    "expectation-failed": Kind(417, "The Expect header cannot be met", Exit.USAGE),
    "invalid-parameter": Kind(400, "Invalid parameter or header", Exit.USAGE),
    "invalid-job": Kind(422, "The job is not valid", Exit.ERROR),
    "invalid-trigger": Kind(422, "The trigger is not valid", Exit.ERROR),
    "invalid-body": Kind(422, "The body is not valid", Exit.ERROR),
    "request-timeout": Kind(408, "Request timeout", Exit.TIMEOUT),
    "unsatisfiable-range": Kind(416, "Range not satisfiable", Exit.ERROR),
    "too-large": Kind(413, "Too large", Exit.ERROR),
    "unsupported-media-type": Kind(415, "Unsupported media type", Exit.ERROR),
    "unauthorized": Kind(401, "Authentication required", Exit.AUTH),
    "locked": Kind(401, "Locked until an admin exists", Exit.AUTH),
    "forbidden": Kind(403, "The token does not allow this", Exit.AUTH),
    "forbidden-host": Kind(403, "Host or Origin not allowed", Exit.AUTH),
    "not-found": Kind(404, "Not found", Exit.NOT_FOUND),
    "method-not-allowed": Kind(405, "Method not allowed", Exit.USAGE),
    "name-taken": Kind(409, "Name already taken", Exit.CONFLICT),
    "idempotency-mismatch": Kind(422, "Idempotency-Key used for another request", Exit.CONFLICT),
    "not-next": Kind(409, "Not the next run of the job", Exit.CONFLICT),
    "illegal-transition": Kind(409, "Not allowed in the current state", Exit.CONFLICT),
    "stale-revision": Kind(412, "Changed in the meantime", Exit.CONFLICT),
    "exists": Kind(412, "Already exists", Exit.CONFLICT),
    "membership-busy": Kind(409, "Another membership change is in progress", Exit.CONFLICT),
    "not-waiting": Kind(409, "No such node is waiting to join", Exit.CONFLICT),
    "no-such-member": Kind(404, "No such member", Exit.NOT_FOUND),
    "last-member": Kind(409, "The last voting member cannot be removed", Exit.CONFLICT),
    "not-possible": Kind(409, "Conflict with current state", Exit.CONFLICT),
    "too-many": Kind(429, "Limit reached", Exit.UNAVAILABLE),
    "rate-limited": Kind(429, "Too many requests", Exit.UNAVAILABLE),
    "in-use": Kind(409, "Still in use", Exit.CONFLICT),
    "output-gone": Kind(410, "Output no longer kept", Exit.NOT_FOUND),
    "wrong-offset": Kind(409, "The output does not end there", Exit.CONFLICT),
    "events-gone": Kind(410, "Events no longer kept", Exit.NOT_FOUND),
    "log-gone": Kind(410, "Log no longer kept", Exit.NOT_FOUND),
    "session-over": Kind(410, "The worker's session is over", Exit.CONFLICT),
    "output-unavailable": Kind(503, "The node that has the output does not answer", Exit.UNAVAILABLE),
    "no-leader": Kind(503, "No leader at the moment", Exit.UNAVAILABLE),
    "behind": Kind(503, "This node has not caught up", Exit.UNAVAILABLE),
    "overloaded": Kind(503, "Overloaded", Exit.UNAVAILABLE),
    "unknown-command": Kind(503, "Not all nodes know this command yet", Exit.UNAVAILABLE),
    "stopping": Kind(503, "This node is stopping", Exit.UNAVAILABLE),
    "unknown-outcome": Kind(504, "Outcome unknown", Exit.TIMEOUT),
    "disk-full": Kind(507, "The disk is full", Exit.UNAVAILABLE),
    "internal": Kind(500, "Internal error", Exit.ERROR),
    # answers between the rooms, not seen by users
    "stale": Kind(409, "Out of date", Exit.CONFLICT),
    "stale-defaults": Kind(409, "The namespace was changed in the meantime", Exit.CONFLICT),
    "duplicate": Kind(409, "Already applied", Exit.CONFLICT),
    "queue-paused": Kind(409, "The queue is paused", Exit.CONFLICT),
    "queue-full": Kind(409, "The queue is at its concurrency limit", Exit.CONFLICT),
    "queue-rate": Kind(409, "The queue is at its rate limit", Exit.CONFLICT),
    "quota-full": Kind(409, "The namespace is at its concurrency limit", Exit.CONFLICT),
    "quota-rate": Kind(409, "The namespace is at its rate limit", Exit.CONFLICT),
    "cluster-paused": Kind(409, "The cluster is paused", Exit.CONFLICT),
    "drained": Kind(409, "The node is drained", Exit.CONFLICT),
    "moved": Kind(409, "Leadership is being transferred", Exit.CONFLICT),
}


# Codes of requests that are not as the description of the API says, unless all places that are wrong have a code.
MALFORMED = frozenset({
    "expectation-failed",
    "invalid-body",
    "invalid-job",
    "invalid-json",
    "invalid-parameter",
    "invalid-request",
    "invalid-trigger",
    "method-not-allowed",
    "request-timeout",
    "unsupported-media-type",
})  # fmt: skip

Meaning = Literal[
    "circular",
    "inconsistent",
    "invalid-text",
    "never-due",
    "not-permitted",
    "out-of-range",
    "past",
    "repeated",
    "reserved",
    "unknown-reference",
]
# Why a place is wrong that is as the description of the API says. An entry of `errors` has it as `code`; one without a
# code breaks the description.
MEANINGS: dict[Meaning, str] = {
    "circular": "The job would wait for itself.",
    "inconsistent": "It does not go with the rest of the request, with its address, or with what is to be changed.",
    "invalid-text": "A template, or a rule of a worker, that cannot be used.",
    "never-due": "The trigger has no time to come.",
    "not-permitted": "It names something in a namespace that the token is not for.",
    "out-of-range": "A duration, a time, a size or a number of things is beyond its bounds.",
    "past": "A time that has to be ahead is past.",
    "repeated": "It is said before in another way.",
    "reserved": "The name is the cluster's own.",
    "unknown-reference": "It names something that is not there: a job, a calendar, a webhook, a secret, a time zone.",
}


def is_of_meaning(code: str, errors: Collection[str | None]) -> bool:
    """Returns whether a request is refused for what it means: it is as the description of the API says. `code`: that
    of the problem; `errors`: those of its places."""
    return code not in MALFORMED or (bool(errors) and all(one in MEANINGS for one in errors))


class RaftschedError(Exception):
    """An error with a stable code."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(detail or KINDS[code].title)
        self.code = code
        self.detail = detail or KINDS[code].title


class WrongOffset(RaftschedError):
    """A piece of output that does not begin where the node's copy ends, which is at `offset`. `ended`: the copy is
    whole, so that no piece can follow."""

    def __init__(self, offset: int, *, ended: bool = False) -> None:
        detail = f"This node has the output up to offset {offset}; go on from there."
        if ended:
            detail = f"The output has ended at offset {offset}: nothing more is taken. Only its end may be sent again."
        super().__init__("wrong-offset", detail)
        self.offset = offset


class NoLeader(RaftschedError):
    """Nothing was proposed."""

    def __init__(self, detail: str = "No leader at the moment; try again shortly.") -> None:
        super().__init__("no-leader", detail)


class UnknownOutcome(RaftschedError):
    """Proposed, but neither applied nor refused within the deadline: it may still come to pass."""

    def __init__(
        self, detail: str = "The request was passed on but not confirmed in time; it may still happen."
    ) -> None:
        super().__init__("unknown-outcome", detail)


class Overloaded(RaftschedError):
    def __init__(self, detail: str = "Too many requests are waiting; try again shortly.") -> None:
        super().__init__("overloaded", detail)


class StartupError(RaftschedError):
    """The node cannot start; the detail is one line for the operator."""

    def __init__(self, detail: str, exit: Exit = Exit.ERROR) -> None:
        super().__init__("internal", detail)
        self.exit = exit  # of a process that is there for the node
