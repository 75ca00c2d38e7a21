"""The sessions of remote workers: the messages between them and nodes, JSON over HTTP.

A worker opens a session, polls until it stops, and closes it. Each poll renews the lease, hands in reports and takes
runs; every call may be repeated, and any node answers. What a worker must do to keep "never two at once" is in
docs/guarantees.md. Lengths of time are integer milliseconds (`*_ms`), times are UTC milliseconds (`*_at_ms`): no worker
has to parse a date. Descriptions complete the sentence "must be ...".
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from raftsched import names
from raftsched.bounds import (
    BOOT_ID_MAX,
    DURATION_MAX_MS,
    ERROR_MAX,
    OUTPUT_MAX,
    POLL_MAX_MS,
    PROGRESS_TEXT_MAX,
    SERVED_MAX,
    SLOTS_MAX,
    TIME_MAX_MS,
    WEIGHT_MAX,
    WORKER_HANDLERS_MAX,
)
from raftsched.handlers import KINDS
from raftsched.surface.operation import BODIES, Operation, Reply
from raftsched.surface.scalars import Labels, Namespace, by_rule

RUNS_MAX = 500  # of one answer
REPORTS_MAX = 1_000  # of one poll
OUTPUT_INLINE_MAX = 64 * 1024  # characters of output that a report may carry itself
SECRET_MAX = 8 * 1024  # characters of a token
PRINTED_MAX = 100  # such pieces of a report, with no more characters together

Token = Annotated[int, Meta(ge=1, le=2**63 - 1, description="the token of a run that this session was given")]
Tokens = Annotated[list[Token], Meta(max_length=10 * REPORTS_MAX)]
At = Annotated[int, Meta(ge=0, le=TIME_MAX_MS, description="UTC milliseconds")]
Length = Annotated[int, Meta(ge=0, le=DURATION_MAX_MS, description="milliseconds")]
POLL_BODY_MAX = 4 * 1024 * 1024  # bytes
PIECE_MAX = 1024 * 1024  # bytes of output in one request
OFFSET_MAX = 2**53  # bytes of output
RAW = "application/octet-stream"
FRAMES = "application/vnd.raftsched.frames"
SESSION_SECRET = "Raftsched-Session-Secret"  # header  # nosec B105

CALL = "call:"
_HANDLERS = f'{", ".join(KINDS)}, or "{CALL}" and the name of a handler'

WorkerName = Annotated[str, by_rule(names.WORKER)]
Queue = Annotated[str, by_rule(names.QUEUE)]
HandlerOffered = Annotated[
    str,
    Meta(
        description=_HANDLERS,
        extra_json_schema={"pattern": f"^({'|'.join(KINDS)}|{CALL}{names.HANDLER.regex})$"},
    ),
]
UserOffered = Annotated[
    str,
    Meta(
        description='a namespace or "default", a colon, and a user',
        extra_json_schema={"pattern": f"^{names.NAMESPACE.regex}:({names.USER.regex})?$"},
    ),
]
_SERVED = Meta(max_length=SERVED_MAX, extra_json_schema={"minItems": 1})


class WorkerRules(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The commands, directories, functions and addresses that jobs may name at a worker; null: anything. Requests go to
    public addresses, and where `http_allow` and `http_deny` say otherwise. `env_allow`: the variables that jobs may
    set; null: none where `exec_allow` or `python_allow` restricts, or only handlers by name are called."""

    exec_allow: list[str] | None = None
    cwd_allow: list[str] | None = None
    python_allow: list[str] | None = None
    http_allow: list[str] = []
    http_deny: list[str] = []
    env_allow: list[str] | None = None  # not said then: nodes of earlier versions refuse what they do not know


class WorkerSessionIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Says what a worker is, when it opens a session. `queues`, `namespaces`: whose runs it takes; left out: all
    that its token allows. `handlers`: "exec", "shell", "python", "http", or "call:" and a name. `incarnation`: by
    showing the one of its earlier session again, the worker promises that nothing of that session runs any more, and
    that one ends at once; else it has to be over first. `opening`: rises with each request to open that an incarnation
    sends, its repeats too (the milliseconds since boot will do): one that comes late, after a later one opened a
    session, must not end that session. 0: not counted, and no session is replaced. `users`: as whom its jobs may ask to
    run, each with a namespace, or "default", and a colon before. `allowed`: what its jobs may name; null: anything."""

    name: WorkerName
    slots: Annotated[int, Meta(ge=1, le=SLOTS_MAX, description=f"an integer from 1 to {SLOTS_MAX:,}")] = 1
    weight: Annotated[int, Meta(ge=1, le=WEIGHT_MAX, description=f"an integer from 1 to {WEIGHT_MAX:,}")] = 1
    queues: Annotated[list[Queue], _SERVED] | None = None
    namespaces: Annotated[list[Namespace], _SERVED] | None = None
    labels: Labels = msgspec.field(default_factory=dict)
    handlers: Annotated[
        list[HandlerOffered],
        Meta(
            max_length=WORKER_HANDLERS_MAX,
            description=f"a list of handlers: {_HANDLERS}",
            extra_json_schema={"minItems": 1},
        ),
    ]
    incarnation: Annotated[str, Meta(max_length=128)] = ""
    opening: Annotated[int, Meta(ge=0, le=2**63 - 1, description="an integer from 0 to 2^63 - 1")] = 0
    version: Annotated[str, Meta(max_length=64)] = ""
    users: Annotated[list[UserOffered], Meta(max_length=WORKER_HANDLERS_MAX)] = msgspec.field(default_factory=list)
    allowed: WorkerRules | None = None


class WorkerSessionOut(msgspec.Struct, kw_only=True):
    """A session, and its lease, which counts from when the worker sent its request. The worker begins to end its runs
    `kill_before_ms` before the lease is over, and starts none with less than twice as much left. `session`: its number,
    "-" and a secret. The number goes into the addresses of the session's requests, all of it into their header
    Raftsched-Session-Secret; it is good with the token that opened the session, and with no other."""

    session: str
    name: str
    lease_ms: int
    ttl_ms: int  # what a poll renews the lease to at most
    kill_before_ms: int
    poll_ms: int  # the longest that a poll waits: with it the lease is renewed in time
    queues: list[str] | None
    namespaces: list[str] | None


Outcome = Literal["succeeded", "failed", "timed_out", "killed", "not_begun", "lost"]


Verdict = Literal["succeed", "retry", "fail", "cancel", "snooze"]
Exit = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1, description="an integer of 32 bits")]
Place = Annotated[int, Meta(ge=0, le=2**53, description="as the node answered it")]


class OutputPlace(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The place of an output that was sent before, as the node that took its end has answered it."""

    node: str
    segment: Place
    offset: Place
    size: Place
    sha256: str
    truncated: Place = 0


class Printed(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A piece of what a run printed to one stream, without anything of the other between."""

    stream: Literal["stdout", "stderr"]
    text: Annotated[str, Meta(max_length=OUTPUT_INLINE_MAX)]


class Report(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A run has started (no `outcome`), or nothing of it runs any more. "not_begun": it was never started, another may
    have it at once; "killed": it was ended, on request or because the worker stops; "lost": ended by somebody else.
    `verdict`: of one that "succeeded" or "failed", what the run itself says is to become of it; left out: what its job
    says of its `exit_code`, or of the `status` in its `result` where it is http. `delay_ms`: of a snooze, or what the
    answer of a server asks to wait (Retry-After). `progress` (0 to 100), `text`, `state` (what the next attempts get, 4
    KiB of JSON at most): what the run says of itself; without an outcome, that it goes on, and how. Say so no more than
    once in ten seconds of a run."""

    token: Token
    outcome: Outcome | None = None
    started_at_ms: At | None = None  # left out: not known; where it has just started, now
    ended_at_ms: At | None = None  # left out: now
    exit_code: Exit | None = None
    error: Annotated[str, Meta(max_length=ERROR_MAX)] | None = None
    result: Any = None
    # A text, or a list of them: all that it printed, in order.
    output: (
        OutputPlace
        | Annotated[str, Meta(max_length=OUTPUT_INLINE_MAX)]
        | Annotated[list[Printed], Meta(max_length=PRINTED_MAX)]
        | None
    ) = None
    verdict: Verdict | None = None
    delay_ms: Length | None = None
    progress: Annotated[int, Meta(ge=0, le=100, description="an integer from 0 to 100")] | None = None
    text: Annotated[str, Meta(max_length=PROGRESS_TEXT_MAX)] | None = None
    state: Any = None

    @property
    def says(self) -> bool:
        """Returns whether the run says something of itself."""
        return self.progress is not None or self.text is not None or self.state is not None


class PollIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`after`: the highest token that the worker has taken; runs with higher ones are given. `killing`: runs that it
    has been asked to end, and is ending. `pause_ms`, `trouble`: it can start nothing for so long, and why, in words;
    what comes nevertheless it reports as "not_begun"."""

    after: Annotated[int, Meta(ge=0, le=2**63 - 1, description="a token, or 0: an integer up to 2^63 - 1")] = 0
    wait_ms: Annotated[int, Meta(ge=0, le=POLL_MAX_MS, description=f"milliseconds, 0 to {POLL_MAX_MS:,}")] = (
        0  # for runs, where there is nothing to say at once
    )
    max_runs: Annotated[int, Meta(ge=0, le=RUNS_MAX, description=f"an integer from 0 to {RUNS_MAX}")] = RUNS_MAX
    reports: Annotated[list[Report], Meta(max_length=REPORTS_MAX)] = []
    killing: Tokens = []
    pause_ms: Annotated[int, Meta(ge=0, le=600_000, description="milliseconds, 0 to 600,000")] = 0
    trouble: Annotated[str, Meta(max_length=512)] = ""


class Shard(msgspec.Struct, kw_only=True):
    index: int
    count: int


class Run(msgspec.Struct, kw_only=True):
    """A run that the session was given; it is in the log. It has to be over `timeout_ms` after its start, and gets
    `grace_ms` between TERM and KILL. References to secrets in `handler` and `params` are replaced by values; `secrets`
    lists these, for the worker to keep them out of output and errors. Nodes keep `output_max_bytes` of what it prints,
    the first and the last half: more than that need not be kept here. `traceparent` is for a worker that makes a span
    of the run, and hands that one's on; `env` has it, too, unless the job names its own, for a worker that does not."""

    token: int  # the fencing token
    instance: str
    job: str
    job_name: str | None
    namespace: str
    queue: str
    priority: int
    attempt: int
    scheduled_at: str
    handler: dict[str, Any]
    params: dict[str, Any]
    timeout_ms: int
    grace_ms: int
    own_grace: bool = False  # the job says so itself: a worker that stops gives it no more
    env: dict[str, str]  # RAFTSCHED_..., beside the handler's own `env`
    secrets: list[str] = []
    user: str = ""  # as whom the job asks to run; "": as the worker says
    shard: Shard | None = None
    error: str | None = None  # why it cannot be run, whoever has it: report it as "failed", with these words
    output_max_bytes: int = OUTPUT_MAX
    traceparent: str | None = None  # the context of its trace (W3C Trace Context); null: this node does not trace
    tracestate: str | None = None


class RefusedReport(msgspec.Struct, kw_only=True):
    """A report that changes nothing. "stale": the attempt is over already, or is not this session's; it is the same
    whenever it is sent. "invalid": it is not as a report must be, and `detail` says where. The attempt is still the
    worker's: the end of its run is to be reported again, as "failed" with this detail as its `error`, or mended."""

    token: int
    code: str
    detail: str


class PollAnswer(msgspec.Struct, kw_only=True):
    """`lease_ms`: for so long the worker may run jobs, from when it sent this poll; 0: not renewed. `kill`: runs to be
    ended, those in `killing` left out. Reports that are not in `refused` are in the log; the others cost neither these
    nor the lease anything."""

    lease_ms: int
    runs: list[Run]
    kill: list[int]
    refused: list[RefusedReport]


class CloseIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Nothing of the session runs any more, and nothing will. `ran`: of the runs without a report, those that were
    started; the others count as never begun."""

    ran: Tokens = []


class BindIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`secret`: that of the token whose the session is until now. `incarnation`: as when it was opened."""

    secret: Annotated[str, Meta(min_length=1, max_length=SECRET_MAX)]
    incarnation: Annotated[str, Meta(max_length=BOOT_ID_MAX)] = ""


class UploadOut(msgspec.Struct, kw_only=True):
    """`offset`: what the node has, and where the next piece begins. `output`: at the end, what the report is to carry;
    null before, and when nothing was printed."""

    offset: int
    output: OutputPlace | None = None


_WRITES = ("no-leader", "overloaded", "stopping", "unknown-outcome")
_OUTPUT_CODES = ("session-over", "not-found", "wrong-offset", "too-many", "disk-full", "stopping")

OPEN = Operation(
    "worker_sessions_open",
    "POST",
    "/v1/worker-sessions",
    "Open a worker's session",
    {201: Reply(WorkerSessionOut, "The session, and its lease.", ("Location",), leads_to="/v1/workers/{name}")},
    body=WorkerSessionIn,
    body_max=256 * 1024,
    codes=(*BODIES, *_WRITES, "name-taken", "too-many"),
    role="worker",
    scope="shared",
    repeatable=True,
    work=True,
    says=(
        "A worker takes runs under a session, with any node. While another process works under the same name, or did a "
        "moment ago, the name is taken (409, and when to ask again). The lease counts from when the request was sent, "
        "so that an answer must not be given twice: who got none asks again, with a higher `opening`, and what the "
        "first request opened ends at once."
    ),
)

POLL = Operation(
    "worker_sessions_poll",
    "POST",
    "/v1/worker-sessions/{session}/poll",
    "Poll for a worker",
    {200: Reply(PollAnswer, "Runs to begin, runs to end, and for how long the worker may run any.")},
    headers=(SESSION_SECRET,),
    body=PollIn,
    body_max=POLL_BODY_MAX,
    codes=(*BODIES, *_WRITES, "not-found", "session-over", "too-many", "rate-limited", "disk-full"),
    role="worker",
    scope="shared",
    repeatable=True,
    paced=True,
    says=(
        "Renews the lease, hands in reports, takes runs, and waits for some if there are none. It may be sent again, "
        "to any node: the same runs are given until a poll says that they were taken (`after`), and reports that are "
        'known already change nothing. A report that is not as it must be is refused alone (`refused`, "invalid"), as '
        "long as the body is JSON and says whose the report is. 410: the session is over, and so must be all that runs "
        "under it."
    ),
)

BIND = Operation(
    "worker_sessions_bind",
    "POST",
    "/v1/worker-sessions/{session}/token",
    "Give a worker's session to another token",
    {204: Reply(None, "The session is that of the token of this request.")},
    headers=(SESSION_SECRET,),
    body=BindIn,
    body_max=64 * 1024,
    codes=(*BODIES, *_WRITES, "not-found", "session-over"),
    role="worker",
    scope="shared",
    repeatable=True,
    work=True,
    says=(
        "A worker that gets another token goes on with its session, and with what runs under it: it shows the new "
        "token as always, and the secret of the earlier one in the body. That one may have been revoked by then, or "
        "have expired, as long as the session is open. The new token has to be good for all that the session takes "
        "runs of. It may be sent again."
    ),
)

CLOSE = Operation(
    "worker_sessions_close",
    "POST",
    "/v1/worker-sessions/{session}/close",
    "Close a worker's session",
    {204: Reply(None, "The session is over.")},
    headers=(SESSION_SECRET,),
    body=CloseIn,
    body_required=False,
    body_max=512 * 1024,
    codes=(*BODIES, *_WRITES, "not-found"),
    role="worker",
    scope="shared",
    repeatable=True,
    says=(
        "Ends a session. What the worker had is given to others at once. It may be sent again: a session that is over "
        "stays so."
    ),
)

OUTPUT = Operation(
    "worker_output_put",
    "PUT",
    "/v1/worker-sessions/{session}/runs/{token}/output",
    "Send a piece of a run's output",
    {200: UploadOut},
    query=("offset", "stream", "end"),
    required=("offset",),
    headers=(SESSION_SECRET,),
    body={"type": "string", "contentMediaType": RAW},
    body_max=PIECE_MAX,
    media=(RAW, FRAMES),
    codes=(*BODIES, *_OUTPUT_CODES),
    schemas={"offset": {"type": "integer", "minimum": 0, "maximum": OFFSET_MAX}},
    role="worker",
    scope="shared",
    says=(
        "`offset` counts the bytes of both streams that were sent before; where it is not what the node has, 409 "
        "wrong-offset says in `offset` where to go on, which at another node is 0, or that the output has ended and "
        "nothing more is taken. The same piece may be sent again. application/octet-stream is output of one `stream`, "
        "stdout unless given. application/vnd.raftsched.frames is a row of pieces: the stream (one byte: 1 stdout, 2 "
        "stderr), the length (4 bytes, little endian), and so many bytes; stream 3 says in 8 bytes (little endian) how "
        "many bytes are left out there. `end`: nothing follows; the answer has what the report of the run's end is to "
        "carry. More than --output-max of the node is left out in the middle."
    ),
)
