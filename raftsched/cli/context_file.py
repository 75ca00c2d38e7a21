"""Reads and writes the file of contexts for commands, whose errors end the command."""

from __future__ import annotations

import json

from raftsched.cli.failures import Failure
from raftsched.client import contexts
from raftsched.client.contexts import FILES, Context
from raftsched.errors import Exit
from raftsched.security.files import write_private


def read_contexts() -> tuple[dict[str, Context], str | None]:
    """Returns all contexts by name, and the name of the one in use. Raises Failure when the file is malformed."""
    try:
        return contexts.read_contexts()
    except ValueError as error:
        raise Failure(str(error)) from None


def named_context(name: str | None) -> tuple[str, Context] | None:
    """Returns a context, or the one in use, with its name; None when none is in use. Raises Failure."""
    try:
        return contexts.named_context(name)
    except LookupError as error:
        raise Failure(str(error.args[0]), Exit.NOT_FOUND) from None
    except ValueError as error:
        raise Failure(str(error)) from None


def write_contexts(found: dict[str, Context], current: str | None) -> None:
    """Writes the file whole or not at all: a file beside it takes its place. It may hold tokens, so only its owner can
    read it."""
    lines = [] if current is None else [f"current = {json.dumps(current)}", ""]
    for name, context in sorted(found.items()):
        lines += [f"[contexts.{json.dumps(name)}]", f"server = {json.dumps(context.server)}"]
        lines += [f"token = {json.dumps(context.token)}"] if context.token else []
        lines += [f"{file} = {json.dumps(path)}" for file in FILES if (path := getattr(context.trust, file))]
        lines += ["insecure = true", ""] if context.trust.insecure else [""]
        if context.login is not None:
            lines.append(f"[contexts.{json.dumps(name)}.login]")
            fields = context.login._asdict().items()
            lines += [*(f"{key} = {json.dumps(value)}" for key, value in fields if value is not None), ""]
    path = contexts.contexts_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, "\n".join(lines).encode())
    except OSError as error:
        raise Failure(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None
