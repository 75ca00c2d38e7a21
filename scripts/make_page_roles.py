"""Writes raftsched/ui/static/core/roles.js from the declarations of the API's operations: the role that each needs, and
which of them belong to no namespace. The page offers nothing that the token may not do."""

from __future__ import annotations

from pathlib import Path

from raftsched.api.openapi.operation import OPERATIONS
from raftsched.api.routes import ROUTES

PATH = Path(__file__).resolve().parent.parent / "raftsched" / "ui" / "static" / "core" / "roles.js"
_HEAD = "/** The role that each operation needs. Made by scripts/make-page-roles; not edited by hand. */\n"


def render() -> str:
    declared = sorted(
        {route.operation_id: OPERATIONS[route.handler] for route in ROUTES}.items(), key=lambda item: item[0]
    )
    roles = "".join(f'  {name}: "{said.role or "admin"}",\n' for name, said in declared)
    shared = "".join(f'  "{name}",\n' for name, said in declared if said.scope == "shared")
    return (
        f"{_HEAD}\nexport const ROLES = {{\n{roles}}};\n\n"
        f"/** Operations on what is in no namespace: a role that holds in some namespaces only does not do. */\n"
        f"export const SHARED = new Set([\n{shared}]);\n"
    )


if __name__ == "__main__":
    PATH.write_text(render(), "utf-8")
