"""Tasks that are a name and arguments (APScheduler, Celery, Quartz, XXL-JOB, PowerJob) -> a handler, by
`--handler-template`.

Such a task is code that lives in another program. Nothing here can run it by itself, so the template says how it is
reached, and a note says what has to be done for that.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raftsched import names
from raftsched.importers.foreign import Notes, Unmapped

WORDS = ("task", "module", "function", "args", "kwargs")
KINDS = ("call", "python", "exec", "shell")
_PLACE = re.compile(r"\{(\w*)\}")
_CALLABLE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True)
class Template:
    """`kind:text`, such as `call:{task}`."""

    kind: str = "call"
    text: str = "{task}"
    given: bool = False  # by the user, who knows then what it needs

    @staticmethod
    def read(text: str) -> Template:
        """Raises ValueError with what is wrong and what would be right."""
        kind, colon, rest = text.partition(":")
        if not colon or kind not in KINDS or not rest.strip():
            example = "call:{task}, python:{module}:{function} or 'exec:celery -A shop call {task} --args {args}'"
            raise ValueError(f"{text!r} does not begin with {', '.join(f'{k}:' for k in KINDS)}; write {example}")
        unknown = [word for word in _PLACE.findall(rest) if word not in WORDS]
        if unknown:
            raise ValueError(f"{{{unknown[0]}}} is not known; known are {', '.join(f'{{{w}}}' for w in WORDS)}")
        if kind == "exec":
            try:
                shlex.split(rest)
            except ValueError as error:
                raise ValueError(f"{text!r} cannot be read as a command: {error}") from None
        return Template(kind, rest.strip(), given=True)

    def handler(
        self, task: str, args: Sequence[Any], kwargs: Mapping[str, Any], notes: Notes, *, module: str | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The handler, and params of the job, where the handler does not have the arguments. `module`: where the name
        does not say it, because a class stands before the function. Raises Unmapped."""
        module = task.rpartition(".")[0] if module is None else module
        function = task[len(module) :].removeprefix(".")
        words = {
            "task": task, "module": module, "function": function,
            "args": json.dumps(list(args), ensure_ascii=False), "kwargs": json.dumps(dict(kwargs), ensure_ascii=False),
        }  # fmt: skip
        used = set(_PLACE.findall(self.text))
        params: dict[str, Any] = {} if "kwargs" in used else dict(kwargs)
        if args and "args" not in used:
            if "args" in params:
                raise Unmapped("it has positional arguments and one that is called args; write them as names")
            params["args"] = list(args)
            notes.say(f"its {_count(args)} became the parameter args, a list")
        return self._handler(words, notes), params

    def _handler(self, words: Mapping[str, str], notes: Notes) -> dict[str, Any]:
        if self.kind == "exec":
            return {"exec": [_fill(word, words) for word in shlex.split(self.text)]}
        if self.kind == "shell":
            return {"shell": _fill(self.text, {k: shlex.quote(v) for k, v in words.items()})}
        if self.kind == "python":
            found = _fill(self.text, words)
            if not _CALLABLE.fullmatch(found):
                raise Unmapped(f"{found[:80]!r} is no callable such as jobs.mail:send; give another --handler-template")
            notes.ask(f"{found} has to be importable on the nodes, and is called with its params as keywords")
            return {"python": found}
        name = handler_name(_fill(self.text, words))
        say = f"a node or worker has to announce the handler {name} (docs/sdk.md), which does what {words['task']} did"
        if self.given:
            notes.ask(say)
        else:
            notes.lack(f"{say}; --handler-template says another way to run it")
        return {"call": name}


DEFAULT = Template()


def handler_name(text: str) -> str:
    """The name of a handler for a task: small letters, with humps written as dashes. Raises Unmapped."""
    found = re.sub(r"[^a-z0-9._-]+", "-", _HUMP.sub("-", text).lower()).strip("-.")[:128]
    if not names.HANDLER.allows(found):
        raise Unmapped(f"{text[:60]!r} has nothing that the name of a handler may have; give a --handler-template")
    return found


def _fill(text: str, words: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda place: words[place[1]], text)


def _count(args: Sequence[Any]) -> str:
    return "positional argument" if len(args) == 1 else f"{len(args)} positional arguments"
