"""The OpenID Connect issuer whose tokens are taken beside those of the cluster."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from raftsched.bounds import TOKEN_NAMESPACES_MAX
from raftsched.surface.kinds import tagged_read
from raftsched.surface.operation import BODIES, WRITES, Operation, Reply
from raftsched.surface.scalars import Namespace
from raftsched.surface.sdk import Arg, Sdk

RULES_MAX = 200
ALGORITHMS_MAX = 10

PersonRole = Literal["viewer", "editor", "operator", "admin"]  # workers have tokens of the cluster's own

Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
USUAL: tuple[Algorithm, ...] = ("RS256", "ES256")

_ISSUER = r"^https://[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,4})?(/[A-Za-z0-9._~/-]*)?$"
Address = Annotated[
    str,
    Meta(
        description="https://..., without query and fragment", extra_json_schema={"pattern": _ISSUER, "maxLength": 512}
    ),
]
Claim = Annotated[
    str,
    Meta(
        description='the name of a claim; of one that lies within others, with dots between: "realm_access.roles"',
        extra_json_schema={"minLength": 1, "maxLength": 128},
    ),
]
Word = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 256})]


class OidcRule(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A rule that gives a role to tokens with this value in the claim, alone or in its list: in these namespaces, or,
    without any, in all and for what is in none."""

    claim: Claim
    value: Word
    role: PersonRole
    namespaces: (
        Annotated[list[Namespace], Meta(max_length=TOKEN_NAMESPACES_MAX, extra_json_schema={"minItems": 1})] | None
    ) = None


class OidcIn(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`issuer`: as it stands in its tokens (`iss`). `audience`: whom its tokens are for (`aud`). `client_id`: whom they
    are given to (`azp`), where they say so. `rules`: all that fit count; whom none fits is refused. `username_claim`:
    shown beside the subject, and nothing else."""

    issuer: Address
    audience: Word
    rules: Annotated[list[OidcRule], Meta(max_length=RULES_MAX, extra_json_schema={"minItems": 1})]
    client_id: Word | None = None
    username_claim: Claim | None = None
    algorithms: Annotated[list[Algorithm], Meta(max_length=ALGORITHMS_MAX, extra_json_schema={"minItems": 1})] = (
        msgspec.field(default_factory=lambda: [*USUAL])
    )


class OidcOut(msgspec.Struct):
    """`revision`: greater with each change; tokens that were taken before are looked at anew."""

    issuer: str
    audience: str
    rules: list[OidcRule]
    client_id: str | None
    username_claim: str | None
    algorithms: list[Algorithm]
    revision: int


GET = tagged_read(
    "oidc_get",
    "/v1/cluster/oidc",
    "Read the OpenID Connect issuer",
    OidcOut,
    "As it is.",
    codes=("not-found",),
    role="admin",
    says="404 when no issuer is set.",
    sdk=Sdk(
        "Cluster.oidc",
        (),
        "The issuer whose tokens are taken, and the rules by which they give roles. NotFoundError: none are.",
        returns="dict[str, Any]",
    ),
)
PUT = Operation(
    "oidc_put",
    "PUT",
    "/v1/cluster/oidc",
    "Set the OpenID Connect issuer",
    {200: Reply(OidcOut, "As it is now.", ("ETag",))},
    headers=("If-Match",),
    body=OidcIn,
    codes=(*BODIES, *WRITES, "not-possible", "stale-revision", "not-found"),
    role="admin",
    says="Replaces the whole setting. It applies on each node from the moment the node has applied it, also to tokens "
    "that were accepted before; streams opened with those are closed. While requests need no token, tokens of an "
    "issuer have no effect.",
    sdk=Sdk(
        "Cluster.set_oidc",
        (
            "issuer",
            "audience",
            Arg("rules", "Sequence[Mapping[str, Any]]"),
            "*",
            Arg("client_id", null=True),
            Arg("username_claim", null=True),
            Arg("algorithms", "Sequence[str]", USUAL),
        ),
        'Says all of it anew. Each rule: {"claim", "value", "role"} and, for a role in some of them only, '
        '"namespaces". InvalidError names what is wrong.',
        returns="dict[str, Any]",
    ),
)
DELETE = Operation(
    "oidc_delete",
    "DELETE",
    "/v1/cluster/oidc",
    "Remove the OpenID Connect issuer",
    {204: None},
    headers=("If-Match",),
    codes=(*WRITES, "stale-revision"),
    role="admin",
    says="It applies on each node from the moment the node has applied it. A repeat changes nothing.",
    sdk=Sdk("Cluster.forget_oidc", (), "Tokens of an issuer are not taken any more."),
)
