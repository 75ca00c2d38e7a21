"""Writes raftsched/ui/static/core/roles.js from the operations of the API: the role that each needs of
which the page asks, and which of them are about no namespace, or about all. The page offers nothing that the token may
not do.

What it says is what `raftsched.api.auth.access` decides for tokens that do not have one role everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from raftsched.api.routes import ROUTES
from raftsched.api.serving import Route
from raftsched.surface.operation import Operation

STATIC = Path(__file__).resolve().parent.parent / "raftsched" / "ui" / "static"
PATH = STATIC / "core" / "roles.js"
_HEAD = """/**
 * The role that each operation needs of which a page asks; another one is for admins. Made by scripts/make-page-roles;
 * not edited by hand.
 */
"""


def render(*, every: bool = False) -> str:
    """Returns the module; `every`: with the operations of which no page asks, too."""
    asked = (lambda _: True) if every else _asked()
    declared = sorted(
        ((route, route.operation) for route in ROUTES if asked(route.operation_id)),
        key=lambda one: one[0].operation_id,
    )
    roles = "".join(f'  {route.operation_id}: "{said.role or "admin"}",\n' for route, said in declared)
    shared = "".join(f'  "{route.operation_id}",\n' for route, said in declared if said.scope == "shared")
    whole = "".join(f'  "{route.operation_id}",\n' for route, said in declared if _of_all(route, said))
    return (
        f"{_HEAD}\nexport const ROLES = {{\n{roles}}};\n\n"
        "/** Operations on what is in no namespace: a role that a grant gives does not do. */\n"
        f"export const SHARED = new Set([\n{shared}]);\n\n"
        "/** Operations on what is in all namespaces: the role has to hold in all. */\n"
        f"export const WHOLE = new Set([\n{whole}]);\n"
    )


def _asked() -> Callable[[str], object]:
    """Returns whether a page asks for an operation: its name stands there, or the kind of resource that it is about."""
    scripts = "".join(path.read_text("utf-8") for path in STATIC.rglob("*.js") if path != PATH)
    kinds = re.findall(r'\boperations: "(\w+)"', scripts)
    return re.compile("|".join([*re.findall(r'"(\w+)"', scripts), *(rf"{kind}_\w+" for kind in kinds)])).fullmatch


def _of_all(route: Route, said: Operation) -> bool:
    return not (said.role == "open" or said.scope or "{ns}" in route.path or "namespace" in said.query)


if __name__ == "__main__":
    PATH.write_text(render(), "utf-8")
