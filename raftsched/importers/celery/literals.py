"""beat_schedule in Python, read and never run: what is written out is understood, anything else is told with its line.

Understood are numbers, texts, lists, tuples, sets, dicts, names of such values in the same module, + - * / of numbers,
and calls of crontab, schedule, solar, clocked, timedelta, datetime and dict.
"""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import click

FILE_MAX = 4 << 20  # bytes
DEPTH_MAX = 60
NUMBER_MAX = 10**12
STEPS_MAX = 200_000  # values that are looked at, so that a short file cannot take for ever
BEAT = ("beat_schedule", "CELERYBEAT_SCHEDULE", "CELERY_BEAT_SCHEDULE")
ZONE = ("timezone", "CELERY_TIMEZONE")
UTC_SWITCH = ("enable_utc", "CELERY_ENABLE_UTC")
CALLS = ("crontab", "schedule", "solar", "clocked")


class NotLiteral(Exception):
    """The text says what is not written out, and where."""


@dataclass
class Call:
    """A call of crontab(...) or the like, with its arguments."""

    name: str
    args: list[Any]
    kwargs: dict[str, Any]


@dataclass
class Module:
    """`entries`: name, line, and the value or what cannot be read of it."""

    entries: list[tuple[str, int, Any]] = field(default_factory=list)
    zone: str | None = None
    utc: bool | None = None
    asides: list[tuple[int, str]] = field(default_factory=list)  # line, what is not read there


def read_module(data: bytes, source: str) -> Module:
    """Raises a usage error for what is no Python."""
    if len(data) > FILE_MAX:
        raise click.UsageError(f"{source} has {len(data):,} bytes; {FILE_MAX:,} is the limit for Python")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # escapes in the texts of strangers
            tree = ast.parse(data)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f"line {line}: " if line else ""
        raise click.UsageError(f"{source} is no Python: {where}{getattr(error, 'msg', error)}") from None
    except (RecursionError, MemoryError):
        raise click.UsageError(f"{source} nests too deeply") from None
    return _Reader(tree).module


class _Reader:
    def __init__(self, tree: ast.Module) -> None:
        self.module = Module()
        self._left = STEPS_MAX
        self._names: dict[str, ast.expr] = {}
        for statement in tree.body:
            for target, value in _assignments(statement):
                if isinstance(target, ast.Name):
                    self._names[target.id] = value
        stored = Counter(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load))
        self._changing = {name for name, count in stored.items() if count > 1}
        self._whole: set[ast.stmt] = set(tree.body)  # those that are done in any case
        self._entries: dict[str, list[tuple[str, int, Any]]] = {}  # by the name of their schedule
        for statement in _statements(tree):
            for target, value in _assignments(statement):
                self._assigned(target, value, statement)
            if isinstance(statement, ast.AugAssign) and _named(statement.target) in BEAT:
                self._added(statement)
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                self._called(statement.value)
        for entries in self._entries.values():
            self.module.entries += entries

    def _assigned(self, target: ast.expr, value: ast.expr, statement: ast.stmt | None = None) -> None:
        name = _named(target)
        if isinstance(target, ast.Subscript):
            if _named(target.value) not in BEAT:
                return
            if isinstance(target.slice, ast.Constant):
                self._entry(_named(target.value), str(target.slice.value), value)
            else:
                why = f"{_shown(target)} is code, which is not run: write each entry with its name"
                self.module.asides.append((target.lineno, why))
        elif name in BEAT:
            self._schedule(name, value, statement)
        elif name in ZONE and isinstance(value, ast.Constant) and isinstance(value.value, str):
            self.module.zone = value.value
        elif name in UTC_SWITCH and isinstance(value, ast.Constant):
            self.module.utc = bool(value.value)

    def _schedule(self, name: str, value: ast.expr, statement: ast.stmt | None) -> None:
        """Reads a schedule that takes the place of the one before, if any."""
        if isinstance(value, ast.Name) and value.id in BEAT and value.id in self._names:
            return  # the same dict by its other name
        if name in self._entries and statement not in self._whole:
            why = f"{name} is assigned again, if at all: this one is not read; leave the one that holds"
            self.module.asides.append((value.lineno, why))
            return
        self._entries[name] = []
        self._beat(value, name)

    def _added(self, statement: ast.AugAssign) -> None:
        if isinstance(statement.op, ast.BitOr):
            self._beat(statement.value, _named(statement.target))
        else:
            self.module.asides.append((statement.lineno, f"{_shown(statement)} is code, which is not run"))

    def _called(self, call: ast.Call) -> None:
        """app.conf.update(beat_schedule=...), and add_periodic_task(...), which is code."""
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if name == "add_periodic_task":
            self.module.asides.append(
                (call.lineno, "add_periodic_task() is code that runs in Celery; write its task into beat_schedule")
            )
        if name != "update":
            return
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        owned = "" if owner is None else _named(owner)
        if owned in BEAT and call.args:
            self._beat(call.args[0], owned)
        for keyword in call.keywords:
            if keyword.arg is not None and owned not in BEAT:
                self._assigned(ast.Name(keyword.arg), keyword.value)
        for argument in call.args:
            if isinstance(argument, ast.Dict) and owned not in BEAT:
                for key, value in zip(argument.keys, argument.values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        self._assigned(ast.Name(key.value), value)

    def _beat(self, value: ast.expr, schedule: str) -> None:
        while isinstance(value, ast.Name) and value.id in self._names and self._left > 0:
            if value.id in self._changing:
                self.module.asides.append((value.lineno, f"{value.id} is assigned more than once: write its dict here"))
                return
            self._left -= 1
            value = self._names[value.id]
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "dict":
            for keyword in value.keywords:
                self._entry(schedule, keyword.arg or "**", keyword.value)
            return
        if not isinstance(value, ast.Dict):
            self.module.asides.append((value.lineno, "the schedule is not written out as a dict, so it is not read"))
            return
        for key, entry in zip(value.keys, value.values, strict=True):
            if key is None:
                self.module.asides.append((entry.lineno, "**: other schedules are put in here, which are not read"))
                continue
            try:
                name = self._value(key, 0)
            except NotLiteral as error:
                self.module.asides.append((key.lineno, str(error)))
                continue
            self._entry(schedule, str(name), entry)

    def _entry(self, schedule: str, name: str, value: ast.expr) -> None:
        found: Any
        try:
            found = self._value(value, 0)
        except NotLiteral as error:
            found = error
        self._entries.setdefault(schedule, []).append((name, value.lineno, found))

    def _value(self, node: ast.expr, depth: int) -> Any:
        self._left -= 1
        if depth > DEPTH_MAX or self._left < 0:
            raise NotLiteral(f"line {node.lineno}: it is too large or nests too deeply to be read")
        if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, str | bool | int | float)):
            return node.value
        if isinstance(node, ast.Name):
            if node.id not in self._names:
                raise NotLiteral(f"line {node.lineno}: {node.id} is not written out in this file")
            if node.id in self._changing:
                raise NotLiteral(f"line {node.lineno}: {node.id} is assigned more than once: write its value")
            return self._value(self._names[node.id], depth + 1)
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return [self._value(item, depth + 1) for item in node.elts]
        if isinstance(node, ast.Dict):
            return self._dict(node, depth)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            value = self._number(node.operand, depth)
            return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.BinOp):
            return self._arithmetic(node, depth)
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        raise NotLiteral(f"line {node.lineno}: {_shown(node)} is code, which is not run: write its value")

    def _dict(self, node: ast.Dict, depth: int) -> dict[str, Any]:
        found = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                raise NotLiteral(f"line {value.lineno}: ** is code, which is not run: write it out")
            found[str(self._value(key, depth + 1))] = self._value(value, depth + 1)
        return found

    def _operand(self, node: ast.expr, depth: int) -> Any:
        """A number, or a length of time."""
        value = self._value(node, depth + 1)
        return value if isinstance(value, timedelta) else self._as_number(value, node)

    def _number(self, node: ast.expr, depth: int) -> int | float:
        return self._as_number(self._value(node, depth + 1), node)

    def _as_number(self, value: Any, node: ast.expr) -> int | float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= NUMBER_MAX:
            raise NotLiteral(f"line {node.lineno}: {_shown(node)} is no number that is expected here")
        return value

    def _arithmetic(self, node: ast.BinOp, depth: int) -> Any:
        left, right = self._operand(node.left, depth), self._operand(node.right, depth)
        try:
            if isinstance(node.op, ast.Mult):
                return left * right
            if isinstance(node.op, ast.Add):
                return left + right
            if isinstance(node.op, ast.Sub):
                return left - right
            if isinstance(node.op, ast.Div):
                return left / right
            if isinstance(node.op, ast.FloorDiv):
                return left // right
        except (ZeroDivisionError, TypeError, OverflowError):
            pass
        raise NotLiteral(f"line {node.lineno}: {_shown(node)} is not computed; write its value")

    def _call(self, node: ast.Call, depth: int) -> Any:
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name not in (*CALLS, "timedelta", "datetime", "dict") or any(k.arg is None for k in node.keywords):
            raise NotLiteral(f"line {node.lineno}: {_shown(node)} is code, which is not run: write its value")
        args = [self._value(argument, depth + 1) for argument in node.args]
        kwargs = {str(k.arg): self._value(k.value, depth + 1) for k in node.keywords}
        try:
            if name == "dict" and not args:
                return kwargs
            if name == "timedelta":
                return timedelta(*args, **kwargs)
            if name == "datetime":
                return datetime(*args, **kwargs)
        except (TypeError, ValueError, OverflowError) as error:
            raise NotLiteral(f"line {node.lineno}: {_shown(node)}: {error}") from None
        if name in CALLS:
            return Call(name, args, kwargs)
        raise NotLiteral(f"line {node.lineno}: {_shown(node)} is code, which is not run: write its value")


def _named(target: ast.expr) -> str:
    """Returns the last name of what is assigned to, "" where it has none."""
    return target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""


def _shown(node: ast.expr | ast.stmt) -> str:
    try:
        return ast.unparse(node)[:60]
    except RecursionError:
        return "what stands here"


def _assignments(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield target, statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        yield statement.target, statement.value


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """All statements in their order, those of functions and classes among them (Django settings lie in classes)."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.stmt):
            yield node
        stack.extend(child for child in reversed(list(ast.iter_child_nodes(node))) if not isinstance(child, ast.expr))
