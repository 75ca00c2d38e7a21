"""The description of the API, for programs and for people."""

from __future__ import annotations

from raftsched.surface.operation import JSON, Operation, Reply

HTML = "text/html"

OPENAPI = Operation(
    "documents_openapi",
    "GET",
    "/openapi.json",
    "API description in OpenAPI 3.1",
    {200: Reply({"type": "object"}, "OpenAPI.", (), JSON)},
    role="open",
    says=(
        "Describes all operations with their parameters, bodies, answers and problems, for programs that make clients "
        "or check requests."
    ),
)
PAGE = Operation(
    "documents_page",
    "GET",
    "/docs",
    "API documentation as a web page",
    {200: Reply({"type": "string"}, "A page.", (), HTML)},
    role="open",
    says="The same as /openapi.json, for people. It needs no script, and nothing from anywhere else.",
)
