"""Keeps logins in the file of contexts, and renews them when their token has expired."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

import click

from raftsched.cli.context_file import named_context, read_contexts, write_contexts
from raftsched.cli.failures import Failure
from raftsched.client.contexts import Context, Login, contexts_file
from raftsched.client.errors import ClientError
from raftsched.errors import Exit

EARLY_S = 30  # before its end a token is renewed: nodes and issuer may have other clocks


@contextmanager
def _alone() -> Iterator[None]:
    """Locks out all other commands of this user: a refresh token is often good for one time only."""
    path = contexts_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path.with_name(".contexts.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Failure(f"cannot write beside {path}: {(error.strerror or str(error)).lower()}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def keep(name: str, token: str | None, login: Login) -> None:
    """Raises Failure."""
    with _alone():
        _put(name, token, login)


def _put(name: str, token: str | None, login: Login) -> Context:
    found, current = read_contexts()
    if name not in found:
        raise Failure(f"there is no context {name!r} any more", Exit.NOT_FOUND)
    made = found[name]._replace(token=token, login=login)
    write_contexts({**found, name: made}, current)
    return made


def context_of(name: str | None) -> Context | None:
    """Returns a context, or the one in use, with a valid token where one can be had; None when none is in use. Raises
    Failure."""
    named = named_context(name)
    return None if named is None else renewed(*named)


def renewed(name: str, context: Context) -> Context:
    """Returns the context with a valid token where one can be had; else as it is, and says why."""
    command = click.get_current_context(silent=True)
    if command is not None and command.resilient_parsing:
        return context  # a key was pressed: what is renewed for it might be cut off, and lost
    if context.login is None or context.login.expires_at is None:
        return context
    from raftsched.client import device
    from raftsched.system.clock import SystemClock

    now = SystemClock().wall_ms() // 1_000
    if not _is_due(context, now):
        return context
    with _alone():
        context = read_contexts()[0].get(name, context)
        login = context.login
        if not _is_due(context, now) or login is None or login.refresh_token is None:
            return context  # another command was faster
        try:
            made = device.refresh(device.discover(login.issuer), login.client_id, login.refresh_token, login.use)
        except ClientError as error:
            click.echo(f"raftsched: the login of {name} was not renewed: {error.detail}; raftsched login", err=True)
            return context
        fresh = login._replace(refresh_token=made.refresh, expires_at=made.expires_at)
        return _put(name, made.bearer, fresh)


def _is_due(context: Context, now: int) -> bool:
    login = context.login
    if login is None or login.refresh_token is None or login.expires_at is None:
        return False
    return now >= login.expires_at - EARLY_S
