"""Gives each command to its handler, by the registry of `core.commands`; also a command that another one holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Handlers are found by the names of the registry.
from raftsched.core.apply import keys
from raftsched.core.apply.cluster import backups, cluster_notices, membership  # noqa: F401
from raftsched.core.apply.jobs import alike, bulk, firing, lifecycle, manual, promotion, zones  # noqa: F401
from raftsched.core.apply.resources import (  # noqa: F401
    access_edits,
    calendar_edits,
    namespace_edits,
    node_edits,
    queue_edits,
    secret_edits,
    webhook_edits,
)
from raftsched.core.apply.runs import (  # noqa: F401
    attempts,
    by_hand,
    checks,
    following,
    parts,
    retention,
    run_keys,
    watches,
)
from raftsched.core.apply.tx import NOBODY, Tx
from raftsched.core.commands import (
    COMMANDS,
    UNDECODABLE,
    UNKNOWN,
    Accepted,
    Answer,
    Attributed,
    Idempotent,
    Rejected,
    StoredResponse,
    Unknown,
    decode,
    unwrap,
)

Handler = Callable[[Tx, Any], Answer]


def keyed(tx: Tx, c: Idempotent) -> Answer:
    """Does a command once under its key; a repeat is answered as the first time."""
    try:
        command = decode(c.command)
    except UNDECODABLE:
        return UNKNOWN
    if isinstance(command, (Idempotent, StoredResponse, Attributed)):
        return Rejected("invalid-parameter", "A command is done under one key.")
    return keys.once(tx, c.key, c.digest, lambda: HANDLERS[type(command)](tx, command))


_NO_TOKEN = Rejected("unauthorized", "Requests need a token since a moment ago.")


def attributed(tx: Tx, c: Attributed) -> Answer:
    """Does a command for the caller it names: what it makes is theirs, and it is in the audit once it is done."""
    try:
        command = unwrap(c)
    except UNDECODABLE:
        return UNKNOWN
    if isinstance(command, Attributed):
        return UNKNOWN  # one caller asks for it, who is said first
    if c.operation and not c.name and tx.audit.access.required:
        return _NO_TOKEN  # let pass by a node that did not know yet
    tx.by, tx.repeated = c, False
    answer = HANDLERS[type(command)](tx, command)
    tx.by = NOBODY
    if isinstance(answer, Accepted) and not tx.repeated:
        tx.audit.done(c, decode(command.command) if isinstance(command, Idempotent) else command, answer)
    return answer


def _unknown(tx: Tx, c: Unknown) -> Answer:
    return UNKNOWN


def _handler(name: str) -> Handler:
    family, _, function = name.partition(".")
    handlers = globals() if family == "dispatch" else vars(globals()[family])
    handler: Handler = handlers[function]
    return handler


HANDLERS: dict[type, Handler] = {kind: _handler(name) for kind, name in COMMANDS.values()} | {Unknown: _unknown}
