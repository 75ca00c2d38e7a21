"""Writes raftsched/api/runs/generated.py: an instance and an attempt with all their fields, in straight-line code.

The expressions are those of the tables in raftsched/api/runs/instance_fields.py. A call for each of them would take a
tenth more, and naming 43 fields to a struct of msgspec takes a quarter more than giving them in their order.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import msgspec

from raftsched.surface.runs import AttemptOut, InstanceOut
from scripts.make_fields import ROOT, formatted

TABLES = ROOT / "raftsched/api/runs/instance_fields.py"
MADE = "raftsched/api/runs/generated.py"
MODULE = "raftsched.api.runs.generated"
HEAD = '''"""Made from api/runs/instance_fields.py by scripts/make-instances; not edited by hand."""

from __future__ import annotations

import msgspec

from raftsched.api.runs.render import NO_ATTEMPT
from raftsched.surface.runs import AttemptOut, InstanceOut, PartsOut
'''
CODE = '''
def shown_attempt(one: Attempt, name: str) -> AttemptOut:
    """Returns an attempt of the instance with this id."""
    return {attempt}


_encode = msgspec.json.Encoder().encode
_NO_ATTEMPT = shown_attempt(NO_ATTEMPT, "")


def instance_json(row: Instance, names: JobNames, parts: PartsOut | None = None) -> bytes:
    """Returns an InstanceOut as JSON. `parts`: what is said of its parts, where that is more than the row has."""
    one = row.attempts[-1] if row.attempts else NO_ATTEMPT
{shared}
    newest = attempts[-1] if attempts else _NO_ATTEMPT
    return _encode({instance})
'''


class _Once(ast.NodeTransformer):
    """Puts a variable in the place of each expression that is computed once."""

    def __init__(self, variable_of: Mapping[str, str]) -> None:
        self._variable_of = variable_of

    def visit(self, node: ast.AST) -> Any:
        name = self._variable_of.get(ast.unparse(node)) if isinstance(node, ast.expr) else None
        return ast.Name(name, ast.Load()) if name else self.generic_visit(node)


def _tables(tree: ast.Module) -> dict[str, dict[str, ast.expr]]:
    """Returns the dictionaries of the module by their names: field -> lambda, or the row of another table."""
    found: dict[str, dict[str, ast.expr]] = {}
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(node.value, ast.Dict):
            rows = zip(node.value.keys, node.value.values, strict=True)
            found[node.target.id] = {ast.literal_eval(key): value for key, value in rows if key is not None}
    return found


def _body(value: ast.expr) -> ast.expr:
    """Returns a copy of the expression of a row."""
    if not isinstance(value, ast.Lambda) or [each.arg for each in value.args.args] != ["row", "one", "names"]:
        raise ValueError(f"{ast.unparse(value)} is no lambda of row, one and names")
    return ast.parse(ast.unparse(value.body), mode="eval").body


def _made(kind: type[msgspec.Struct], values: Mapping[str, str]) -> str:
    """Returns the call that makes a struct of its fields in their order."""
    if set(kind.__struct_fields__) != set(values):
        raise ValueError(f"{kind.__name__} and its table differ in {set(kind.__struct_fields__) ^ set(values)}")
    return "\n".join([f"{kind.__name__}(", *(f"{values[name]},  # {name}" for name in kind.__struct_fields__), ")"])


def render(source: str = "") -> str:
    """Returns the code of the tables in this source, or in their module."""
    tree = ast.parse(source or TABLES.read_text("utf-8"))
    tables = _tables(tree)
    variable_of: dict[str, str] = {}

    def inlined(value: ast.expr) -> str:
        if isinstance(value, ast.Subscript):
            table, field = ast.unparse(value.value), ast.literal_eval(value.slice)
            return f"newest.{field}" if table == "ATTEMPT" else str(field)
        return ast.unparse(_Once(variable_of).visit(_body(value)))

    shared = []
    for name, value in tables["SHARED"].items():
        shared.append(f"    {name} = {inlined(value)}")
        variable_of[ast.unparse(_body(value))] = name
    attempt = {name: inlined(value) for name, value in tables["ATTEMPT"].items()}
    instance = {name: inlined(value) for name, value in tables["INSTANCE"].items()}
    instance["parts"] = f"parts or {instance['parts']}"
    imports = [ast.unparse(node) for node in tree.body if isinstance(node, ast.ImportFrom)]
    own = [line for line in imports if "__future__" not in line and MODULE not in line]
    made = CODE.format(
        attempt=_made(AttemptOut, attempt), shared="\n".join(shared), instance=_made(InstanceOut, instance)
    )
    return "\n".join([HEAD, *own, "", made])


def main() -> None:
    (ROOT / MADE).write_text(formatted(MADE, render()), "utf-8")


if __name__ == "__main__":
    main()
