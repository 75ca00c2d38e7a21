"""`raftsched jobs graph`: which jobs follow which, as text, for Graphviz or for Mermaid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.lazy import Command
from raftsched.cli.remote import check_namespace, find_job, remote
from raftsched.cli.terminal.output import print_json
from raftsched.surface.plain.graph import GRAPH

if TYPE_CHECKING:
    from raftsched.client.http import Client

_ENDS = {"succeeded": "", "failed": "failed", "ended": "ended"}


@click.command(cls=Command)
@click.argument("job", metavar="[JOB]", required=False)
@click.option("--namespace", "-N", metavar="NS", help="Of the jobs of this namespace.")
@click.option("-o", "fmt", type=click.Choice(["text", "dot", "mermaid", "json"]), default="text", show_default=True)
@remote
def graph(client: Client, job: str | None, namespace: str | None, fmt: str) -> None:
    """Draw which jobs follow which: around JOB, or all that there are.

    \b
      raftsched jobs graph billing/import
      raftsched jobs graph -N billing -o dot | dot -Tsvg > billing.svg
      raftsched jobs graph -o mermaid
    """
    query = {"namespace": check_namespace(namespace) if namespace else None}
    if job:
        query = {"job": find_job(client, job)["id"]}
    found = client.get(GRAPH, query)
    if fmt == "json":
        print_json(found)
        return
    draw = {"text": as_text, "dot": as_dot, "mermaid": as_mermaid}[fmt]
    for line in draw(found):
        click.echo(line)
    if not found["complete"]:
        click.echo("raftsched: there is more than one answer holds; name a job or a namespace", err=True)


def _words(edge: dict[str, Any]) -> str:
    """Returns words for an edge that is not a usual one, else nothing."""
    said = ["condition"] if edge["kind"] == "condition" else [_ENDS[edge["on"]]]
    if edge["kind"] == "after" and edge["mode"] == "any":
        said.append("any")
    return ", ".join(word for word in said if word)


def as_text(found: dict[str, Any]) -> Iterator[str]:
    """One line for each job below those that it waits for; what was drawn already is named again, and no more."""
    states = {job["name"]: job["state"] for job in found["jobs"]}
    behind: dict[str, list[dict[str, Any]]] = {}
    for edge in found["edges"]:
        behind.setdefault(edge["from"], []).append(edge)
    waiting = {edge["to"] for edge in found["edges"]}
    drawn: set[str] = set()
    tops = [name for name in states if name not in waiting]
    if not states:
        yield "no job follows another"
    for top in [*tops, *states]:  # in a circle none is at the top
        if top not in drawn:
            yield from _below(top, "", "", "", states, behind, drawn)


def _below(
    top: str,
    lead: str,
    branch: str,
    about: str,
    states: dict[str, str | None],
    behind: dict[str, list[dict[str, Any]]],
    drawn: set[str],
) -> Iterator[str]:
    stack = [(top, lead, branch, about)]
    while stack:
        name, lead, branch, about = stack.pop()
        state = states.get(name)
        notes = [note for note in (about, "" if state == "SCHEDULED" else (state or "does not exist").lower()) if note]
        again = name in drawn and name in behind
        said = f"  ({', '.join(notes)})" if notes else ""
        yield f"{lead}{branch}{name}{said}" + (" ..." if again else "")
        if again:
            continue
        drawn.add(name)
        below = behind.get(name, [])
        inner = lead + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
        for place, edge in reversed(list(enumerate(below))):
            last = place == len(below) - 1
            stack.append((edge["to"], inner, "└─ " if last else "├─ ", _words(edge)))


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def as_dot(found: dict[str, Any]) -> Iterator[str]:
    """The graph in the language of Graphviz."""
    yield "digraph jobs {"
    yield "  rankdir=LR;"
    yield "  node [shape=box];"
    for job in found["jobs"]:
        style = "" if job["state"] == "SCHEDULED" else " [style=dashed]"
        yield f"  {_quoted(job['name'])}{style};"
    for edge in found["edges"]:
        words, style = _words(edge), "style=dashed" if edge["kind"] == "condition" or edge["mode"] == "any" else ""
        said = ", ".join(part for part in (f"label={_quoted(words)}" if words else "", style) if part)
        yield f"  {_quoted(edge['from'])} -> {_quoted(edge['to'])}" + (f" [{said}];" if said else ";")
    yield "}"


def as_mermaid(found: dict[str, Any]) -> Iterator[str]:
    """The graph as Mermaid takes it, in Markdown for example."""
    yield "flowchart LR"
    ids = {job["name"]: f"j{place}" for place, job in enumerate(found["jobs"])}
    for name, short in ids.items():
        yield f"  {short}[{_quoted(name)}]"
    for edge in found["edges"]:
        words, dashed = _words(edge), edge["kind"] == "condition" or edge["mode"] == "any"
        arrow = "-.->" if dashed else "-->"
        yield f"  {ids[edge['from']]} {arrow}{f'|{words}|' if words else ''} {ids[edge['to']]}"
