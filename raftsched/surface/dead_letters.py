"""Dead letters: instances that failed for good."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, field

from raftsched.surface.enums import several_of
from raftsched.surface.kinds import action, listing
from raftsched.surface.operation import WRITES, Operation
from raftsched.surface.runs import FIELDS, InstanceOut, Refused
from raftsched.surface.scalars import InstanceId, Namespace, Text, Time, TimeText
from raftsched.surface.sdk import Arg, Sdk, record, typed_dict
from raftsched.surface.specials import partial


@typed_dict("DeadFilter", null=False)
class DeadFilterIn(msgspec.Struct, forbid_unknown_fields=True):
    """`from` and `to` are about the time since which it is a dead letter; `to` is not included."""

    job: Text | None = None
    namespace: Namespace | None = None
    name_prefix: Text | None = None
    from_: Time | None = field(default=None, name="from")
    to: Time | None = None


FILTERS = DeadFilterIn.__struct_encode_fields__


class RequeueIn(msgspec.Struct, forbid_unknown_fields=True):
    """Exactly one of ids, filter, all."""

    ids: Annotated[list[InstanceId], Meta(max_length=1_000)] | None = None
    filter: DeadFilterIn | None = None
    all: bool = False
    dry_run: bool = False
    cursor: Text | None = None


class DeadLetterOut(msgspec.Struct):
    """The part of a dead letter that comes before the instance in the same object."""

    dead_since: TimeText


@record("DeadLetter")
class DeadLetter(InstanceOut, kw_only=True):
    """An instance, and since when it is a dead letter."""

    dead_since: Time


class Requeued(msgspec.Struct):
    """`next`: the cursor of the request that goes on, null when all was looked at."""

    matched: int
    requeued: int
    refused: list[Refused]
    dry_run: bool
    next: str | None


class Discarded(msgspec.Struct):
    """`next`: the cursor of the request that goes on, null when all was looked at."""

    matched: int
    discarded: int
    refused: list[Refused]
    dry_run: bool
    next: str | None


LIST = listing(
    "dead_letters_list_all",
    "/v1/dead-letters",
    "List dead letters",
    DeadLetter,
    "A page of dead letters.",
    (*FILTERS, "order", "fields"),
    part=partial("DeadLetterPart", DeadLetter),
    schemas={"fields": several_of(("dead_since", *FIELDS))},
    codes=("not-found",),
    says="The newest first, unless ?order=asc. A page may be short while `next` says that there is more.",
    sdk=Sdk(
        "DeadLetters.list",
        ("*", Arg("**filters", "Unpack[DeadFilter]")),
        says="The newest first; `most` of them (None: all).",
    ),
)
REQUEUE = action(
    "dead_letters_requeue",
    "/v1/dead-letters/requeue",
    "Requeue dead letters",
    {200: Requeued},
    body=RequeueIn,
    codes=("not-found",),
    body_max=128 * 1024,
    role="editor",
    scope="checked",
    says='{"ids": [...]}, {"filter": {...}} or {"all": true}; with "dry_run" they are only counted. With an '
    "Idempotency-Key the request may be repeated: what has failed again since stays a dead letter.",
)
DISCARD = Operation(
    "dead_letters_discard",
    "DELETE",
    "/v1/dead-letters",
    "Discard dead letters",
    {200: Discarded},
    query=("ids", "all", "dry_run", "cursor", *FILTERS),
    headers=("Idempotency-Key",),
    codes=(*WRITES, "not-found", "idempotency-mismatch"),
    role="editor",
    says="?ids=ID,ID..., a filter as for the list, or ?all=true; with ?dry_run=true they are only counted. Their "
    "instances are kept as long as others that failed. With an Idempotency-Key the request may be repeated.",
)
