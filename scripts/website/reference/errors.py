"""The codes of errors: status, exit code, and what may answer them."""

from __future__ import annotations

from collections import defaultdict

from raftsched.api.openapi.description import codes_of
from raftsched.api.routes import ROUTES
from raftsched.errors import KINDS, MEANINGS
from raftsched.surface.operation import ALWAYS
from scripts.website.reference.api import home
from scripts.website.reference.text import code, plain, table

_NAMED = 6  # operations; of what more of them answer, only how many is said


def page() -> str:
    """Returns the page."""
    by_code = defaultdict(list)
    for route in ROUTES:
        for one in codes_of(route, route.operation):
            by_code[one].append(route)
    rows = []
    for name, kind in KINDS.items():
        if name not in by_code:
            continue  # between nodes, or within one
        routes = by_code[name]
        said = ", ".join(f"[{r.method} {plain(r.path)}](api/{home(r)})" for r in routes)
        if name in ALWAYS or len(routes) > _NAMED:
            said = f"{len(routes)} of {len(ROUTES)} operations" if len(routes) < len(ROUTES) else "each operation"
        rows.append((code(name), str(kind.status), str(int(kind.exit)), plain(kind.title), said))
    about = (
        "# Errors\n\nAn error is answered as `application/problem+json` (RFC 9457): `type` is"
        " `urn:raftsched:problem:` and the"
        " code, `code` is the code alone, `detail` says what is wrong and what would be right, and `errors`"
        " names each bad field"
        " by its JSON pointer, or each bad parameter. Codes are stable: programs may rely on them. The command"
        " line ends with"
        " the exit code. The Python client raises an exception with the code: `ConflictError`, `NotFoundError`,"
        " `InvalidError`,"
        " `AuthError`, `UnavailableError`, `UnknownOutcomeError`.\n\n"
    )
    meanings = (
        "\n\n## Codes of places\n\nAn entry of `errors` has a `code` where the request is as the description of the API"
        " (`/openapi.json`) says, and is refused for what it means. An entry without one is not as described.\n\n"
    )
    places = [(code(name), plain(text)) for name, text in MEANINGS.items()]
    kinds = table(("code", "status", "exit code", "means", "answered by"), rows)
    return about + kinds + meanings + table(("code", "means"), places)
