"""Makes of the service of a timer a handler and the fields of a job."""

from __future__ import annotations

import re
import shlex
from typing import Any

from raftsched.bounds import DESCRIPTION_MAX
from raftsched.importers.foreign import Notes, Unmapped
from raftsched.importers.systemd.commands import (
    Command,
    Specifiers,
    as_exec,
    as_shell,
    read_commands,
    split_words,
    unknown_variables,
)
from raftsched.importers.systemd.left_out import leave_rest
from raftsched.importers.systemd.spans import span_ms
from raftsched.importers.systemd.units import Unit
from raftsched.quantities import format_duration

RETRIES_MAX = 100
_TYPES = ("simple", "exec", "oneshot", "idle")
_KNOWN = frozenset({
    "Type", "ExecStart", "ExecStartPre", "ExecStartPost", "ExecCondition", "Environment", "EnvironmentFile",
    "WorkingDirectory", "User", "TimeoutStartSec", "TimeoutSec", "RuntimeMaxSec", "TimeoutStopSec", "Restart",
    "RestartSec", "StartLimitBurst", "MemoryMax", "MemoryLimit", "LimitNOFILE", "LimitCPU", "StandardOutput",
    "StandardError",
})  # fmt: skip
_LEFT_OUT = {  # said together, with what holds here instead
    "Nice": "a node gives all its runs one (--nice)",
    "CPUSchedulingPolicy": "", "CPUSchedulingPriority": "", "IOSchedulingClass": "", "IOSchedulingPriority": "",
    "CPUWeight": "", "CPUQuota": "", "IOWeight": "", "TasksMax": "a node bounds all its runs (--pids-max)",
}  # fmt: skip
_SIZE = re.compile(r"([0-9]{1,15})([KMGT]?)", re.ASCII)
_QUIET_OUTPUT = re.compile(r"journal|inherit|kmsg|syslog|tty|journal\+console|kmsg\+console")


def service_fields(unit: Unit, name: str, home: str | None, notes: Notes) -> dict[str, Any]:
    """Fields of a job; `name`: of the unit as it is started, with its instance. Raises Unmapped."""
    specifiers = Specifiers(name, home, set())
    kind = unit.last("Service", "Type") or ("simple" if unit.all("Service", "ExecStart") else "oneshot")
    if kind not in _TYPES:
        raise Unmapped(
            f"its Type={kind} is a service that goes on in the background, and here a run ends with its process:"
            " start it in the foreground (Type=exec)"
        )
    env = _environment(unit, specifiers, notes)
    job: dict[str, Any] = {"handler": _handler(unit, kind, env, specifiers, notes)}
    handler = job["handler"]
    if env:
        handler["env"] = env
    _directory(unit, handler, specifiers, notes)
    limits = _limits(unit, notes)
    if limits:
        handler["limits"] = limits
    user = specifiers.resolve(unit.last("Service", "User"))
    if user:
        job["user"] = user
        notes.ask(f"it runs as {user}, which a node has to allow (--users-allowed)")
    elif home == "/root":
        notes.ask("it ran as root; see that it can run as the user that nodes have for its namespace (--run-as)")
    job |= _ends(unit, kind, notes)
    job |= _retry(unit, notes)
    description = specifiers.resolve(unit.last("Unit", "Description"))
    if description:
        job["description"] = description[:DESCRIPTION_MAX]
    if specifiers.unknown:
        what = ", ".join(sorted(specifiers.unknown))
        notes.lack(f"{what} is not known here and stands as it is: write what it means")
    _leave(unit, notes)
    return job


def _environment(unit: Unit, specifiers: Specifiers, notes: Notes) -> dict[str, str]:
    env: dict[str, str] = {}
    for line in unit.all("Service", "Environment"):
        for word in split_words(line, "Environment="):
            name, equals, value = specifiers.resolve(word.text).partition("=")
            if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name, re.ASCII):
                notes.say(f"Environment={word.text[:60]} is no NAME=value; it is left out, as systemd does")
                continue
            env[name] = value
    for given in unit.all("Service", "EnvironmentFile"):
        path = specifiers.resolve(given)
        what = f"EnvironmentFile={path.lstrip('-')} is not read: give its variables as env (jobs edit)"
        if path.startswith("-"):
            notes.ask(f"{what}, if there are any")
        else:
            notes.lack(what)
    return env


def _handler(unit: Unit, kind: str, env: dict[str, str], specifiers: Specifiers, notes: Notes) -> dict[str, Any]:
    groups = {
        name: [
            command
            for line in unit.all("Service", name)
            for command in read_commands(line, f"{name}=", specifiers.resolve)
        ]
        for name in ("ExecCondition", "ExecStartPre", "ExecStart", "ExecStartPost")
    }
    main = groups["ExecStart"]
    if not main:
        raise Unmapped(f"{unit.name} has no ExecStart=, so there is nothing to run")
    if len(main) > 1 and kind != "oneshot":
        raise Unmapped(f"{unit.name} has {len(main)} commands in ExecStart=, which only Type=oneshot may have")
    commands = [command for group in groups.values() for command in group]
    for command in commands:
        if command.argv0 is not None:
            notes.say(f"{command.words[0]} was called {command.argv0} (@); here it is called by its own name")
        if command.privileged:
            notes.ask(
                f"{command.words[0]} ran with more rights than the others ({command.privileged}); here with the same"
            )
    unknown = list(dict.fromkeys(name for command in commands for name in unknown_variables(command, env)))
    if unknown:
        notes.say(f"{', '.join(unknown)} is looked up in the environment of the run")
    if len(commands) == 1 and not unknown and not main[0].ignore_failure:
        return {"exec": as_exec(main[0], env)}
    return {"shell": _script(groups, env, bool(unknown), notes)}


def _script(groups: dict[str, list[Command]], env: dict[str, str], lookup: bool, notes: Notes) -> str:
    """One line for sh: each command after the success of the one before it."""
    parts = []
    for name, commands in groups.items():
        for command in commands:
            text = as_shell(command) if lookup else shlex.join(as_exec(command, env))
            if name == "ExecCondition":
                notes.say("ExecCondition= that fails ends the run as a success, where systemd skips it")
                text = f"{{ {text} || exit 0; }}"
            elif command.ignore_failure:
                text = f"{{ {text} || true; }}"
            parts.append(text)
    if len(parts) > 1:
        notes.say(f"its {len(parts)} commands became one of a shell, each after the success of the one before it")
    return ("set -f; " if lookup else "") + " && ".join(parts)


def _directory(unit: Unit, handler: dict[str, Any], specifiers: Specifiers, notes: Notes) -> None:
    given = unit.last("Service", "WorkingDirectory")
    path = specifiers.resolve(given.removeprefix("-"))
    if path == "~":
        notes.lack("WorkingDirectory=~ is the home of its user: give it as cwd (jobs edit)")
    elif path:
        if not path.startswith("/"):
            raise Unmapped(f"its WorkingDirectory={path[:60]!r} is no absolute path")
        handler["cwd"] = path
        if given.startswith("-"):
            notes.say(f"{path} has to be there; systemd did without it (-)")


def _limits(unit: Unit, notes: Notes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    memory = unit.last("Service", "MemoryMax") or unit.last("Service", "MemoryLimit")
    size = _SIZE.fullmatch(memory)
    if size:
        found["memory"] = f"{size[1]}{size[2]}iB" if size[2] else size[1]
        notes.say(f"the memory limit {memory} holds for each process of a run, not for all together")
    elif memory and memory != "infinity":
        notes.say(f"the memory limit {memory} is not said in bytes; it is left out")
    files = unit.last("Service", "LimitNOFILE").partition(":")[0]
    if re.fullmatch(r"[0-9]{1,7}", files, re.ASCII) and 16 <= int(files) <= 1_048_576:
        found["open_files"] = int(files)
    elif files:
        notes.say(f"LimitNOFILE={files} is left out")
    cpu = unit.last("Service", "LimitCPU").partition(":")[0]
    if cpu and cpu != "infinity":
        length = span_ms(cpu, "LimitCPU")
        if length and length % 1000 == 0:
            found["cpu"] = format_duration(length)
        else:
            notes.say(f"LimitCPU={cpu} is left out")
    return found


def _ends(unit: Unit, kind: str, notes: Notes) -> dict[str, Any]:
    """timeout and grace."""
    found: dict[str, Any] = {}
    names = ("TimeoutStartSec", "TimeoutSec") if kind == "oneshot" else ("RuntimeMaxSec",)
    for name in names:
        text = unit.last("Service", name)
        length = span_ms(text, name) if text else None
        if length:
            found["timeout"] = format_duration(length)
            break
    for name in ("TimeoutStopSec", "TimeoutSec"):
        text = unit.last("Service", name)
        length = span_ms(text, name) if text else None
        if length is not None and length <= 3_600_000:
            found["grace"] = format_duration(length)
            break
        if text:
            notes.say(f"{name}={text} is longer than an hour, the longest grace; it is left out")
    return found


def _retry(unit: Unit, notes: Notes) -> dict[str, Any]:
    restart = unit.last("Service", "Restart") or "no"
    if restart == "no":
        return {}
    if restart in ("always", "on-success"):
        raise Unmapped(
            f"its Restart={restart} starts it again after each end, which no timer needs; leave it out, or use a job"
            " with every and mode fixed_delay"
        )
    if restart != "on-failure":
        notes.say(f"Restart={restart} is left out: only on-failure is known, which retries what failed or timed out")
        return {}
    delay = span_ms(unit.last("Service", "RestartSec") or "100ms", "RestartSec")
    if delay is None:
        return {}
    section = "Unit" if unit.all("Unit", "StartLimitBurst") else "Service"
    burst_text = unit.last(section, "StartLimitBurst") or "5"
    burst = int(burst_text) if re.fullmatch(r"[0-9]{1,6}", burst_text, re.ASCII) else 5
    interval = span_ms(unit.last("Unit", "StartLimitIntervalSec") or "10s", "StartLimitIntervalSec")
    endless = burst == 0 or interval == 0 or (interval is not None and delay * burst >= interval)
    retries = RETRIES_MAX if endless else min(max(burst - 1, 0), RETRIES_MAX)
    if endless:
        notes.say(f"systemd would start it again for ever; here it is retried {RETRIES_MAX} times")
    return {"retry": {"delays": [format_duration(delay)] * retries, "on": ["failed", "timed_out"]}} if retries else {}


def _leave(unit: Unit, notes: Notes) -> None:
    """Names what has no counterpart, each setting once."""
    service = unit.settings.get("Service", {})
    for name in ("StandardOutput", "StandardError"):
        value = unit.last("Service", name)
        if value and not _QUIET_OUTPUT.fullmatch(value):
            notes.say(f"{name}={value} is left out: output is kept with each run")
    for name, why in _LEFT_OUT.items():
        if service.get(name) and why:
            notes.say(f"{name} is left out: {why}")
    unused = {name for name, used in _only_where_used(unit).items() if not used}
    leave_rest(unit, "Service", _KNOWN - unused | {name for name, why in _LEFT_OUT.items() if why}, notes)


def _only_where_used(unit: Unit) -> dict[str, bool]:
    """Settings that mean something only beside others."""
    oneshot = (unit.last("Service", "Type") or "simple") == "oneshot"
    restarts = dict.fromkeys(("RestartSec", "StartLimitBurst"), unit.restarts)
    return {"TimeoutStartSec": oneshot, "RuntimeMaxSec": not oneshot, **restarts}
