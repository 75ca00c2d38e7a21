"""Says which name is meant where there is nothing of the one that was given: by a look at the list, one request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from raftsched.cli.completing import SOURCES, stands_for
from raftsched.cli.remote import client_again, job_ref
from raftsched.cli.terminal.limit import limited
from raftsched.client.errors import ClientError
from raftsched.errors import RaftschedError
from raftsched.surface.plain import jobs

_LIMIT_S = 2.0
_MOST = 500  # names
_PREFIX = 2  # characters of a job's name that are taken for right
_NEAR = 0.7  # of difflib's ratio: most letters are the same
_OF_JOBS = ("JOB", "JOB|RUN")


def with_near(error: RaftschedError, ctx: click.Context) -> RaftschedError:
    """Returns the error, with the name that is meant where one is near to that of which there is nothing."""
    if not isinstance(error, ClientError) or error.status != 404 or error.code != "not-found":
        return error
    for parameter in ctx.command.params:
        kind = stands_for(parameter)
        for text in _texts(ctx.params.get(parameter.name or "")):
            if kind in SOURCES and text in error.detail:
                near = _near(ctx, kind, text)
                if near is None:
                    return error
                said = error.detail.partition("; see 'raftsched")[0].removesuffix(".")
                return ClientError(error.code, f"{said}. Did you mean {near}?", status=error.status)
    return error


def _texts(given: Any) -> Iterable[str]:
    texts = [given] if isinstance(given, str) else given if isinstance(given, tuple | list) else ()
    return [text for text in texts if isinstance(text, str) and text and "@" not in text]


def _near(ctx: click.Context, kind: str, text: str) -> str | None:
    from difflib import get_close_matches

    try:
        with limited(_LIMIT_S, TimeoutError()):
            if kind in _OF_JOBS:
                return _near_job(ctx, text)
            known = [item.value for item in SOURCES[kind](client_again(ctx), "", "")]
    except Exception:  # it is a hint; what is wrong is said without it
        return None
    return next(iter(get_close_matches(text, known, 1, _NEAR)), None)


def _near_job(ctx: click.Context, text: str) -> str | None:
    """Returns the job of this name in another namespace, or the one whose whole name is nearest."""
    from difflib import get_close_matches

    namespace, _, name = text.rpartition("/")
    query = {"name_prefix": name[:_PREFIX], "limit": _MOST, "fields": "id,namespace,name"}
    found = [job for job in client_again(ctx).get(jobs.LIST, query)["items"] if job["name"]]
    whole = {f"{job['namespace']}/{job['name']}": job_ref(job) for job in found}
    same = [ref for job in found if job["name"] == name and (ref := job_ref(job)) != text]
    near = get_close_matches(f"{namespace or 'default'}/{name}", whole, 1, _NEAR)
    if near and (namespace or not same):
        return whole[near[0]]
    return same[0] if same else None
