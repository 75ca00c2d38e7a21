"""The words of tokens and of the audit are those of the core."""

from __future__ import annotations

from typing import get_args

from raftsched.core.subjects.access import RINGS, Role
from raftsched.core.subjects.webhook import Receiver, Tls
from raftsched.surface import audit, enums, oidc, tokens, webhooks


def test_roles_are_those_of_the_core_from_the_least_to_the_most() -> None:
    roles = get_args(enums.RoleName)
    assert roles == tuple(role.name.lower() for role in sorted(Role))
    assert get_args(oidc.PersonRole) == roles[1:], "workers have tokens of the cluster's own"
    assert get_args(tokens.GrantRole) == roles[1:-1], "an admin is one everywhere"


def test_kinds_of_records_are_the_rings_of_the_audit() -> None:
    assert sorted(get_args(audit.RecordKind)) == sorted(RINGS)


def test_receivers_and_tls_are_those_of_the_core() -> None:
    assert get_args(webhooks.WebhookKind) == tuple(kind.name.lower() for kind in Receiver)
    assert get_args(webhooks.TlsName) == tuple(kind.name.lower() for kind in Tls)
