"""The members as they run jobs. Drained, slots and labels can be said here, beside what each was started with."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from raftsched.bounds import LABEL_KEY_MAX, LABEL_VALUE_MAX, SLOTS_MAX
from raftsched.surface.cluster import DiskOut
from raftsched.surface.kinds import action, tagged_read
from raftsched.surface.operation import BODIES, JSON, MERGE_PATCH, READ, WRITES, Operation, PageOf, Reply
from raftsched.surface.scalars import Time
from raftsched.surface.sdk import Arg, Sdk, record

Slots = Annotated[
    int, Meta(ge=1, le=SLOTS_MAX, description=f"an integer from 1 to {SLOTS_MAX:,}; drain a node instead")
]


class NodeIn(msgspec.Struct, forbid_unknown_fields=True):
    """A change of what holds for a node; null: as the node itself says. A label that is null is taken out."""

    drained: bool | UnsetType | None = UNSET
    slots: Slots | UnsetType | None = UNSET
    labels: (
        Annotated[
            dict[
                str,
                Annotated[str, Meta(description="a string", extra_json_schema={"maxLength": LABEL_VALUE_MAX})] | None,
            ],
            Meta(extra_json_schema={"propertyNames": {"minLength": 1, "maxLength": LABEL_KEY_MAX}}),
        ]
        | UnsetType
        | None
    ) = UNSET


@record("Session", types={"opened_at": "datetime"})
class SessionOut(msgspec.Struct):
    """Its right to run jobs."""

    id: int
    open: bool
    opened_at: str


@record(
    "Allowed", since={**dict.fromkeys(("exec_allow", "cwd_allow", "python_allow")), "http_allow": [], "http_deny": []}
)
class AllowedOut(msgspec.Struct):
    """The commands, directories and addresses that jobs may name there. Null: anything. `http_allow` and `http_deny`
    are exceptions to the rule that requests go to public addresses only. `env_allow`: the variables that jobs may set;
    null: none where `exec_allow` or `python_allow` restricts, or only handlers by name are called."""

    exec_allow: list[str] | None
    cwd_allow: list[str] | None
    python_allow: list[str] | None
    http_allow: list[str]
    http_deny: list[str]
    env_allow: list[str] | None = None


@record("NodeDetail", since={"users": []})
class NodeDetail(msgspec.Struct):
    """A member as it runs jobs. `own_slots` and `own_labels` are those that it was started with; `slots` and `labels`
    hold. Null, or empty, of one that never ran. `limits_whole_runs`: a handler's limits.memory holds for all processes
    of a run together, not for each. `users`: as whom jobs may ask to run there, as "namespace:user"; "default" is for
    all that it does not name. `revision`: of what is said here about it; 0: nothing is. `trouble`: why it starts no
    runs now: it cannot start processes, or waits for those of an earlier run to end. `last_heartbeat_at`: when the
    leader got the newest word of its worker; null where no leader answers. `allowed`: what jobs may name there; null of
    one that never ran, or does not say. `disk`: null where no leader answers, but of this node. `runs`: false of one
    that was started with --no-run: it votes and serves the API. `weight`: of its slots, beside those of others."""

    id: str
    role: str
    voter: bool
    alive: bool
    http: str | None
    raft: str | None
    version: str | None
    drained: bool
    running: int
    slots: int
    own_slots: int | None
    labels: dict[str, str]
    own_labels: dict[str, str]
    handlers: list[str]
    limits_whole_runs: bool
    users: list[str]
    session: SessionOut | None
    revision: int = 0
    trouble: str | None = None
    last_heartbeat_at: Time | None = None
    allowed: AllowedOut | None = None
    disk: DiskOut | None = None
    runs: bool = True
    weight: int = 1


_REPLY = {200: Reply(NodeDetail, "As it is now.", ("ETag",))}
_CODES = ("no-such-member", "stale", "stale-revision")
_IF_MATCH = '`if_match`: only while what is said about it is this revision, else ConflictError "stale-revision".'

LIST = Operation(
    "nodes_list_all",
    "GET",
    "/v1/nodes",
    "List the nodes",
    {200: PageOf(NodeDetail)},
    query=READ,
    role="viewer",
    scope="shared",
    sdk=Sdk("ClusterNodes.list", says="Returns all members."),
)
GET = tagged_read(
    "nodes_get",
    "/v1/nodes/{id}",
    "Read a node",
    NodeDetail,
    "As it is now.",
    codes=("no-such-member",),
    scope="shared",
    says=(
        "The ETag is the revision of what was set here (drained, slots, labels); the state of the node changes without "
        "it."
    ),
    sdk=Sdk("ClusterNodes.get", says="Returns the member. NotFoundError: there is none of this name."),
)
PATCH = Operation(
    "nodes_patch",
    "PATCH",
    "/v1/nodes/{id}",
    "Change a node",
    _REPLY,
    headers=("If-Match",),
    body=NodeIn,
    media=(JSON, MERGE_PATCH),
    codes=(*BODIES, *WRITES, *_CODES),
    role="operator",
    scope="shared",
    says="RFC 7396 on what holds; null for slots, or for all labels: as the node itself says.",
    sdk=(
        Sdk(
            "ClusterNodes.set_labels",
            ("id", Arg("labels", "Mapping[str, str | None] | None", null=True), "*", "if_match"),
            says=(
                "Adds to the labels that hold; a value of None takes one out, None for all: those the node was started "
                f"with. {_IF_MATCH}"
            ),
        ),
        Sdk(
            "ClusterNodes.set_slots",
            ("id", Arg("slots", "int | None", null=True), "*", "if_match"),
            says=f"Sets its attempts at one time; None: as many as the node was started with. {_IF_MATCH}",
        ),
    ),
)
DRAIN = action(
    "nodes_drain",
    "/v1/nodes/{id}/drain",
    "Drain a node",
    _REPLY,
    if_match=True,
    codes=_CODES,
    role="operator",
    scope="shared",
    says="It takes nothing new; what runs there ends as it would. Also while the node is down.",
    sdk=Sdk("ClusterNodes.drain"),
)
UNDRAIN = action(
    "nodes_undrain",
    "/v1/nodes/{id}/undrain",
    "Undrain a node",
    _REPLY,
    if_match=True,
    codes=_CODES,
    role="operator",
    scope="shared",
    sdk=Sdk("ClusterNodes.undrain", says="Gives runs to the node again."),
)
