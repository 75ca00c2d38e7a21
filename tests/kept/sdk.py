"""The Python client and what lies beside it, as text: signatures, records, errors, and what they say of themselves.

Types are named without their modules: where a record lies is no promise, but for the names of `MODULES`."""

from __future__ import annotations

import builtins
import importlib
import inspect
import pkgutil
import sys
import types
import typing
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import msgspec

import raftsched
import raftsched.client

# What programs import by its address.
MODULES = (
    "raftsched",
    "raftsched.client.errors",
    "raftsched.client.models",
    "raftsched.client.spec",
    "raftsched.errors",
    "raftsched.handlers",
    "raftsched.run",
    "raftsched.samples",
    "raftsched.testing",
    "raftsched.webhooks",
)
CLIENTS = ("AsyncClient", "Client")
MACHINERY = "transport"  # an attribute of a client that has no underscore, and is none of its parts
NONE = type(None)


def text() -> str:
    """Returns all of it. Records follow the names that lead to them."""
    parts = [_module(name) for name in MODULES]
    found = _Found()
    for name in raftsched.__all__:
        found.take(getattr(raftsched, name), name)
    for name in CLIENTS:
        for part, kind in _parts_of(name):
            found.take(kind, f"{name}.{part}")
    for name in MODULES:
        for attribute, value in _public(importlib.import_module(name)):
            if inspect.isclass(value) or inspect.isfunction(value):
                found.take(value, attribute)
    return "\n\n".join([*parts, *found.texts()]) + "\n"


def _public(module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    """Yields the names that a module gives, and those of what it makes itself where it does not say."""
    for name in sorted(getattr(module, "__all__", None) or vars(module)):
        if name.startswith("_"):
            continue
        value = getattr(module, name)
        own = getattr(value, "__module__", module.__name__) == module.__name__ and not inspect.ismodule(value)
        if hasattr(module, "__all__") or (own and name != "TYPE_CHECKING") or _is_record(value) or _is_alias(value):
            yield name, value


def _module(name: str) -> str:
    lines = [f"module {name}"]
    for attribute, value in _public(importlib.import_module(name)):
        if isinstance(value, str | int | float | frozenset | tuple):
            shown = sorted(value) if isinstance(value, frozenset) else value
            lines.append(f"    {attribute} = {shown!r}")
        elif _is_alias(value):
            lines.append(f"    {attribute} = {_Found().type(value)}")
        else:
            lines.append(f"    {attribute}")
    return "\n".join(lines)


def _parts_of(client: str) -> Iterator[tuple[str, type[Any]]]:
    """Yields the sub-objects of a client with their types."""
    made = getattr(raftsched, client)("http://127.0.0.1:7401", discover=False)
    try:
        for name, value in sorted(vars(made).items()):
            if not name.startswith("_") and name != MACHINERY:
                yield name, type(value)
    finally:
        if client == "Client":
            made.close()


class _Found:
    """Classes and functions, each once, and the records that their types lead to."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._seen: set[Any] = set()
        self._records: list[Any] = []

    def take(self, value: Any, name: str) -> None:
        if _is_record(value):
            self._records.append(value)
        elif inspect.isclass(value):
            self._texts[name] = self._class(name, value)
        elif typing.get_origin(value) is typing.Literal:
            self._texts[name] = f"{name} = {self.type(value)}"
        elif callable(value):
            self._texts[name] = self._function(name, value)

    def texts(self) -> Iterator[str]:
        """Yields first what was taken, then records by name."""
        records: dict[str, str] = {}
        while self._records:
            record = self._records.pop()
            if record not in self._seen:
                self._seen.add(record)
                made = self._record(record)
                head = made.partition("\n")[0]
                assert records.setdefault(head, made) == made, f"two of them are called {head}"
        yield from (self._texts[name] for name in sorted(self._texts))
        yield from (records[name] for name in sorted(records))

    # ------------------------------------------------------------ as text

    def _class(self, name: str, kind: type[Any]) -> str:
        is_error = issubclass(kind, BaseException)
        bases = ", ".join(base.__name__ for base in kind.__mro__[1:-1] if is_error and _is_public(base))
        lines = [f"class {name}({bases})" if is_error else f"class {name}", *_said(kind.__doc__)]
        if "__init__" in _members(kind) and "." not in name:  # nobody makes a part of a client
            lines += _indented(self._function("__init__", kind.__init__))
        for member, value in sorted(_members(kind).items()):
            if isinstance(value, property):
                shown = self.type(_hints(value.fget, kind).get("return", Any))
                lines += [f"    {member}: {shown} (property)", *_indented("\n".join(_said(value.__doc__)))]
            elif isinstance(value, staticmethod | classmethod):
                lines += _indented(self._function(member, value.__func__, type(value).__name__))
            elif inspect.isfunction(value) and member != "__init__":
                lines += _indented(self._function(member, value, owner=kind))
        for attribute, hint in sorted(_hints(kind, kind).items()):
            if not attribute.startswith("_"):
                lines.append(f"    {attribute}: {self.type(hint)}")
        return "\n".join(lines)

    def _function(self, name: str, function: Callable[..., Any], mark: str = "", owner: Any = None) -> str:
        hints = _hints(function, owner)
        signature = inspect.signature(function)
        inner = ["/" if part == "/" else part for part in self._parameters(signature, hints)]
        kind = "async def" if inspect.iscoroutinefunction(function) else "def"
        returned = self.type(hints["return"]) if "return" in hints else "?"
        head = f"{mark + ' ' if mark else ''}{kind} {name}"
        one = f"{head}({', '.join(inner)}) -> {returned}"
        if len(one) > 110:
            one = "\n".join([f"{head}(", *(f"    {part}," for part in inner), f") -> {returned}"])
        return "\n".join([one, *_said(function.__doc__)])

    def _parameters(self, signature: inspect.Signature, hints: dict[str, Any]) -> Iterator[str]:
        given = list(signature.parameters.values())
        starred = False
        for at, one in enumerate(given):
            if one.kind is one.KEYWORD_ONLY and not starred:
                yield "*"
            starred |= one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
            stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
            kind = f": {self.type(hints[one.name])}" if one.name in hints else ""
            default = "" if one.default is one.empty else f" = {_default(one.default)}"
            yield f"{stars}{one.name}{kind}{default}"
            if one.kind is one.POSITIONAL_ONLY and all(o.kind is not one.kind for o in given[at + 1 :]):
                yield "/"

    def _record(self, record: Any) -> str:
        if typing.is_typeddict(record):
            lines = [f"fields {record.__name__}", *_said(record.__doc__)]
            for name, hint in _hints(record, record).items():
                needed = " (required)" if name in record.__required_keys__ else ""
                lines.append(f"    {name}: {self.type(hint)}{needed}")
            return "\n".join(lines)
        config = record.__struct_config__
        marks = [name for name in ("frozen", "order", "array_like", "forbid_unknown_fields") if getattr(config, name)]
        bases = [base.__name__ for base in record.__mro__[1:-1] if _is_public(base)]
        lines = [f"record {record.__name__}({', '.join(bases + marks)})", *_said(record.__doc__)]
        named = inspect.signature(record).parameters
        hints = _hints(record, record)
        for field in msgspec.structs.fields(record):
            default = "" if named[field.name].default is inspect.Parameter.empty else " = " + _default_of(field)
            key = "" if field.encode_name == field.name else f" ({field.encode_name!r} in JSON)"
            place = "" if named[field.name].kind is inspect.Parameter.KEYWORD_ONLY else " (also by position)"
            lines.append(f"    {field.name}: {self.type(hints[field.name])}{default}{key}{place}")
        for name, value in sorted(vars(record).items()):
            if isinstance(value, property):
                shown = self.type(_hints(value.fget, record).get("return", Any))
                lines += [f"    {name}: {shown} (property)", *_indented("\n".join(_said(value.__doc__)))]
            elif inspect.isfunction(value) and not name.startswith("_"):
                lines += _indented(self._function(name, value, owner=record))
        return "\n".join(lines)

    def type(self, hint: Any) -> str:
        """Returns a type as one writes it, without modules. A record in it is taken."""
        if _is_record(hint):
            self._records.append(hint)
            return str(hint.__name__)
        if hint is NONE or hint is None:
            return "None"
        if hint is Ellipsis:
            return "..."
        if isinstance(hint, list):
            return f"[{', '.join(map(self.type, hint))}]"
        if isinstance(hint, typing.ForwardRef):
            return hint.__forward_arg__
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in (typing.Union, types.UnionType):
            return " | ".join(map(self.type, arguments))
        if origin is typing.Literal:
            return f"Literal[{', '.join(map(repr, arguments))}]"
        if origin is typing.Annotated:
            return self.type(arguments[0])
        if origin is not None and arguments:
            self.type(origin)
            return f"{_name(origin)}[{', '.join(map(self.type, arguments))}]"
        return _name(hint)


def _is_record(value: Any) -> bool:
    if not inspect.isclass(value) or not value.__module__.startswith("raftsched."):
        return False
    return typing.is_typeddict(value) or issubclass(value, msgspec.Struct)


def _is_alias(value: Any) -> bool:
    return isinstance(value, types.UnionType) or typing.get_origin(value) is typing.Literal


def _is_public(base: type[Any]) -> bool:
    return not base.__name__.startswith("_") and base not in (typing.Generic, msgspec.Struct, object)


def _members(kind: type[Any]) -> dict[str, Any]:
    """Returns what a class has of our own making, its bases' with it."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.partition(".")[0] == "raftsched":
            found |= vars(base)
    kept = ("__init__", "__aenter__", "__aexit__", "__enter__", "__exit__", "__iter__", "__len__", "__getitem__")
    return {name: value for name, value in found.items() if not name.startswith("_") or name in kept}


@cache
def _clients() -> list[types.ModuleType]:
    """Returns all modules of the client."""
    found = pkgutil.walk_packages(raftsched.client.__path__, "raftsched.client.")
    return [importlib.import_module(name) for name in sorted(module.name for module in found)]


class _Everywhere(dict[str, Any]):
    """Names that are imported for type checkers only: as the client's modules have them, else the name alone."""

    def __missing__(self, name: str) -> Any:
        if name in vars(builtins):
            raise KeyError(name)
        found = (vars(module)[name] for module in _clients() if name in vars(module))
        return next(found, None) or type(name, (), {})


def _hints(value: Any, owner: Any) -> dict[str, Any]:
    """Returns the types of a class's attributes or of a function's parameters."""
    names = vars(sys.modules[value.__module__]) if inspect.isclass(value) else value.__globals__
    return typing.get_type_hints(value, names, _Everywhere(names), include_extras=False)


def _name(hint: Any) -> str:
    name = getattr(hint, "__name__", None) or getattr(hint, "_name", None) or repr(hint)
    return str(name).removeprefix("typing.")


def _default_of(field: Any) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        return f"{_name(field.default_factory)}()"
    return _default(field.default)


def _default(value: Any) -> str:
    return _name(value) if inspect.isclass(value) or inspect.isfunction(value) else repr(value)


def _said(words: str | None) -> list[str]:
    """Returns a docstring, further in. What Python makes by itself is no docstring."""
    return [f"    | {line}".rstrip() for line in inspect.cleandoc(words).splitlines()] if words else []


def _indented(lines: str) -> list[str]:
    return [f"    {line}" for line in lines.splitlines()]
