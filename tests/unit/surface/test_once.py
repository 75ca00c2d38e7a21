"""The API is written in raftsched/surface, and nowhere a second time."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

import raftsched.client
from raftsched import surface
from scripts.make_client import CLIENT, modules
from scripts.make_sync import SOURCES
from tests.support.modules import MODULES, ROOT, each, name_of, parsed

SAME = 0.7  # of all fields of two structs together: from there on one says what the other says
FEW = 3  # fields that two structs may share by chance
# Structs of the client that stand for several of the API: what they are.
SEVERAL = {
    "Event": "an event of any kind: that of a job, of an instance, or of the cluster",
    "_Item": "what became of one job of a batch: it was made, or there is a problem",
}
# Methods of the client with one call that do more than to send what they are given: what.
OWN = {
    "instances.output": "the answer is no JSON",
    "instances.recent": "it gives the runs by job",
    "jobs.act": "it gives the operation as one that can be awaited",
    "jobs.check": "it takes a job as `create` does",
    "jobs.dry_run": "it takes ids, filters or all",
    "jobs.state": "it gives one of few words",
    "workflow_runs.get": "it asks for one run at most",
}
MADE = CLIENT.removeprefix("raftsched/")


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """Yields line and text of each string of a module that is no docstring, f-strings piece by piece."""
    tree = parsed(path)
    docstrings = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def is_address(text: str) -> bool:
    """Returns whether a text is an address of the API, and not a sentence that names one."""
    return text.startswith(surface.PREFIX) and " " not in text


@each([p for p in MODULES if not name_of(p).startswith(("surface/", f"{MADE}/"))])
def test_addresses_are_those_of_surface(path: Path) -> None:
    found = [f"{line}: {text}" for line, text in literals(path) if is_address(text)]
    assert not found, f"take it from raftsched.surface or its `plain`: {found}"


def hand_written() -> dict[type[msgspec.Struct], set[str]]:
    """Returns the structs of the client that no script wrote, with their fields."""
    found: dict[type[msgspec.Struct], set[str]] = {}
    for module in pkgutil.walk_packages(raftsched.client.__path__, "raftsched.client."):
        if module.name.startswith("raftsched.client.generated"):
            continue
        for kind in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(kind) and issubclass(kind, msgspec.Struct) and kind.__module__ == module.name:
                found[kind] = set(kind.__struct_encode_fields__)
    return found


def structs() -> dict[str, set[str]]:
    """Returns the structs of the API that have more than a few fields, by name."""
    return {
        kind.__name__: set(kind.__struct_encode_fields__)
        for module in modules().values()
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, msgspec.Struct) and len(kind.__struct_encode_fields__) > FEW
    }


def likeness(ours: set[str], theirs: set[str]) -> float:
    """Returns the part of all their fields that both have."""
    return len(ours & theirs) / len(ours | theirs)


def test_no_struct_of_the_client_says_what_one_of_the_api_says() -> None:
    known = structs()
    found = {
        f"{kind.__module__}.{kind.__name__}": name
        for kind, fields in hand_written().items()
        for name, theirs in known.items()
        if likeness(fields, theirs) >= SAME and kind.__name__ not in SEVERAL
    }
    assert not found, f"say @record above the struct of the API, and run scripts/make-client: {found}"


def calls(method: ast.AsyncFunctionDef | ast.FunctionDef) -> int:
    """Returns how often a method asks, where it does nothing else; 0: it decides something, or goes on."""
    more = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.With, ast.AsyncWith, ast.Yield)
    if any(isinstance(node, more) for node in ast.walk(method)):
        return 0
    asked = [ast.unparse(node.func) for node in ast.walk(method) if isinstance(node, ast.Call)]
    return sum(re.fullmatch(r"self\._?transport\.(get|post|send)", name) is not None for name in asked)


def test_methods_that_make_one_call_are_made() -> None:
    found = set()
    for module, kinds in SOURCES.items():
        tree = parsed(ROOT / "client" / f"{module}.py")
        for kind in (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name in kinds):
            methods = (m for m in kind.body if isinstance(m, ast.AsyncFunctionDef | ast.FunctionDef))
            found |= {f"{module}.{m.name}" for m in methods if m.name[0] != "_" and calls(m) == 1}
    found -= OWN.keys()
    assert not found, f"say sdk=Sdk(...) at the operation, and run scripts/make-client: {found}"


def test_the_tests_of_likeness_can_fail() -> None:
    assert hand_written()
    assert structs()
    assert likeness({"a", "b", "c"}, {"a", "b", "c", "d"}) >= SAME > likeness({"a", "b"}, {"a", "b", "c", "d"})
    assert is_address("/v1/jobs/{id}")
    assert not is_address("/v1/jobs lists them")
