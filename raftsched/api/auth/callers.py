"""The caller of the request that is being answered: set once before its handler, asked by whatever reads or proposes.

It is a context variable, so that no handler has to pass it on, and none can forget to: functions that look up a job, an
instance or a namespace ask here (`permits`, `sees`), and proposals carry the name of who wanted them (`signed`). What
the node does by itself has no caller and may do everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar, Token
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from raftsched.api.auth.noted import change_of
from raftsched.api.http.problems import Problem
from raftsched.core.commands import encode
from raftsched.core.subjects.access import Attributed, Role
from raftsched.errors import Overloaded, RaftschedError, UnknownOutcome
from raftsched.surface.enums import RoleName

if TYPE_CHECKING:
    from raftsched.tracing.requests import RequestTrace

SAID_MAX = 10  # namespaces that a refusal names

ROLES: dict[RoleName, Role] = {
    "worker": Role.WORKER,
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
    hold where they are higher. `actor`: the id of the token, 0 without one. `issued`: what an issuer says of the
    caller, where the token is not one of the cluster's own. `rate`: how often they may ask; None: as the settings have
    it. `queues`: of a worker: whose runs it may be given; None: of all."""

    role: Role
    namespaces: frozenset[str] | None = None
    actor: int = 0
    name: str = ""
    digest: bytes = b""  # of the secret that they showed
    grants: Mapping[str, Role] = _NO_GRANTS
    issued: Issued | None = None
    expires_at_ms: int | None = None
    rate: Rate | None = None
    counted: bool = True  # their requests count; not those of a node, nor of the owner of this one's secret
    queues: frozenset[str] | None = None

    @property
    def known(self) -> bool:
        return bool(self.name)

    @property
    def whose(self) -> str:
        """Tells this caller from others, also when they come with another token of their issuer; empty: they show
        none."""
        if self.issued is not None:
            return f"{self.issued.issuer} {self.issued.subject}"
        return str(self.actor) if self.actor else ""

    @property
    def peer(self) -> bool:
        """It is another node, which asks for its own callers. Names of tokens have no spaces."""
        return not self.actor and self.issued is None and self.name.startswith("node ")

    @property
    def highest(self) -> Role:
        """The highest role that the caller has in any namespace."""
        return max(self.role, *self.grants.values()) if self.grants else self.role

    def role_in(self, namespace: str) -> Role | None:
        """Returns the role in a namespace; None: what is in it does not exist for the caller. Nothing else decides
        that."""
        own = self.role if self.namespaces is None or namespace in self.namespaces else None
        granted = self.grants.get(namespace)
        return own if granted is None or (own is not None and own >= granted) else granted

    def within(self, role: Role) -> frozenset[str] | None:
        """Returns the namespaces in which the caller has this role at least; None: in all, also in new ones."""
        if self.role >= role and self.namespaces is None:
            return None
        own = self.namespaces if self.role >= role and self.namespaces is not None else frozenset()
        return own.union(namespace for namespace, granted in self.grants.items() if granted >= role)


class Issued(NamedTuple):
    """The identity of a caller by the token of an issuer."""

    issuer: str
    subject: str
    revision: int  # of the setting by which the token was taken


ANYBODY = Caller(Role.ADMIN)


class RequestState:
    """The progress of a request. It is shared with the tasks that the request starts.

    `behind`: it is refused for what is in the tables, and the leader could not be asked what else there is.
    `proposed`: something of it was proposed. `waited_s`: for so long it waited because its caller asked for that.
    `read_index`: its reads show the log up to here at the least; 0: they were not made yet. `body`: all of it, once
    read. `trace`: None where requests have none."""

    __slots__ = ("behind", "body", "proposed", "read_index", "trace", "waited_s")

    def __init__(self, read_index: int = 0) -> None:
        self.reset(read_index)

    def reset(self, read_index: int = 0) -> None:
        """Makes it that of a request that begins."""
        self.behind = False
        self.proposed = False
        self.body: bytes | None = None
        self.waited_s = 0.0
        self.read_index = read_index
        self.trace: RequestTrace | None = None


class RequestContext(NamedTuple):
    """A request: its caller, and what the audit notes of it. `work`: it hands in work, see
    core.apply.cluster.audit_rows."""

    caller: Caller = ANYBODY
    operation: str = ""
    resource: str = ""
    remote: str = ""
    namespace: str = ""
    work: bool = False
    state: RequestState | None = None
    needed: Role = Role.VIEWER  # the role that the operation takes, in each namespace that it touches


NO_REQUEST = RequestContext()  # asks, so far

_call: ContextVar[RequestContext] = ContextVar("call", default=NO_REQUEST)


def enter_request(call: RequestContext) -> None:
    """Sets the request that this task, and those that it starts, answer from here on."""
    _call.set(call)


def begin_request(call: RequestContext) -> Token[RequestContext]:
    """Does the same until `end_request`, for code that is no task."""
    return _call.set(call)


def end_request(token: Token[RequestContext]) -> None:
    _call.reset(token)


def note_proposed() -> None:
    """Notes that what the caller asked for may come to pass from here on."""
    request_state().proposed = True


def request_state() -> RequestState:
    """Returns the state of the request that is being answered."""
    return _call.get().state or RequestState()


def note_read_index(index: int) -> None:
    """Notes that the request reads what is applied up to this index, at the least."""
    request_state().read_index = index


def out_of_memory() -> RaftschedError:
    """Returns the error to answer with when this node's memory does not suffice."""
    if request_state().proposed:
        return UnknownOutcome("This node ran out of memory after the request was passed on; it may still happen.")
    return Overloaded("This node is out of memory at the moment, and nothing was done; try again shortly.")


def caller() -> Caller:
    return _call.get().caller


def permits(namespace: str) -> bool:
    """Returns whether the caller may do what they ask for to what is in this namespace."""
    call = _call.get()
    role = call.caller.role_in(namespace)
    return role is not None and role >= call.needed


def sees(namespace: str) -> bool:
    """Returns whether what is in this namespace exists for the caller, who may not be allowed to change it."""
    role = _call.get().caller.role_in(namespace)
    return role is not None and role >= Role.VIEWER


def sees_all() -> bool:
    return _call.get().caller.within(Role.VIEWER) is None


def within() -> frozenset[str] | None:
    """Returns the namespaces in which the caller may do what they ask for; None: all."""
    call = _call.get()
    return call.caller.within(call.needed)


def allowed_namespaces() -> tuple[str, ...] | None:
    """Returns what `within` does, as commands carry it, for what only apply can decide."""
    found = within()
    return None if found is None else tuple(sorted(found))


def note_as_change() -> None:
    """Notes proposals as changes from here on, where other requests of their operation hand in work."""
    _call.set(_call.get()._replace(work=False))


def served() -> tuple[frozenset[str] | None, frozenset[str] | None]:
    """Returns the queues and the namespaces whose runs the caller may be given; None: all. It is for operations of the
    role worker, which others than workers and admins do not come to."""
    who = _call.get().caller
    return who.queues, who.namespaces


def check_permitted(namespace: str) -> None:
    """Raises Problem forbidden."""
    call = _call.get()
    who, needed = call.caller, call.needed
    if who is ANYBODY:
        return
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
    """Returns the problem for a request that goes over all namespaces, by a caller who is not for all."""
    who = _call.get().caller
    return Problem("forbidden", f'The token "{who.name}" is not for all namespaces; {_allowed()}: {how}.')


def _allowed() -> str:
    """Says where the caller may do what they ask for."""
    call = _call.get()
    names = sorted(within() or ())
    if not names:
        return f"it has the role {role_name(call.needed)} in none"
    shown = ", ".join(names[:SAID_MAX]) + (f" and {len(names) - SAID_MAX} more" if len(names) > SAID_MAX else "")
    return f"it is for {shown}" if not call.caller.grants else f"it has the role {role_name(call.needed)} in {shown}"


def note_as(operation: str) -> None:
    """Notes proposals as this operation from here on: a GET is not noted by itself."""
    _call.set(_call.get()._replace(operation=operation))


def is_local(who: Caller) -> bool:
    """Returns whether the caller showed the secret that lies in a node's data directory. Names of tokens have no
    spaces."""
    return not who.actor and who.issued is None and who.name.startswith("local at ")


def role_name(role: Role) -> RoleName:
    return _NAMES[role]


def signed(commands: Sequence[bytes]) -> Sequence[bytes]:
    """Returns the commands with the name of their caller. Work by an unknown caller goes as it is: it costs nothing
    more."""
    call = _call.get()
    who = call.caller
    if not call.operation or (call.work and not who.known):
        return commands
    resource = "" if call.work else call.resource
    change = b"" if call.work or call.state is None else change_of(call.state.body)
    return [
        encode(
            Attributed(
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
