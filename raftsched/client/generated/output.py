"""Made from surface/output.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypedDict

import msgspec

from raftsched.client.moments import Moment

StreamName = Literal["stdout", "stderr"]


class OutputPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A part of what one stream of an attempt printed, without anything of the other between."""

    offset: int  # bytes of both streams before it
    text: str
    stream: Literal["stdout", "stderr"]
    skipped: int = 0  # bytes just before it that are not told: not kept, or further back than `tail_bytes`


class FoundLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that holds what was searched for. `offset`: bytes of the output before the line, as `offset` of the output
    counts them. `text`: the line, or the part around it of a long one."""

    line: int  # counted from 1
    offset: int
    text: str


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt whose output holds the text, in these lines; `more`: in more lines than these."""

    instance_id: str
    attempt: int
    job_id: str
    namespace: str
    job_name: str | None
    scheduled_at: datetime
    node: str
    lines: list[FoundLine]
    more: bool


class SilentNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node whose output was not searched: so many outputs of those that were looked for, and why."""

    node: str
    outputs: int
    detail: str


class Searched(msgspec.Struct, frozen=True, kw_only=True):
    """The newest instance comes first. `next`: there are more instances to be looked at, also where nothing was found
    in these. `outputs`, `bytes`: what was read. `silent`: nodes of which it was not."""

    items: list[Found]
    next: str | None = None
    outputs: int
    bytes: int
    silent: list[SilentNode]


# Parameters of a search in the output of instances. All that is given has to hold.
SearchFilter = TypedDict(
    "SearchFilter",
    {
        "job": str,
        "namespace": str,
        "from": Moment,
        "to": Moment,
        "stream": StreamName,
    },
    total=False,
)
