"""Completes names live: of jobs, runs, queues and the like, as the cluster has them, and of contexts, as the file has.

A key was pressed: nothing is printed but names, nobody is asked for anything, and who does not answer within a second
has none.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import redirect_stderr
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)

from raftsched.cli.remote import client_of, job_ref
from raftsched.cli.terminal.limit import limited
from raftsched.surface.plain import (
    bulk,
    calendars,
    jobs,
    namespaces,
    nodes,
    queues,
    runs,
    secrets,
    tokens,
    webhooks,
    workers,
    workflows,
)
from raftsched.surface.plain.enums import END_STATE_NAME, LIVE_STATE_NAME

if TYPE_CHECKING:
    from raftsched.client.http import Client

LIMIT_S = 1.0
_MOST = 200  # names
_NEWEST = 50  # runs
_NAMESPACES = 3  # whose jobs are asked for
# what a command takes, where it does not take all
_RUNS_OF = {"kill": LIVE_STATE_NAME, "rerun": END_STATE_NAME}
_JOBS_OF = {"resume": "SUSPENDED", "pause": "SCHEDULED"}

Items = Iterator[CompletionItem[str]]
_Source = Callable[["Client", str, str], Items]


def _named(path: str, field: str = "name") -> _Source:
    def names(client: Client, begun: str, command: str) -> Items:
        for found in client.items(path, {}, _MOST):
            yield CompletionItem(str(found[field]))

    return names


def _nodes(client: Client, begun: str, command: str) -> Items:
    for found in client.get(nodes.LIST)["items"]:
        yield CompletionItem(found["id"], help=found["role"])


def _jobs(client: Client, begun: str, command: str) -> Items:
    namespace, slash, prefix = begun.partition("/")
    state = {"state": _JOBS_OF.get(command)}
    if slash:
        yield from _refs(client, {"namespace": namespace, "name_prefix": prefix or None, **state})
        return
    yield from _refs(client, {"name_prefix": begun or None, "namespace": "default" if begun else None, **state})
    if begun:
        found = (str(one["name"]) for one in client.items(namespaces.LIST, {}, _MOST))
        for name in [name for name in found if name.startswith(begun) and name != "default"][:_NAMESPACES]:
            yield from _refs(client, {"namespace": name, **state})


def _refs(client: Client, query: Mapping[str, Any]) -> Items:
    for job in client.items(jobs.LIST, {**query, "fields": "id,name,namespace,state"}, _MOST):
        if job["name"]:
            yield CompletionItem(job_ref(job), help=job["state"])


def _runs(client: Client, begun: str, command: str) -> Items:
    from raftsched.cli.runs.executors import job_of

    states = ",".join(_RUNS_OF.get(command, ())) or None
    query = {"state": states, "fields": "id,state,namespace,job_name"}
    for run in client.items(runs.LIST, query, _NEWEST):
        yield CompletionItem(run["id"], help=f"{run['state']} {job_of(run) or ''}".rstrip())


def _jobs_or_runs(client: Client, begun: str, command: str) -> Items:
    if "@" not in begun:
        yield from _jobs(client, begun, command)
    yield from _runs(client, begun, command)


def _secrets(client: Client, begun: str, command: str) -> Items:
    for found in client.items(secrets.LIST, {}, _MOST):
        name = found["name"] if found["namespace"] == "default" else f"{found['namespace']}/{found['name']}"
        yield CompletionItem(name)


def _contexts(begun: str) -> Items:
    from raftsched.client.contexts import read_contexts

    for name, context in read_contexts()[0].items():
        yield CompletionItem(name, help=context.server)


_CONTEXT = "CONTEXT"
# What stands for a name in a usage, and whose names these are.
SOURCES: Mapping[str, _Source] = {
    "JOB": _jobs,
    "RUN": _runs,
    "JOB|RUN": _jobs_or_runs,
    "WORKFLOW": _named(workflows.LIST, "id"),
    "OPERATION": _named(bulk.LIST, "id"),
    "NS": _named(namespaces.LIST),
    "NAMESPACE": _named(namespaces.LIST),
    "QUEUE": _named(queues.LIST),
    "CALENDAR": _named(calendars.LIST),
    "WEBHOOK": _named(webhooks.LIST),
    "SECRET": _secrets,
    "NODE": _nodes,
    "WORKER": _named(workers.LIST),
    "TOKEN": _named(tokens.LIST, "id"),
}


def stands_for(parameter: click.Parameter) -> str:
    """Returns what a parameter takes, as its usage has it, such as "JOB"; empty: its own text."""
    return re.sub(r"[][]|\.\.\.", "", parameter.metavar or "")


class Name(click.ParamType[str]):
    """A name of something that is there, or of what the user thinks is."""

    name = "text"

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        return names(ctx, self._kind, incomplete)


def give_types(parameters: Iterable[click.Parameter]) -> None:
    """Lets click complete those that stand for a name."""
    for parameter in parameters:
        kind = stands_for(parameter)
        if kind in SOURCES or kind == _CONTEXT:
            parameter.type = Name(kind)


def names(context: click.Context, kind: str, begun: str) -> list[CompletionItem[str]]:
    """Returns the names of this kind that begin so, each once; none where they cannot be had."""
    seen: dict[str, CompletionItem[str]] = {}
    with redirect_stderr(io.StringIO()):
        try:
            with limited(LIMIT_S, TimeoutError()):
                for item in _items(context, kind, begun):
                    if item.value.startswith(begun):
                        seen.setdefault(item.value, item)
        except (Exception, SystemExit):  # what there is so far will do
            pass
    return list(seen.values())


def _items(context: click.Context, kind: str, begun: str) -> Items:
    if kind == _CONTEXT:
        yield from _contexts(begun)
        return
    root = context.find_root()
    assert root.command.callback is not None
    with root:
        root.invoke(root.command.callback, **root.params)  # which notes what --server, --context and --token said
        client = client_of(context, context.params.get("server"))
        yield from SOURCES[kind](client, begun, str(context.info_name))


class _Whole(ShellComplete):
    """Completes whole words: click gives the value alone where it follows an option and =."""

    _begun = ""

    def complete(self) -> str:
        self._begun = self.get_completion_args()[1]
        return super().complete()

    def format_completion(self, item: CompletionItem[str]) -> str:
        return super().format_completion(CompletionItem(self._word(item.value), item.type, item.help))

    def _word(self, value: str) -> str:
        option, equals, _ = self._begun.partition("=")
        behind = equals and option.startswith("-") and not value.startswith(option)
        return f"{option}={value}" if behind else value


class _Bash(_Whole, BashComplete):
    """Completes the last part of a word: for bash it is over at @, : and =, which are in ids and options. It replaces
    what is behind the last of them, and a @ itself."""

    source_template = BashComplete.source_template.replace(
        "$(env COMP_WORDS=",
        '$(env COMP_LINE="$COMP_LINE" COMP_POINT=$COMP_POINT COMP_BREAKS="$COMP_WORDBREAKS" COMP_WORDS=',
    )

    def get_completion_args(self) -> tuple[list[str], str]:
        if "COMP_LINE" not in os.environ:  # a script of an earlier version
            return super().get_completion_args()
        from click.shell_completion import split_arg_string

        line = os.environ["COMP_LINE"].encode()[: int(os.environ["COMP_POINT"])].decode(errors="replace")
        words = split_arg_string(line)[1:]
        if not words or line[-1:].isspace():
            return words, ""
        return words[:-1], words[-1]

    def _word(self, value: str) -> str:
        word, breaks = super()._word(value), os.environ.get("COMP_BREAKS", "")
        at = max((self._begun.rfind(mark) for mark in "@:=" if mark in breaks), default=-1)
        if at < 0 or not word.startswith(self._begun[: at + 1]):
            return word
        return word[at:] if word[at] == "@" else word[at + 1 :]


class _Zsh(_Whole, ZshComplete):
    pass


class _Fish(_Whole, FishComplete):
    pass


def use_own_classes() -> None:
    """Lets click complete with these."""
    for shell in (_Bash, _Zsh, _Fish):
        add_completion_class(shell)
