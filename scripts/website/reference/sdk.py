"""The Python client: every method with its signature and what it says of itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import raftsched
from scripts.website.reference.text import table

FOLDER = "reference/python"


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
        signature = _signature("raftsched.Client", kind.__init__).replace(" -> None", "")
        parts += [signature, _text(raftsched.AsyncClient.__init__.__doc__)]
    for name, method in _methods(kind):
        parts += [f"## {name}\n\n", _signature(f"{title}.{name}", method), _text(method.__doc__)]
    return "".join(parts)


def _signature(name: str, method: Any) -> str:
    signature = inspect.signature(method)
    given = [p for p in signature.parameters.values() if p.name != "self"]
    signature = signature.replace(parameters=given)
    text = f"{name}{signature}".replace("raftsched.client.", "")
    text = re.sub(r"'([\w.\[\], |]+)'(?=[,)= ]|$)", r"\1", text)  # annotations are text
    if len(text) > 100:
        head, _, tail = text.partition("(")
        inner = ",\n    ".join(_parameters(given))
        ending = re.sub(r"'", "", f" -> {signature.return_annotation}")
        text = f"{head}(\n    {inner},\n){ending}" if tail else text
    return f"```python\n{text}\n```\n\n"


def _parameters(given: list[inspect.Parameter]) -> Iterator[str]:
    """Yields parameters as they stand between the parentheses, with the marks between their kinds."""
    kinds = [parameter.kind for parameter in given]
    for at, parameter in enumerate(given):
        before = kinds[at - 1] if at else None
        if parameter.kind is parameter.KEYWORD_ONLY and before not in (
            parameter.KEYWORD_ONLY,
            parameter.VAR_POSITIONAL,
        ):
            yield "*"
        yield _plain(str(parameter))
        if parameter.kind is parameter.POSITIONAL_ONLY and parameter.kind not in kinds[at + 1 :]:
            yield "/"


def _plain(parameter: str) -> str:
    name, colon, kind = parameter.partition(": ")
    return name + colon + kind.replace("'", "")


def _text(text: str | None) -> str:
    """Returns a docstring as Markdown; a paragraph with lines further in is a program."""
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    return "".join(
        f"```python\n{one}\n```\n\n" if "\n    " in one else one.replace("<", "&lt;") + "\n\n" for one in paragraphs
    )
