"""Whose request is being answered: set once for each, before its handler, and asked by whatever reads or proposes.

It is a context variable, so that no handler has to hand it on, and none can forget to: what looks up a job, an instance
or a namespace asks here (`permits`), and what is proposed says who wanted it (`signed`). What the node does by itself
is done for nobody, who may do everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextvars import ContextVar, Token
from typing import NamedTuple

import msgspec

from raftsched.api.problems import Problem
from raftsched.core.access import By, Role
from raftsched.core.commands import encode
from raftsched.errors import Overloaded, RaftschedError, UnknownOutcome


class Caller(NamedTuple):
    """`namespaces`: None: all. `actor`: the id of his token, 0 when he has none."""

    role: Role
    namespaces: frozenset[str] | None = None
    actor: int = 0
    name: str = ""
    digest: bytes = b""  # of the secret that he showed

    @property
    def known(self) -> bool:
        return bool(self.name)


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
    """Whether what is in this namespace is there for the caller."""
    allowed = _call.get().caller.namespaces
    return allowed is None or namespace in allowed


def check_permitted(*namespaces: str) -> None:
    """Raises Problem forbidden."""
    who = _call.get().caller
    refused = [] if who.namespaces is None else sorted(set(namespaces) - who.namespaces)
    if refused:
        raise Problem(
            "forbidden", f'The token "{who.name}" is not for the namespace "{refused[0][:64]}"; {_allowed(who)}.'
        )


def must_name(who: Caller, how: str) -> Problem:
    """What is asked for goes over all namespaces."""
    return Problem("forbidden", f'The token "{who.name}" is not for all namespaces; {_allowed(who)}: {how}.')


def _allowed(who: Caller) -> str:
    names: Iterable[str] = sorted(who.namespaces or ())
    return f"it is for {', '.join(names)}"


def signed(commands: Sequence[bytes]) -> Sequence[bytes]:
    """Commands with who asked for them. Work that nobody known hands in goes as it is: it costs nothing more."""
    call = _call.get()
    who = call.caller
    if not call.operation or (call.work and not who.known):
        return commands
    resource = "" if call.work else call.resource
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
            )
        )
        for command in commands
    ]
