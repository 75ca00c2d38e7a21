"""An OpenAPI description as one page of HTML: no scripts, no fonts, no pictures, nothing from anywhere else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --word: #0a58ca; }
@media (prefers-color-scheme: dark) { :root { --word: #7ab8ff; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 62rem; padding: 1rem; }
code, .way { font-family: ui-monospace, monospace; font-size: .92em; }
a { color: var(--word); }
nav a { margin-right: 1em; white-space: nowrap; }
h2 { border-bottom: 1px solid var(--line); margin-top: 2.5rem; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .4rem 0; padding: 0 .8rem; }
details[open] { padding-bottom: .6rem; }
summary { cursor: pointer; padding: .5rem 0; }
.way { font-weight: 600; }
.method { display: inline-block; min-width: 4.5em; }
table { border-collapse: collapse; width: 100%; }
td, th { border-top: 1px solid var(--line); padding: .25rem .6rem .25rem 0; text-align: left; vertical-align: top; }
th { font-weight: 600; }
p { margin: .5rem 0; }
"""


def render(document: dict[str, Any]) -> str:
    """`document`: OpenAPI 3.1 as JSON would give it."""
    info = document["info"]
    by_tag: dict[str, list[str]] = {tag["name"]: [] for tag in document["tags"]}
    named = document["components"]["responses"]
    for path, methods in document["paths"].items():
        for method, one in methods.items():
            by_tag[one["tags"][0]].append("".join(_operation(method.upper(), path, one, named)))
    schemas = document["components"]["schemas"]
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(info['title'])} API</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info['description'])}</p>",
        '<p>For programs: <a href="/openapi.json">/openapi.json</a>. To read: <a href="/ui/docs/api/">by example</a>, '
        '<a href="/ui/docs/reference/errors/">what errors mean</a>.</p>',
        "<nav>",
        *(f'<a href="#tag-{escape(tag)}">{escape(tag)}</a> ' for tag in by_tag),
        '<a href="#types">types</a></nav>',
        *(f'<h2 id="tag-{escape(tag)}">{escape(tag)}</h2>{"".join(found)}' for tag, found in by_tag.items()),
        '<h2 id="types">types</h2>',
        *("".join(_type(name, schema)) for name, schema in schemas.items()),
        "</body></html>",
    ]
    return "".join(parts)


def _operation(method: str, path: str, one: dict[str, Any], named: dict[str, Any]) -> Iterator[str]:
    """`named`: the answers that are referred to."""
    name = escape(one["operationId"])
    yield f'<details id="{name}"><summary><span class="way"><span class="method">{method}</span>'
    yield f" {escape(path)}</span> {escape(one['summary'])}</summary>"
    if one.get("description"):
        yield f"<p>{escape(one['description'])}</p>"
    if one["parameters"]:
        rows: Iterable[tuple[str, ...]] = (
            (f"<code>{escape(p['name'])}</code>", p["in"], _schema(p["schema"]), escape(p.get("description", "")))
            for p in one["parameters"]
        )
        yield _table(("parameter", "in", "type", "meaning"), rows)
    if "requestBody" in one:
        yield "<p><b>Body</b>" + ("" if one["requestBody"]["required"] else " (may be left out)") + "</p>"
        rows = ((f"<code>{escape(media)}</code>", _schema(c["schema"])) for media, c in _content(one["requestBody"]))
        yield _table(("type", "content"), rows)
    yield _table(("status", "meaning", "content"), (_answer(s, a, named) for s, a in one["responses"].items()))
    yield "</details>"


def _content(one: dict[str, Any]) -> list[tuple[str, Any]]:
    return list(one.get("content", {}).items())


def _answer(status: str, answer: dict[str, Any], named: dict[str, Any]) -> tuple[str, ...]:
    answer = named[answer["$ref"].rpartition("/")[2]] if "$ref" in answer else answer
    what = ", ".join(_schema(content["schema"]) for _, content in _content(answer)) or "nothing"
    return f"<code>{status}</code>", escape(answer["description"]), what


def _type(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f'<details id="type-{escape(name)}"><summary><span class="way">{escape(name)}</span></summary>'
    if schema.get("description"):
        yield f"<p>{escape(schema['description'])}</p>"
    ways = schema.get("oneOf") or [schema]
    for way in ways:
        if len(ways) > 1:
            yield f"<p><b>{escape(way.get('title', ''))}</b></p>"
        needed = way.get("required", ())
        rows = (
            (
                f"<code>{escape(field)}</code>{' *' if field in needed else ''}",
                _schema(one),
                escape(one.get("description", "")),
            )
            for field, one in way.get("properties", {}).items()
            if one not in ({"type": "null"}, {"const": False, "type": "boolean"})
        )
        yield _table(("field (* always)", "type", "meaning"), rows)
    yield "</details>"


def _schema(schema: dict[str, Any]) -> str:
    """A short word for it, with a link where there is a type."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#type-{name}">{name}</a>'
    for key, joint in (("anyOf", " or "), ("oneOf", " or "), ("allOf", ", ")):
        if key in schema:
            words = [_schema(one) for one in schema[key] if one.get("type") or "$ref" in one or "const" in one]
            return joint.join(dict.fromkeys(words)) or "any"
    if "const" in schema:
        return f"<code>{escape(str(schema['const']))}</code>"
    if "enum" in schema:
        return ", ".join(f"<code>{escape(str(one))}</code>" for one in schema["enum"])
    kind = schema.get("type", "any")
    kinds = [kind] if isinstance(kind, str) else kind
    if "array" in kinds:
        return f"list of {_schema(schema.get('items', {}))}"
    bounds = ""
    if "minimum" in schema or "maximum" in schema:
        bounds = f" {schema.get('minimum', '')} to {schema.get('maximum', '')}"
    return escape(" or ".join(kinds) + bounds)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    top = "".join(f"<th>{name}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{top}</tr>{body}</table>"
