"""The jobs that modules declare with @raftsched.job, until somebody makes them: `raftsched apply`, or a node's `jobs`.

A declared job carries the label `declared-in` with the name of the module that it is applied by: so jobs that the
module does not declare any more are found.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from raftsched.client import builders, program
from raftsched.handlers import is_program_of

if TYPE_CHECKING:
    from raftsched.client.enqueue_options import DeclaredFields
    from raftsched.client.spec_generated import JobSpec

LABEL = "declared-in"
NOTHING = "{} declares no jobs; decorate functions with @raftsched.job(name, cron=...)"  # of a module
_KINDS = ("cron", "every", "at", "rrule", "after", "manual", "trigger", "triggers")
_OF_TRIGGER = ("timezone", "dialect", "mode", "jitter", "starts_at", "ends_at", "calendar", "calendar_action")
_CALLED = ("exec", "shell", "python", "http", "call")


class Declaration:
    """A job that a function is declared as."""

    def __init__(self, name: str, fields: Mapping[str, Any]) -> None:
        self.name = name
        namespace = fields.get("namespace") or program.namespace()
        self.namespace = str(namespace or "default")
        self.fields = {**fields, "namespace": namespace} if namespace else fields  # without its name and handler
        self.function: Callable[..., Any] | None = None

    @property
    def module(self) -> str:
        return str(getattr(self.function, "__module__", ""))

    @property
    def place(self) -> str:
        """Returns where it is declared, as "package.module:function"."""
        return f"{self.module}:{getattr(self.function, '__qualname__', '')}"

    def calls(self, function: Callable[..., Any]) -> None:
        """Registers it for a function that is a handler. ValueError when another function has a job of that name, or
        this one has it already. One that comes anew from the same place is of a module that is loaded again."""
        self.function = function
        before = registered.get((self.namespace, self.name))
        if before is not None and before.function is function:
            raise ValueError(f"job {self.name!r}: {self.place} has it twice; give one of them another name")
        if before is not None and before.function is not None and before.place != self.place:
            if is_program_of(function, before.function):
                return
            if is_program_of(before.function, function):
                before = None
        if before is not None and before.place != self.place:
            raise ValueError(f"job {self.name!r}: {before.place} has this name already; give {self.place} another one")
        registered[self.namespace, self.name] = self

    def spec(self, module: str) -> JobSpec:
        """Returns the job, as the module declares it. TypeError for params that the function does not take."""
        from raftsched.client.arguments import accepts

        handler = {"call": getattr(self.function, "handler_name", self.name), **self.fields.get("handler", {})}
        labels = {**self.fields.get("labels", {}), LABEL: module}
        assert self.function is not None
        try:
            accepts(self.function, self.fields)
        except TypeError as error:
            raise TypeError(f"job {self.name!r}: {error}") from None
        return cast("JobSpec", {**self.fields, "name": self.name, "handler": handler, "labels": labels})


registered: dict[tuple[str, str], Declaration] = {}  # by namespace and name: of the modules that are imported here


def declaration(name: str, fields: DeclaredFields) -> Declaration:
    """Returns a job with its trigger made. Raises ValueError for what is wrong at first sight, TypeError for what is no
    field."""
    from raftsched.client.enqueue_options import DeclaredFields as Known

    unknown = sorted(fields.keys() - Known.__annotations__.keys())
    if unknown:
        raise TypeError(f"job {name!r}: {', '.join(unknown)} is no field of a job")
    given = cast("dict[str, Any]", dict(fields))
    called = [kind for kind in _CALLED if kind in given.get("handler", {})]
    if called:
        raise ValueError(f"job {name!r}: handler says {called[0]}, but the job calls the function; leave it out")
    try:
        job = _with_trigger(given)
    except ValueError as error:
        raise ValueError(f"job {name!r}: {error}") from None
    return Declaration(name, job)


def _with_trigger(given: dict[str, Any]) -> dict[str, Any]:
    kinds = [kind for kind in _KINDS if kind in given]
    if len(kinds) != 1:
        raise ValueError(
            f"say when, in one way: {', '.join(f'{kind}=' for kind in _KINDS)}"
            + (f", and not {' and '.join(kinds)}" if kinds else "; manual=True for a job without times of its own")
        )
    (kind,) = kinds
    more = {name: given.pop(name) for name in _OF_TRIGGER if name in given}
    if kind in ("trigger", "triggers"):
        if more:
            raise ValueError(f"{', '.join(more)} belongs into the {kind}")
        return given
    value = given.pop(kind)
    if kind in ("at", "after", "manual") and more:
        raise ValueError(f"{', '.join(more)} says nothing beside {kind}")
    make: dict[str, Callable[[], Any]] = {
        "cron": lambda: builders.cron(value, **more),
        "every": lambda: {**builders.every(value), **more},
        "rrule": lambda: builders.rrule(value, **more),
        "at": lambda: builders.at(value),
        "after": lambda: _after(value),
        "manual": builders.manual,
    }
    return {**given, "trigger": make[kind]()}


def _after(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {"after": value}
    return builders.after(value) if isinstance(value, str) else builders.after(all_of=value)


def specs_of(modules: Sequence[str]) -> list[JobSpec]:
    """Imports modules, and returns the jobs that they declare. ValueError for one that declares none, TypeError for
    params that do not fit; raises whatever a module raises."""
    found: dict[str, JobSpec] = {}
    for module in modules:
        declared = declared_by(module)
        if not declared:
            raise ValueError(NOTHING.format(module))
        for one in declared:
            found.setdefault(f"{one.namespace}/{one.name}", one.spec(module))
    return list(found.values())


def declared_by(module: str) -> list[Declaration]:
    """Imports a module, and returns the jobs that it and those below it declare, in their order. Raises whatever the
    module raises."""
    importlib.import_module(module)
    own = (module, f"{module}.")
    return [one for one in registered.values() if one.module == own[0] or one.module.startswith(own[1])]
