"""Shared by the commands that talk to a cluster: --server, -o, and the ways to name a job."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from raftsched import names
from raftsched.cli.terminal.output import FORMAT, FORMATS, TOKEN, TOKEN_OF_CONTEXT, TRUST, TRUST_OF_CONTEXT
from raftsched.client.trust import SYSTEM, Trust, from_environment
from raftsched.surface.plain import jobs

if TYPE_CHECKING:
    from raftsched.client.contexts import Context
    from raftsched.client.http import Client, Token

_F = TypeVar("_F", bound=Callable[..., Any])
_DEV = ".raftsched/dev/dev.json"  # where dev/state.py keeps what runs in this directory
GAVE_NOTHING = "if a command in $(...) was to give it, that one gave nothing, and said why"
_ID = re.compile(r"[0-9a-hjkmnp-tv-z]{13}", re.ASCII)  # a job id: 13 characters of Crockford base32


def _format(ctx: click.Context, _: click.Parameter, value: str) -> str:
    """Returns the format that a command has to know; what was said is noted where that is another one."""
    if FORMATS[value] != value:
        ctx.meta[FORMAT] = value
    return FORMATS[value]


format_option = click.option(
    "-o",
    "--output",
    "fmt",
    type=click.Choice(list(FORMATS)),
    default="table",
    show_default=True,
    callback=_format,
    help="For people (wide: all columns, whole), for programs (jsonl: an object a line), or names only.",
)


def remote(function: _F) -> _F:
    """Adds --server, and gives the command a Client as its first argument."""

    @click.option("--server", metavar="URL[,URL]", help="Nodes to ask (RAFTSCHED_SERVER).")
    @click.option("--ca-file", "own_ca", metavar="FILE", hidden=True)  # as the root's, for who says them here
    @click.option("--client-cert", "own_cert", metavar="FILE", hidden=True)
    @click.option("--client-key", "own_key", metavar="FILE", hidden=True)
    @click.option("--insecure", "own_insecure", is_flag=True, hidden=True)
    @click.pass_context
    @functools.wraps(function)
    def wrapped(
        ctx: click.Context,
        /,
        *args: Any,
        server: str | None,
        own_ca: str | None,
        own_cert: str | None,
        own_key: str | None,
        own_insecure: bool,
        **kwargs: Any,
    ) -> Any:
        return function(client_of(ctx, server, Trust(own_ca, own_cert, own_key, own_insecure)), *args, **kwargs)

    return wrapped  # type: ignore[return-value]


def client_again(ctx: click.Context) -> Client:
    """Returns the client that a command has whose options are these."""
    own = {name: ctx.params.get(name) for name in ("server", "own_ca", "own_cert", "own_key", "own_insecure")}
    trust = Trust(own["own_ca"], own["own_cert"], own["own_key"], bool(own["own_insecure"]))
    return client_of(ctx, own["server"], trust)


def client_of(ctx: click.Context, server: str | None, trust: Trust = SYSTEM) -> Client:
    """Returns a client of this --server, or of what the options before the command said. Raises a usage error."""
    token = said_token(ctx)
    trust = trust.over(ctx.meta.get(TRUST, SYSTEM)).over(from_environment(os.environ))
    if server is None:
        token = token or ctx.meta.get(TOKEN_OF_CONTEXT)
        trust = trust.over(ctx.meta.get(TRUST_OF_CONTEXT, SYSTEM))
    return client(server or ctx.find_root().obj, token, trust)


def said_token(ctx: click.Context) -> Token:
    """Returns what --token and --token-file say, else RAFTSCHED_TOKEN and RAFTSCHED_TOKEN_FILE. Raises ClientError
    "no-token"."""
    token: Token = ctx.meta.get(TOKEN) or os.environ.get("RAFTSCHED_TOKEN")
    if not token and os.environ.get("RAFTSCHED_TOKEN_FILE"):
        from raftsched.client.token_file import of_environment

        token = of_environment(os.environ)
    return token


def client(given: str | None, token: Token = None, trust: Trust = SYSTEM) -> Client:
    """Returns a client of --server (or --context), else RAFTSCHED_SERVER, else RAFTSCHED_CONTEXT or the context in use,
    else the dev cluster of this directory, else this machine's usual ports. `token` None: the context's. What `trust`
    leaves open is taken from the context, or the dev cluster.

    Raises a usage error.
    """
    from raftsched.client.http import Client
    from raftsched.client.servers import DEFAULT_SERVERS, parse_servers

    text = given or os.environ.get("RAFTSCHED_SERVER")
    context = None if text else _context(os.environ.get("RAFTSCHED_CONTEXT")) or _dev()
    if context is not None:
        text, token, trust = context.server, token or context.token, trust.over(context.trust)
    try:
        return Client(parse_servers(text or DEFAULT_SERVERS), token=token, trust=trust)
    except ValueError as e:
        raise click.UsageError(f"--server: {e}") from None


def is_said() -> bool:
    """Returns True when the user said which nodes to ask."""
    ctx = click.get_current_context()
    return bool(ctx.params.get("server") or ctx.find_root().obj or os.environ.get("RAFTSCHED_SERVER"))


def _context(name: str | None) -> Context | None:
    if not name and not os.path.isfile(_contexts_path()):
        return None
    from raftsched.cli.auth.logins import context_of

    return context_of(name or None)


def _contexts_path() -> str:
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(base, "raftsched", "contexts.toml")


def _dev() -> Context | None:
    """Returns all nodes of a dev cluster that runs in this directory, also those that are down just now; None without
    one."""
    if not os.path.isfile(_DEV):
        return None
    from raftsched.cli.dev.state import DEFAULT_DIR, DevState
    from raftsched.client.contexts import Context
    from raftsched.client.servers import parse_servers

    try:
        state = DevState.load(DEFAULT_DIR)
        if state is None or not state.members or not state.runs():
            return None
        servers = ",".join(m.url for m in state.members)
        parse_servers(servers)
    except ValueError:
        return None  # not what `raftsched dev` writes; its own commands say so
    ca_file = state.ca_file(DEFAULT_DIR)
    return Context(servers, None, Trust(None if ca_file is None else str(ca_file)))


def options(*added: Callable[[Any], Any]) -> Callable[[_F], _F]:
    """Adds options to a command, in this order in its help."""

    def decorate(function: _F) -> _F:
        for option in reversed(added):
            function = option(function)
        return function

    return decorate


def everything_option(name: str, help: str) -> tuple[Callable[[Any], Any], ...]:
    """Returns the option for all there is, as `everything`, and --all, which says what to use instead: in lists it
    means "no limit", and who has that habit must not do something to all."""

    def refuse(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value:
            raise click.UsageError(f"--all means 'no limit' in lists, and nothing here; say {name} if you mean all")

    return (
        click.option(name, "everything", is_flag=True, help=help),
        click.option("--all", is_flag=True, hidden=True, expose_value=False, callback=refuse),
    )


def check_namespace(text: str) -> str:
    """Returns the text. Raises a usage error when it is no namespace."""
    if not names.NAMESPACE.allows(text):
        raise click.UsageError(f"{text!r} is not a namespace; it has {names.NAMESPACE.rule}")
    return text


def by_name(namespace: str, name: str) -> str:
    """Returns the path of a job by its name. Raises a usage error."""
    check_namespace(namespace)
    if not names.JOB.allows(name):
        raise click.UsageError(f"{name!r} is not a job name; it has {names.JOB.rule}")
    return jobs.GET_BY_NAME.format(ns=namespace, name=name)


def find_job(client: Client, ref: str) -> dict[str, Any]:
    """Returns the job with this `ns/name`, `name` (in "default") or id. A text that looks like an id is tried as one
    first."""
    from raftsched.client.errors import ClientError

    if not ref:
        raise click.UsageError(f"an empty text names no job; {GAVE_NOTHING}")

    if "/" not in ref and _ID.fullmatch(ref):
        try:
            return dict(client.get(jobs.GET.format(id=ref)))
        except ClientError as e:
            if e.status != 404:
                raise
    namespace, slash, name = ref.partition("/")
    path = by_name(namespace, name) if slash else by_name("default", ref)
    try:
        return dict(client.get(path))
    except ClientError as e:
        if e.status != 404 or e.code != "not-found":
            raise
        raise ClientError("not-found", f"there is no job {ref!r}; see 'raftsched jobs list'", status=404) from None


def job_ref(job: dict[str, Any]) -> str:
    """Returns the shortest text that names this job on a command line: no id, no option, no other job."""
    name, namespace = job.get("name"), job.get("namespace", "default")
    if not name or ("id" in job and (namespace.startswith("-") or {name, namespace} & {".", ".."})):
        return str(job["id"])
    if namespace == "default" and not name.startswith("-") and not _ID.fullmatch(name):
        return str(name)
    return f"{namespace}/{name}"


def read_json(text: str, what: str) -> Any:
    """Returns the decoded JSON. Raises a usage error."""
    try:
        return json.loads(text)
    except ValueError as e:
        raise click.UsageError(f"{what} is not JSON: {e}") from None


def source_name(file: Any) -> str:
    """Returns the name of an opened file for messages."""
    name = getattr(file, "name", "-")
    return "stdin" if name in ("-", "<stdin>") else str(name)
