"""The Python client: every method with its signature and what it says of itself."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import raftsched
from scripts.website.reference.text import table

FOLDER = "reference/python"
LINE_MAX = 100  # characters of a signature in one line


def pages() -> dict[str, str]:
    """Returns a page for each part of the client, one of the client itself, and one that lists them."""
    client = raftsched.Client("http://127.0.0.1:7401", discover=False)
    try:
        parts = {name: type(value) for name, value in vars(client).items() if _is_part(name, value)}
    finally:
        client.close()
    made = {f"{FOLDER}/client.md": _class("client", raftsched.Client)}
    rows = [("[`client`](client.md)", ", ".join(f"`{name}`" for name, _ in _methods(raftsched.Client)))]
    for name, kind in parts.items():
        made[f"{FOLDER}/{name.replace('_', '-')}.md"] = _class(f"client.{name}", kind)
        methods = ", ".join(f"`{method}`" for method, _ in _methods(kind))
        rows.append((f"[`client.{name}`]({name.replace('_', '-')}.md)", methods))
    about = (
        "# The Python client\n\n`raftsched.Client` has these methods; `raftsched.AsyncClient` has the same ones,"
        " with `await` and"
        " `async for`. [By example](../../sdk.md).\n\n"
    )
    made[f"{FOLDER}/index.md"] = about + table(("part", "methods"), rows)
    return made


def _is_part(name: str, value: Any) -> bool:
    return not name.startswith("_") and type(value).__module__.startswith("raftsched.client") and name != "transport"


def _methods(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_"):
            yield name, method


def _class(title: str, kind: type[Any]) -> str:
    parts = [f"# {title}\n\n", _text(kind.__doc__)]
    if kind is raftsched.Client:
        made = signature("raftsched.Client", kind.__init__).replace(" -> None", "")
        parts += [made, _text(raftsched.AsyncClient.__init__.__doc__)]
    for name, method in _methods(kind):
        parts += [f"## {name}\n\n", signature(f"{title}.{name}", method), _text(method.__doc__)]
    return "".join(parts)


def signature(name: str, method: Any) -> str:
    """Returns how a method is called, in several lines where one would be long."""
    found = inspect.signature(method)
    parameters = [*_parameters([p for p in found.parameters.values() if p.name != "self"])]
    text = f"{name}({', '.join(parameters)}) -> {_annotation(found.return_annotation)}"
    if len(text) > LINE_MAX:
        inner = ",\n    ".join(parameters)
        text = f"{name}(\n    {inner},\n) -> {_annotation(found.return_annotation)}"
    return f"```python\n{text}\n```\n\n"


def _parameters(given: list[inspect.Parameter]) -> Iterator[str]:
    """Yields parameters as they stand between the parentheses, with the marks between their kinds."""
    kinds = [parameter.kind for parameter in given]
    named = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_POSITIONAL)
    for at, parameter in enumerate(given):
        if parameter.kind is parameter.KEYWORD_ONLY and (at == 0 or kinds[at - 1] not in named):
            yield "*"
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        yield f"{stars}{parameter.name}: {_annotation(parameter.annotation)}{default}"
        if parameter.kind is parameter.POSITIONAL_ONLY and parameter.kind not in kinds[at + 1 :]:
            yield "/"


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _text(text: str | None) -> str:
    """Returns a docstring as Markdown; a paragraph with lines further in is a program."""
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    return "".join(
        f"```python\n{one}\n```\n\n" if "\n    " in one else one.replace("<", "&lt;") + "\n\n" for one in paragraphs
    )
