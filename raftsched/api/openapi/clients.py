"""Makes of the description one that clients can be made of: names for answers that are problems, the type of each
constant, and no part that nothing refers to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

_NULL = {"type": "null"}
_TYPES = {bool: "boolean", int: "integer", str: "string"}
_OF_ONE = frozenset({"title", "description", "default"})  # of a schema, and not of one of its ways


class Problems:
    """The answers that are problems. Most operations may answer the same ones: named, each is written and generated
    once, and neither the description nor a client is several times as long."""

    def __init__(self, make: Callable[[int, Sequence[str]], dict[str, Any]]) -> None:
        self._make = make
        self._used: dict[str, dict[str, Any]] = {}

    def of(self, status: int, codes: Sequence[str]) -> dict[str, Any]:
        """Returns a reference to the answer with one of these codes."""
        name = f"Problem{status}{''.join(word.capitalize() for code in codes for word in code.split('-'))}"
        if name not in self._used:
            self._used[name] = self._make(status, codes)
        return {"$ref": f"#/components/responses/{name}"}

    def components(self) -> dict[str, Any]:
        return dict(sorted(self._used.items()))


def typed(node: Any) -> Any:
    """Returns a part of the description in which every constant and enumeration says its type: without one, clients
    take anything. null is a type of its own beside it, as everywhere else."""
    if isinstance(node, list):
        return [typed(one) for one in node]
    if not isinstance(node, dict):
        return node
    found = {key: typed(one) for key, one in node.items()}
    values = found.get("enum", [found["const"]] if "const" in found else None)
    if "type" in found or not isinstance(values, list):
        return found
    said = [one for one in values if one is not None]
    kinds = {_TYPES.get(type(one), "") for one in said}
    outside = {key: one for key, one in found.items() if key in _OF_ONE}
    if not kinds:
        return {**outside, **_NULL}
    if len(kinds) != 1 or "" in kinds:
        return found
    if len(said) == len(values):
        return {**found, "type": kinds.pop()}
    return {**outside, "anyOf": [{"type": kinds.pop(), "enum": said}, dict(_NULL)]}


def referred(paths: Any, schemas: dict[str, Any], others: Any) -> dict[str, Any]:
    """Returns the schemas that something refers to, however far from an operation. `others`: other components."""
    needed: set[str] = set()
    waiting = [*_names(paths), *_names(others)]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += _names(schemas[name])
    return {name: schema for name, schema in schemas.items() if name in needed}


def _names(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for one in node:
            yield from _names(one)
    elif isinstance(node, dict):
        reference = node.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/components/schemas/"):
            yield reference.rpartition("/")[2]
        for one in node.values():
            yield from _names(one)
