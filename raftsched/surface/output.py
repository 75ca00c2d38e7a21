"""The output of runs: read, followed, searched, and copied from node to node."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import field

from raftsched.bounds import OUTPUT_PIECE_MAX
from raftsched.surface.operation import BODIES, READ, Operation, Reply
from raftsched.surface.scalars import Time, TimeText
from raftsched.surface.sdk import record, typed_dict

StreamName = Literal["stdout", "stderr"]

# Headers of an answer that is output.
ATTEMPT = "Raftsched-Attempt"  # whose output it is
OFFSET = "Raftsched-Offset"  # bytes of it before what is answered
TRUNCATED = "Raftsched-Output-Truncated"
SERVED_BY = "Raftsched-Served-By"
_HEADERS = (ATTEMPT, OFFSET, TRUNCATED, SERVED_BY)

PLACE = "([0-9]{1,9})\\.([0-9]{1,15})"  # the id of a piece: its attempt, and the offset of what follows
SEARCHED = ("q", "ignore_case", "stream", "job", "namespace", "from", "to", "limit", "cursor")

COPY = "application/vnd.raftsched.output-copy"
COPY_MAX = OUTPUT_PIECE_MAX + 1024  # bytes of a piece, and of what is said of it


@typed_dict("SearchFilter", null=False)
class SearchFilter(msgspec.Struct):
    """Parameters of a search in the output of instances. All that is given has to hold."""

    job: str
    namespace: str
    from_: Time = field(name="from")
    to: Time
    stream: StreamName


@record("OutputPiece", types={"stream": 'Literal["stdout", "stderr"]'})
class Piece(msgspec.Struct, omit_defaults=True):
    """A part of what one stream of an attempt printed, without anything of the other between."""

    offset: int  # bytes of both streams before it
    text: str
    stream: StreamName
    skipped: int = 0  # bytes just before it that are not told: not kept, or further back than `tail_bytes`


class More(msgspec.Struct):
    """As much was sent as was asked for, or as there is until now; the rest begins at this offset."""

    offset: int


class End(msgspec.Struct):
    """The attempt has ended, and all of its output was sent. Null: the instance ended without such an attempt."""

    attempt: int | None
    outcome: str | None
    exit_code: int | None
    truncated: int  # bytes left out in the middle


@record("FoundLine")
class FoundLineOut(msgspec.Struct):
    """A line that holds what was searched for. `offset`: bytes of the output before the line, as `offset` of the output
    counts them. `text`: the line, or the part around it of a long one."""

    line: int  # counted from 1
    offset: int
    text: str


@record("Found")
class OutputFoundOut(msgspec.Struct):
    """An attempt whose output holds the text, in these lines; `more`: in more lines than these."""

    instance_id: str
    attempt: int
    job_id: str
    namespace: str
    job_name: str | None
    scheduled_at: TimeText
    node: str
    lines: list[FoundLineOut]
    more: bool


@record("SilentNode")
class SilentNodeOut(msgspec.Struct):
    """A node whose output was not searched: so many outputs of those that were looked for, and why."""

    node: str
    outputs: int
    detail: str


@record("Searched", since={"next": None})
class OutputSearchOut(msgspec.Struct):
    """The newest instance comes first. `next`: there are more instances to be looked at, also where nothing was found
    in these. `outputs`, `bytes`: what was read. `silent`: nodes of which it was not."""

    items: list[OutputFoundOut]
    next: str | None
    outputs: int
    bytes: int
    silent: list[SilentNodeOut]


class CopyOut(msgspec.Struct):
    """So many bytes of this part of the segment are on the disk."""

    size: int


GET = Operation(
    "output_get",
    "GET",
    "/v1/instances/{id}/output",
    "Read the output of an instance",
    {
        200: Reply({"type": "string"}, "The output.", ("Accept-Ranges", *_HEADERS), "text/plain"),
        206: Reply(
            {"type": "string"},
            "The range that was asked for.",
            ("Accept-Ranges", "Content-Range", *_HEADERS),
            "text/plain",
        ),
    },
    query=("attempt", "stream", "offset", "tail", "tail_bytes", "limit_bytes", "follow", *READ),
    headers=("Range", "Last-Event-ID"),
    schemas={"Last-Event-ID": {"type": "string", "pattern": f"^({PLACE})?$"}},
    codes=("unsatisfiable-range", "output-gone", "output-unavailable", "too-many"),
    streams=True,
    role="viewer",
    scope="checked",
    says='With Accept: text/event-stream as server-sent events: {"offset", "text", "stream"}, and "skipped" where '
    "bytes before it are not sent; the id is the attempt and the offset after it, and continues at any node as "
    'Last-Event-ID. The last one is named "end", or "more" where the rest was not asked for. Offsets count what both '
    "streams printed.",
)
SEARCH = Operation(
    "instances_search",
    "GET",
    "/v1/instances:search",
    "Search in the output of instances",
    {200: Reply(OutputSearchOut, "The newest instance first.", ())},
    query=(*SEARCHED, *READ),
    required=("q",),
    codes=("not-found", "too-many"),
    role="viewer",
    says="Lines that hold `q`, as it is, of attempts that have ended; with `ignore_case` in whatever case. Each node "
    "reads what it has; after 64 MiB, 1,000 outputs or five seconds no other instance is begun, and `next` says where "
    'the following answer goes on. Ten lines of an output are answered. ?job takes an id, "namespace/name", or a name '
    "together with ?namespace.",
)
COPIES = Operation(
    "output_copies_put",
    "PUT",
    "/v1/nodes/{id}/output-copies",
    "Send a piece of a node's output",
    {200: CopyOut},
    query=("sha256",),
    required=("sha256",),
    body={"type": "string", "contentMediaType": COPY},
    body_max=COPY_MAX,
    media=(COPY,),
    codes=(*BODIES, "wrong-offset", "disk-full", "stopping"),
    role="admin",
    scope="shared",
    peers=True,
    says="Between nodes only: the node of the address sends what runs printed that it has, to be kept here as a second "
    "copy. Where a part of a segment does not go as far as the piece's offset, 409 wrong-offset says how far it goes. "
    "The same piece may be sent again.",
)
