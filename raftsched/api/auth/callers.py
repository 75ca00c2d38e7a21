"""Whose request is being answered: set once for each, before its handler, and asked by whatever reads or proposes.

It is a context variable, so that no handler has to hand it on, and none can forget to: what looks up a job, an instance
or a namespace asks here (`permits`, `sees`), and what is proposed says who wanted it (`signed`). What the node does by
itself is done for nobody, who may do everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar, Token
from types import MappingProxyType
from typing import Literal, NamedTuple

import msgspec

from raftsched.api.auth.noted import change_of
from raftsched.api.http.problems import Problem
from raftsched.core.access import By, Role
from raftsched.core.commands import encode
from raftsched.errors import Overloaded, RaftschedError, UnknownOutcome

SAID_MAX = 10  # namespaces that a refusal names

RoleName = Literal["viewer", "editor", "operator", "admin"]
ROLES: dict[RoleName, Role] = {
    "viewer": Role.VIEWER,
    "editor": Role.EDITOR,
    "operator": Role.OPERATOR,
    "admin": Role.ADMIN,
}
_NAMES = {role: name for name, role in ROLES.items()}
_NO_GRANTS: Mapping[str, Role] = MappingProxyType({})


class Rate(NamedTuple):
    """`burst` requests at once, and `per_s` a second in the long run."""

    per_s: float
    burst: int


class Caller(NamedTuple):
    """`role` holds in `namespaces` (None: all) and for what is in none; `grants` are roles in one namespace each, and
    hold where they are higher. `actor`: the id of his token, 0 when he has none. `issued`: what an issuer says of him,
    where his token is not one of the cluster's own. `rate`: how often he may ask; None: as the settings have it."""

    role: Role
    namespaces: frozenset[str] | None = None
    actor: int = 0
    name: str = ""
    digest: bytes = b""  # of the secret that he showed
    grants: Mapping[str, Role] = _NO_GRANTS
    issued: Issued | None = None
    expires_at_ms: int | None = None
    rate: Rate | None = None
    counted: bool = True  # what he asks for counts; not that of a node, nor of who has the secret of this one

    @property
    def known(self) -> bool:
        return bool(self.name)

    @property
    def whose(self) -> str:
        """What tells him from others, also when he comes with another token of his issuer; empty: he shows none."""
        if self.issued is not None:
            return f"{self.issued.issuer} {self.issued.subject}"
        return str(self.actor) if self.actor else ""

    @property
    def peer(self) -> bool:
        """It is another node, which asks for its own callers. Names of tokens have no spaces."""
        return not self.actor and self.issued is None and self.name.startswith("node ")

    @property
    def highest(self) -> Role:
        """The role that he has somewhere."""
        return max(self.role, *self.grants.values()) if self.grants else self.role

    def role_in(self, namespace: str) -> Role | None:
        """None: what is in this namespace is not there for him. Nothing else says what somebody may where."""
        own = self.role if self.namespaces is None or namespace in self.namespaces else None
        granted = self.grants.get(namespace)
        return own if granted is None or (own is not None and own >= granted) else granted

    def within(self, role: Role) -> frozenset[str] | None:
        """The namespaces in which he has this role at least; None: in all there are and will be."""
        if self.role >= role and self.namespaces is None:
            return None
        own = self.namespaces if self.role >= role and self.namespaces is not None else frozenset()
        return own.union(namespace for namespace, granted in self.grants.items() if granted >= role)


class Issued(NamedTuple):
    """What is known of a caller by the token of an issuer."""

    issuer: str
    subject: str
    revision: int  # of the setting by which the token was taken


ANYBODY = Caller(Role.ADMIN)


class Sent:
    """Whether something of a request was proposed, also by the tasks that it started; and two indices of the log.
    `shown`: what it reads shows that, at the least (0: it was not looked at). `told`: callers knew of that when it
    came. `body`: all of it, once it was read."""

    __slots__ = ("any", "body", "shown", "told")

    def __init__(self, shown: int = 0, told: int = 0) -> None:
        self.any = False
        self.body: bytes | None = None
        self.shown = shown
        self.told = told

    @property
    def stale(self) -> bool:
        """What it reads does not show what callers were told."""
        return self.shown < self.told


class Call(NamedTuple):
    """A request: who asks, and what is noted of it. `work`: he hands in work, see core.apply.audit."""

    caller: Caller = ANYBODY
    operation: str = ""
    resource: str = ""
    remote: str = ""
    namespace: str = ""
    work: bool = False
    sent: Sent | None = None
    needed: Role = Role.VIEWER  # the role that the operation takes, in each namespace that it touches


NOBODY = Call()  # asks, so far

_call: ContextVar[Call] = ContextVar("call", default=NOBODY)


def answer_to(call: Call) -> None:
    """From here on, in this task and in those that it starts."""
    _call.set(call)


def begin(call: Call) -> Token[Call]:
    """The same until `end`: for what is no task."""
    return _call.set(call)


def end(token: Token[Call]) -> None:
    _call.reset(token)


def proposing() -> None:
    """From here on what the caller asked for may come to pass."""
    sent().any = True


def sent() -> Sent:
    """Of the request that is being answered."""
    return _call.get().sent or Sent()


def reading_from(index: int) -> None:
    """From here on the request reads what is applied up to this index, at the least."""
    sent().shown = index


def out_of_memory() -> RaftschedError:
    """What the caller is told when this node's memory does not suffice."""
    if sent().any:
        return UnknownOutcome("This node ran out of memory after the request was passed on; it may still happen.")
    return Overloaded("This node is out of memory at the moment, and nothing was done; try again shortly.")


def caller() -> Caller:
    return _call.get().caller


def permits(namespace: str) -> bool:
    """Whether the caller may do what he asks for to what is in this namespace."""
    call = _call.get()
    role = call.caller.role_in(namespace)
    return role is not None and role >= call.needed


def sees(namespace: str) -> bool:
    """Whether what is in this namespace is there for the caller; what he may do to it is another matter."""
    return _call.get().caller.role_in(namespace) is not None


def sees_all() -> bool:
    return _call.get().caller.within(Role.VIEWER) is None


def within() -> frozenset[str] | None:
    """The namespaces in which the caller may do what he asks for; None: all."""
    call = _call.get()
    return call.caller.within(call.needed)


def check_permitted(namespace: str) -> None:
    """Raises Problem forbidden."""
    call = _call.get()
    who, needed = call.caller, call.needed
    role = who.role_in(namespace)
    if role is None:
        raise Problem("forbidden", f'The token "{who.name}" is not for the namespace "{namespace[:64]}"; {_allowed()}.')
    if role < needed:
        raise Problem(
            "forbidden",
            f'This needs the role {role_name(needed)} in the namespace "{namespace[:64]}"; the token "{who.name}" has '
            f"the role {role_name(role)} there.",
        )


def must_name(how: str) -> Problem:
    """What is asked for goes over all namespaces."""
    who = _call.get().caller
    return Problem("forbidden", f'The token "{who.name}" is not for all namespaces; {_allowed()}: {how}.')


def _allowed() -> str:
    """Where the caller may do what he asks for."""
    call = _call.get()
    names = sorted(within() or ())
    if not names:
        return f"it has the role {role_name(call.needed)} in none"
    said = ", ".join(names[:SAID_MAX]) + (f" and {len(names) - SAID_MAX} more" if len(names) > SAID_MAX else "")
    return f"it is for {said}" if not call.caller.grants else f"it has the role {role_name(call.needed)} in {said}"


def note_as(operation: str) -> None:
    """What is proposed from here on is noted as this operation: a GET is not noted by itself."""
    _call.set(_call.get()._replace(operation=operation))


def is_local(who: Caller) -> bool:
    """Whether he showed the secret that lies in a node's data directory. Names of tokens have no spaces."""
    return not who.actor and who.issued is None and who.name.startswith("local at ")


def role_name(role: Role) -> RoleName:
    return _NAMES[role]


def signed(commands: Sequence[bytes]) -> Sequence[bytes]:
    """Commands with who asked for them. Work that nobody known hands in goes as it is: it costs nothing more."""
    call = _call.get()
    who = call.caller
    if not call.operation or (call.work and not who.known):
        return commands
    resource = "" if call.work else call.resource
    change = b"" if call.work or call.sent is None else change_of(call.sent.body)
    return [
        encode(
            By(
                msgspec.Raw(command),
                who.actor,
                who.name,
                call.operation,
                resource,
                call.remote,
                call.namespace,
                call.work,
                change,
            )
        )
        for command in commands
    ]
