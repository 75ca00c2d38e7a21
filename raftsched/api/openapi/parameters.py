"""Parameters of requests, as OpenAPI describes them: each query parameter and header means the same wherever it is
taken, unless the operation says otherwise."""

from __future__ import annotations

from typing import Any

from raftsched import names
from raftsched.api.http.requests import PAGE_DEFAULT, PAGE_MAX
from raftsched.api.jobs.moments import COUNT_DEFAULT, COUNT_MAX
from raftsched.api.runs.minutes import STEPS
from raftsched.api.runs.output_source import TAIL_BYTES_MIN, TAIL_MAX
from raftsched.surface.patterns import DURATION, INSTANCE_ID, JOB_ID, WORKER_SESSION, WORKER_SESSION_NUMBER
from raftsched.surface.runs import RECENT_JOBS_MAX
from raftsched.surface.worker_sessions import OFFSET_MAX, SESSION_SECRET

_FLAG = {"type": "string", "enum": ["true", "false"]}
_TIME = {"type": "string", "format": "date-time"}
_SPAN = {"type": "string", "format": "time-span", "pattern": DURATION}


def _whole(low: int, high: int, **more: Any) -> dict[str, Any]:
    return {"type": "integer", "minimum": low, "maximum": high, **more}


QUERY: dict[str, tuple[dict[str, Any], str]] = {
    "actor": ({"type": "string"}, "The name of a token, or its id; anonymous: nobody who showed one."),
    "after": (
        {"type": "string", "pattern": "^([0-9]{1,18}(\\.[0-9]{1,9})?|oldest)$"},
        "The id of an event, or an index of the log: what came after it. oldest: all that is kept.",
    ),
    "all": (_FLAG, "true: everything is meant; instead of a filter."),
    "attempt": (_whole(1, 1_000_000_000), "Which attempt; the newest unless given."),
    "by_day": (
        {"type": "string", "format": "iana-time-zone"},
        "A time zone: also how many times each of its days has, up to `to`.",
    ),
    "calendar": ({"type": "string"}, "Whose trigger uses this calendar."),
    "consistency": (
        {"type": "string", "enum": ["local", "leader"]},
        "leader: linearizable, all that was committed before is seen. local, the default: what this node has applied.",
    ),
    "count": (_whole(1, COUNT_MAX, default=COUNT_DEFAULT), "How many times."),
    "created_from": (_TIME, "Created at this time or later."),
    "created_to": (_TIME, "Created before this time."),
    "cursor": (
        {"type": "string", "minLength": 1},
        "Where the list goes on: `next` of the page before, which had the same filters.",
    ),
    "dead_letter": (_FLAG, "Only what is, or is not, a dead letter."),
    "dry_run": (_FLAG, "true: nothing is changed, only counted."),
    "end": (_FLAG, "true: nothing follows."),
    "failing": (
        _FLAG,
        "Jobs whose last run failed or timed out; one that was killed says nothing, then the run before it counts.",
    ),
    "fields": (
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "Only these fields of each item, so that long lists are light. All unless given.",
    ),
    "follow": (_FLAG, "true: the answer goes on as more comes, until the attempt ends."),
    "for": (_SPAN, "How long, such as 2h or 1d, from `from` on; instead of `to`."),
    "force": (_FLAG, "true: also while jobs refer to it."),
    "from": (_TIME, "From this time on."),
    "ids": (
        {"type": "array", "items": {"type": "string", "pattern": INSTANCE_ID}, "minItems": 1},
        "Ids of instances; instead of a filter.",
    ),
    "ignore_case": (_FLAG, "true: in whatever case it is written."),
    "job": ({"type": "string"}, "A job's id, `namespace/name`, or its name together with `namespace`."),
    "jobs": (
        {"type": "array", "items": {"type": "string", "pattern": JOB_ID}, "minItems": 1, "maxItems": RECENT_JOBS_MAX},
        "Ids of jobs.",
    ),
    "kind": ({"type": "string"}, "Only of this kind."),
    "label": ({"type": "string", "pattern": "^[^=]+=[\\s\\S]*$"}, "A label and its value, as key=value."),
    "late": (
        _FLAG,
        "Runs that began more than a second after they were due. Jobs that are late now: a run of theirs, or their "
        "next time, was due more than a second ago and has not begun, and waits for no condition.",
    ),
    "limit": (_whole(1, PAGE_MAX, default=PAGE_DEFAULT), "Items of a page."),
    "limit_bytes": (_whole(1, OFFSET_MAX), "So many bytes of output; of both streams where it comes as events."),
    "min_index": (
        _whole(0, 2**53),
        "Waits until this node has applied the log up to here: Raftsched-Index of an answer, to read what was written.",
    ),
    "name": ({"type": "string"}, "Exactly this name; not together with `name_prefix`."),
    "name_contains": ({"type": "string"}, "Names that hold this."),
    "name_prefix": ({"type": "string"}, "Names that begin with this; not together with `name`."),
    "namespace": ({"type": "string", "pattern": names.NAMESPACE.pattern}, "Only this namespace."),
    "next_from": (_TIME, "Whose next fire time is this or later."),
    "next_to": (_TIME, "Whose next fire time is before this."),
    "parent": (
        {"type": "string", "pattern": INSTANCE_ID},
        "Parts of the run with this id; goes without job, namespace, from and to.",
    ),
    "node": ({"type": "string"}, "Whose newest attempt is on this node."),
    "worker": ({"type": "string"}, "Whose newest attempt is on the remote worker of this name; with node, none is."),
    "offset": (_whole(0, 2**53), "Bytes to leave out at the beginning; not together with `tail`."),
    "operation": ({"type": "string"}, "The operationId of what was asked for."),
    "order": ({"type": "string", "enum": ["asc", "desc"]}, "asc: the oldest first; desc: the newest first."),
    "owner": ({"type": "string"}, "Exactly this owner."),
    "q": ({"type": "string", "minLength": 1, "maxLength": 1000}, "The text that is searched for, in one line."),
    "queue": ({"type": "string"}, "Exactly this queue."),
    "resource": ({"type": "string"}, "An address, its first part, such as queues, or the id of what it was about."),
    "sha256": ({"type": "string", "pattern": "^[0-9a-f]{64}$"}, "The digest of the body."),
    "state": ({"type": "array", "items": {"type": "string"}, "minItems": 1}, "One or more states."),
    "step": ({"type": "string", "enum": list(STEPS), "default": "1m"}, "The length of a step."),
    "stream": ({"type": "string", "enum": ["stdout", "stderr"]}, "One of both; as they came unless given."),
    "tail": (_whole(0, TAIL_MAX), "So many lines from the end; not together with `offset`."),
    "tail_bytes": (
        _whole(TAIL_BYTES_MIN, OFFSET_MAX),
        "Begins so many bytes before the end. As events it goes on there whenever the reader is further behind.",
    ),
    "to": (_TIME, "Up to this time, which is not included."),
    "type": ({"type": "array", "items": {"type": "string"}, "minItems": 1}, "One or more types, or their first parts."),
}

HEADERS: dict[str, tuple[dict[str, Any], str]] = {
    "Idempotency-Key": (
        {"type": "string", "pattern": "^[\\x21-\\x7e]{1,255}$"},
        "A name for this request: sent again under it, byte for byte, it is answered again and not done again; 422 "
        "when it is another one of its kind. Kept for an hour (idempotency_keep, idempotency_max in the settings).",
    ),
    "If-Match": (
        {"type": "string", "format": "revision-tag", "pattern": '^(\\*|"[0-9]{1,18}")$'},
        "The ETag of what is meant; 412 when it was changed since.",
    ),
    "If-None-Match": ({"type": "string", "enum": ["*"]}, "*: create only; 412 when it exists."),
    "Last-Event-ID": (
        {"type": "string", "pattern": "^([0-9]{1,18}(\\.[0-9]{1,9})?)?$"},
        "The id of what was read last: the stream goes on after it. Empty: as if it was not there.",
    ),
    "Range": (
        {"type": "string"},
        "One range of bytes, such as bytes=4096- (RFC 9110, section 14). Anything else is ignored, as it has it.",
    ),
}
HEADERS[SESSION_SECRET] = (
    {"type": "string", "pattern": WORKER_SESSION},
    "The `session` that the opening was answered with: a secret, which is good with the token that opened it alone.",
)
READ_TAGS = (
    {"type": "string"},
    "ETags that the caller has; 304 when one of them still holds. They stand for what was said, not for how it does.",
)
TAG_OF_A_NAME = (
    {"type": "string", "format": "job-tag", "pattern": f'^(\\*|"{JOB_ID[1:-1]}\\.[0-9]{{1,18}}")$'},
    "The ETag of the job that is meant, its id and its revision; 412 when it was changed since, or the name is that of "
    "another job now.",
)
TAG_OF_AN_ID = (
    {"type": "string", "format": "job-tag", "pattern": f'^(\\*|"({JOB_ID[1:-1]}\\.)?[0-9]{{1,18}}")$'},
    "The ETag of the job that is meant, its id and its revision, or its revision alone; 412 when it was changed since.",
)

PATH: dict[str, tuple[dict[str, Any], str]] = {  # named resources add theirs (resources.named)
    "jobs": ({"type": "string", "pattern": JOB_ID}, "A job's id."),
    "instances": ({"type": "string", "pattern": INSTANCE_ID}, "An instance's id."),
    "nodes": ({"type": "string", "pattern": names.NODE.pattern}, "A node's id."),
    "workers": ({"type": "string", "pattern": names.WORKER.pattern}, "The name of a remote worker."),
    "members": ({"type": "string", "pattern": names.NODE.pattern}, "A node's id."),
    "tokens": ({"type": "string", "pattern": JOB_ID}, "A token's id."),
    "operations": ({"type": "string", "pattern": JOB_ID}, "An operation's id."),
    "namespaces": ({"type": "string", "pattern": names.NAMESPACE.pattern}, "A namespace."),
    "worker-sessions": (
        {"type": "string", "pattern": WORKER_SESSION_NUMBER},
        f"The number of a session: what stands before the - in the header {SESSION_SECRET}. Without that header all of "
        "it, as workers before 0.3.0 send it; that goes away with a later release.",
    ),
    "name": ({"type": "string", "pattern": names.JOB.pattern}, "A job's name."),
    "runs": ({"type": "string", "pattern": "^[0-9]{1,19}$"}, "The token of a run that the session was given."),
}
PATH_DEFAULT: tuple[dict[str, Any], str] = ({"type": "string"}, "Which one.")

ANSWERED: dict[str, tuple[dict[str, Any], str]] = {
    "Raftsched-Leader": ({"type": "string"}, "The node that leads; empty when this node knows of none."),
    "Raftsched-Term": ({"type": "string", "pattern": "^[0-9]+$"}, "The term of the leader."),
    "Raftsched-Index": (
        {"type": "string", "pattern": "^[0-9]+$"},
        "Up to here in the log the answer shows what was applied.",
    ),
    "Raftsched-Stale": (
        {"type": "string", "enum": ["true"]},
        "The answer may be old: this node knows of no leader, or it did not answer. Else left out.",
    ),
    "ETag": ({"type": "string"}, "That of this version, to be sent as If-Match."),
    "Location": ({"type": "string"}, "The address of what was made."),
    "Link": ({"type": "string"}, 'The next page, rel="next", when there is more.'),
    "Retry-After": ({"type": "string", "pattern": "^[0-9]+$"}, "Seconds after which it is worth trying again."),
    "Accept-Ranges": ({"type": "string"}, "bytes: Range is understood."),
    "WWW-Authenticate": ({"type": "string"}, "How to say who asks (RFC 6750)."),
    "Content-Range": ({"type": "string"}, "Which bytes these are, and of how many."),
    "Raftsched-Snapshot-Index": (
        {"type": "string", "pattern": "^[0-9]+$"},
        "The entry of the log as of which the backup is.",
    ),
    "Content-Disposition": ({"type": "string"}, "attachment, with a name for the file."),
    "Raftsched-Attempt": (
        {"type": "string", "pattern": "^[0-9]+$"},
        "The attempt whose output it is. Left out where there was none yet.",
    ),
    "Raftsched-Offset": (
        {"type": "string", "pattern": "^[0-9]+$"},
        "Bytes of the output before what is answered. Left out where there was no attempt yet.",
    ),
    "Raftsched-Output-Truncated": (
        {"type": "string", "pattern": "^[0-9]+$"},
        "Bytes that were left out because the output was too long. Left out where none were.",
    ),
    "Raftsched-Served-By": (
        {"type": "string"},
        "The node that has the output, or `object store`. Left out where it is the one that answers.",
    ),
}
ALWAYS_ANSWERED = ("Raftsched-Leader", "Raftsched-Term", "Raftsched-Index")
ANY_MAY_ANSWER = (*ALWAYS_ANSWERED, "Raftsched-Stale")
