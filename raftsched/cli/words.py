"""Hints for a command that does not exist: the one with a near name, or the one that another program calls so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

# In all groups: the first of these that the group has is meant.
_ANYWHERE: Mapping[str, tuple[str, ...]] = {
    "ls": ("list",),
    "ps": ("list",),
    "all": ("list",),
    "show": ("get", "status"),
    "describe": ("get", "status", "show"),
    "view": ("get", "status", "show"),
    "inspect": ("get", "status", "show"),
    "info": ("get", "status", "show"),
    "status": ("get", "list"),
    "cat": ("get", "show"),
    "add": ("create", "set"),
    "new": ("create", "set"),
    "make": ("create", "set"),
    "create": ("set", "new"),
    "update": ("edit", "set"),
    "change": ("edit", "set"),
    "modify": ("edit", "set"),
    "edit": ("set",),
    "put": ("set", "create"),
    "rm": ("delete", "revoke", "purge", "remove"),
    "remove": ("delete", "revoke", "purge"),
    "delete": ("revoke", "purge", "remove"),
    "del": ("delete", "revoke", "purge", "remove"),
    "drop": ("delete", "purge"),
    "cancel": ("kill",),
    "stop": ("kill", "pause", "cancel"),
    "abort": ("kill", "cancel"),
    "terminate": ("kill", "cancel"),
    "retry": ("rerun", "requeue"),
    "restart": ("rerun", "requeue"),
    "replay": ("requeue", "rerun"),
    "disable": ("pause", "drain"),
    "suspend": ("pause",),
    "enable": ("resume", "undrain"),
    "unpause": ("resume",),
    "cordon": ("drain",),
    "uncordon": ("undrain",),
    "tail": ("watch", "output"),
    "log": ("output",),
    "logs": ("output",),
    "search": ("grep",),
    "why": ("explain",),
    "load": ("import",),
    "switch": ("use",),
    "clear": ("purge",),
}
# By group ("": the first level), before those above: whole commands, as they are typed after "raftsched".
THERE: Mapping[str, Mapping[str, str]] = {
    "": {
        "job": "jobs",
        "run": "jobs run JOB",
        "instance": "runs",
        "log": "logs JOB",
        "output": "logs JOB",
        "tail": "logs -f JOB",
        "attach": "logs -f JOB",
        "ps": "runs list --state RUNNING",
        "top": "runs list --state RUNNING --watch",
        "ls": "jobs list",
        "list": "jobs list",
        "show": "jobs get JOB",
        "get": "jobs get JOB",
        "describe": "jobs get JOB",
        "inspect": "jobs get JOB",
        "create": "jobs create NAME",
        "add": "jobs create NAME",
        "new": "jobs create NAME",
        "schedule": "jobs create NAME",
        "schedules": "jobs list",
        "at": "jobs create --at TIME",
        "cron": "jobs create NAME --cron EXPR",
        "crontab": "jobs import --from crontab FILE",
        "import": "jobs import FILE",
        "export": "jobs export",
        "diff": "jobs diff -f FILE",
        "edit": "jobs edit JOB",
        "update": "jobs edit JOB",
        "rm": "jobs delete JOB",
        "remove": "jobs delete JOB",
        "delete": "jobs delete JOB",
        "start": "jobs run JOB",
        "trigger": "jobs run JOB",
        "exec": "jobs run JOB -f",
        "wait": "jobs wait JOB",
        "watch": "events",
        "next": "jobs next JOB",
        "pause": "jobs pause JOB",
        "disable": "jobs pause JOB",
        "suspend": "jobs pause JOB",
        "resume": "jobs resume JOB",
        "enable": "jobs resume JOB",
        "backfill": "jobs backfill JOB",
        "stop": "runs kill --job JOB",
        "kill": "runs kill RUN",
        "cancel": "runs kill RUN",
        "rerun": "runs rerun RUN",
        "retry": "runs rerun RUN",
        "restart": "runs rerun RUN",
        "history": "runs list --job JOB",
        "executions": "runs list",
        "tasks": "jobs list",
        "task": "jobs list",
        "grep": "runs grep TEXT",
        "search": "runs grep TEXT",
        "explain": "jobs explain JOB",
        "why": "jobs explain JOB",
        "failures": "dlq list",
        "failed": "runs list --state FAILED",
        "stats": "jobs stats",
        "queue": "queues",
        "calendar": "calendars",
        "namespace": "namespaces",
        "ns": "namespaces",
        "secret": "secrets",  # nosec B105
        "webhook": "webhooks",
        "notify": "webhooks create NAME --url URL",
        "notifications": "webhooks list",
        "workflow": "workflows",
        "dag": "workflows",
        "dags": "workflows list",
        "token": "tokens",  # nosec B105
        "auth": "tokens",
        "users": "tokens list",
        "context": "contexts",
        "config": "contexts",
        "status": "cluster status",
        "info": "cluster status",
        "leader": "cluster status",
        "members": "cluster members",
        "settings": "cluster settings",
        "restore": "cluster restore FILE",
        "snapshot": "cluster backup FILE",
        "drain": "nodes drain NODE",
        "server": "node",
        "agent": "node",
        "serve": "node",
        "master": "node",
        "standalone": "dev",
        "demo": "dev",
        "start-dev": "dev",
        "check": "doctor",
        "diagnose": "doctor",
        "debug": "doctor",
        "dashboard": "ui",
        "web": "ui",
        "open": "ui",
        "dead-letters": "dlq",
        "deadletters": "dlq",
        "autocomplete": "completion",
        "completions": "completion",
        "cert": "certs",
        "key": "keys",
        "backups": "backup",
    },
    "jobs": {
        "start": "jobs run JOB",
        "trigger": "jobs run JOB",
        "exec": "jobs run JOB -f",
        "execute": "jobs run JOB",
        "fire": "jobs run JOB",
        "stop": "runs kill --job JOB",
        "kill": "runs kill --job JOB",
        "cancel": "runs kill --job JOB",
        "log": "logs JOB",
        "logs": "logs JOB",
        "output": "logs JOB",
        "tail": "logs -f JOB",
        "history": "runs list --job JOB",
        "runs": "runs list --job JOB",
        "instances": "runs list --job JOB",
        "executions": "runs list --job JOB",
        "retry": "runs rerun RUN",
        "rerun": "runs rerun RUN",
        "restart": "jobs run JOB",
        "status": "jobs get JOB",
        "schedule": "jobs create NAME",
        "cron": "jobs create NAME --cron EXPR",
        "crontab": "jobs import --from crontab FILE",
        "set": "jobs edit JOB",
        "rename": "jobs edit JOB",
        "skip": "jobs skip-next JOB",
        "versions": "jobs revisions JOB",
        "watch": "jobs get JOB --watch",
        "failed": "runs list --state FAILED",
        "disable": "jobs pause JOB",
        "finish": "jobs expire JOB",
    },
    "runs": {
        "create": "jobs run JOB",
        "start": "jobs run JOB",
        "trigger": "jobs run JOB",
        "add": "jobs run JOB",
        "new": "jobs run JOB",
        "wait": "jobs wait RUN",
        "watch": "logs -f RUN",
        "tail": "logs -f RUN",
        "follow": "logs -f RUN",
        "log": "logs RUN",
        "logs": "logs RUN",
        "delete": "runs kill RUN",
        "rm": "runs kill RUN",
        "remove": "runs kill RUN",
        "requeue": "dlq requeue RUN",
        "history": "runs list --job JOB",
        "failed": "runs list --state FAILED",
    },
    "workflows": {"create": "jobs create NAME --after JOB", "start": "jobs run JOB", "run": "jobs run JOB"},
    "nodes": {"add": "cluster members add", "remove": "cluster members remove", "rm": "cluster members remove"},
    "cluster": {
        "health": "health",
        "doctor": "doctor",
        "leader": "cluster status",
        "nodes": "nodes list",
        "snapshot": "cluster backup FILE",
        "join": "cluster members add",
        "add": "cluster members add",
        "remove": "cluster members remove",
        "stepdown": "cluster transfer",
    },
    "dlq": {"retry": "dlq requeue RUN", "drain": "dlq purge"},
    "contexts": {"create": "contexts set NAME URL", "add": "contexts set NAME URL", "current": "contexts list"},
    "dev": {"start": "dev", "run": "dev", "up": "dev", "down": "dev stop", "list": "dev status", "ps": "dev status"},
}


def no_such_command(word: str, names: Sequence[str], ctx: click.Context) -> click.NoSuchCommand:
    """Returns the error that says so, with the command that is meant where that can be known."""
    meant = meant_by(word, names, group_of(ctx))
    if meant is None:
        return click.NoSuchCommand(word, possibilities=names, ctx=ctx)
    return click.NoSuchCommand(word, f"No such command {word!r}. Did you mean 'raftsched {meant}'?", ctx=ctx)


def no_argument(argument: click.Argument, ctx: click.Context) -> click.UsageError:
    """Returns the error that says what is missing after a command."""
    from raftsched.cli.completing import SOURCES, stands_for
    from raftsched.cli.remote import GAVE_NOTHING

    what = argument.make_metavar(ctx)
    names = stands_for(argument) in SOURCES
    return click.UsageError(f"{what} is missing" + (f"; {GAVE_NOTHING}" if names else ""), ctx)


def group_of(ctx: click.Context) -> str:
    """Returns the name of a group, such as "jobs" or "cluster settings"; empty: the first level."""
    words = ctx.command_path.split(" ")[1:]
    return " ".join(["runs", *words[1:]] if words[:1] == ["instances"] else words)


def meant_by(word: str, names: Sequence[str], group: str) -> str | None:
    """Returns the command that another program's word means here, as it is typed; None: it is no such word."""
    word = word.lower()
    there = THERE.get(group, {}).get(word)
    if there is not None:
        return there
    for name in (word, *_ANYWHERE.get(word, ())):
        if name in names:
            return f"{group} {name}".strip()
    return None
