"""The reference: pages that are made from the code when the site is built, and lie nowhere else."""

from __future__ import annotations

from collections.abc import Iterator

from scripts.website.reference import api, commands, errors, fields, limits, sdk, settings

FOLDER = "reference/"
NAV = (("Command line", "reference/commands/"), ("HTTP API", "reference/api/"), ("Python client", "reference/python/"))
_ALONE = {
    "reference/job.md": fields.page,
    "reference/settings-node.md": settings.node,
    "reference/settings-worker.md": settings.worker,
    "reference/errors.md": errors.page,
    "reference/limits.md": limits.page,
}


def pages() -> dict[str, str]:
    """Returns all pages: path and text."""
    return {
        "reference/index.md": _INDEX,
        **{path: make() for path, make in _ALONE.items()},
        **commands.pages(),
        **api.pages(),
        **sdk.pages(),
    }


def nav(paths: list[str]) -> Iterator[str | dict[str, list[str]]]:
    """Yields the entries of the navigation for these pages: those of a folder as a section of their own."""
    yield from ["reference/index.md", *_ALONE]
    for title, folder in NAV:
        within = sorted(
            (path for path in paths if path.startswith(folder)), key=lambda path: path != f"{folder}index.md"
        )
        yield {title: within}


_INDEX = """\
# Reference

Made from the code of this version: every command, operation, setting and bound is here, as the program has it.

| to look up | |
|---|---|
| what a job may say | [every field of a job](job.md) |
| commands | [the command line](commands/index.md), and [what all commands share](../command-line.md) |
| requests, answers, roles | [the HTTP API](api/index.md), by example [here](../api.md) |
| methods of `raftsched.Client` | [the Python client](python/index.md), by example [here](../sdk.md) |
| what an error means | [errors](errors.md) |
| settings | of [the cluster](../settings.md), [a node](settings-node.md), [a remote worker](settings-worker.md) |
| how large anything may be | [limits](limits.md) |
| what a node measures | [metrics](../metrics.md) |
"""
