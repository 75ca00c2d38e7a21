"""Links of the OpenAPI description: from an answer that says what was made to all that can be asked about it.

Where that is follows from the operations: an answer with a Location is about the thing that a GET of one thing
answers in the same form. Where the form is another one, the answer says so itself (`Reply.leads_to`)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any

from raftsched.api.serving import Route
from raftsched.surface.operation import Reply, Special

_PLACE = re.compile(r"\{([a-z]+)\}")
_SAID = {"ns": "name"}  # part of an address -> the field of an answer that says it, where that is called otherwise
_REFERENCE = "#/components/links/{name}"


class Links:
    """Finds the links of each answer, and keeps those that were found as components."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        self._used: dict[str, dict[str, Any]] = {}

    def of(self, answer: Reply) -> dict[str, Any]:
        """Returns links by name, as references."""
        path = answer.leads_to or self._path_of(answer)
        place = _PLACE.search(path)
        if place is None:
            return {}
        found = {}
        for route in self._routes:
            if len(_PLACE.findall(route.path)) == 1 and (route.path == path or route.path.startswith(f"{path}/")):
                name = route.operation_id
                expression = f"$response.body#/{_SAID.get(place[1], place[1])}"
                self._used[name] = {"operationId": name, "parameters": {place[1]: expression}}
                found[name] = {"$ref": _REFERENCE.format(name=name)}
        return found

    def components(self) -> dict[str, Any]:
        return dict(sorted(self._used.items()))

    def _path_of(self, answer: Reply) -> str:
        """Returns the path of the GET that answers one such thing; empty when there is none."""
        if "Location" not in answer.headers:
            return ""
        for route in self._routes:
            declared = route.operation
            if route.method != "GET" or 200 not in declared.answers or not route.path.endswith("}"):
                continue
            places = _PLACE.findall(route.path)
            if len(places) == 1 and _is_one(answer.schema, declared.answers[200].schema):
                return route.path
        return ""


def _is_one(made: Any, shown: Any) -> bool:
    """Returns whether what was made is shown in the same form, or says more than is shown later."""
    if isinstance(made, Special):
        return made is shown
    return inspect.isclass(made) and inspect.isclass(shown) and issubclass(made, shown)
