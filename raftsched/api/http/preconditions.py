"""ETags, and the preconditions of requests that name them (RFC 9110, sections 8.8.3 and 13.1).

An ETag is `"REVISION"`, and no revision is ever given twice. Jobs count their own revisions, from 1 on, and a name may
be that of another job later: theirs is `"ID.REVISION"`, since no id is given twice.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from aiohttp import web

from raftsched.api.http.problems import Problem
from raftsched.core.ids import parse_job

_TAG = re.compile(r'\s*"([0-9]{1,18})"\s*', re.ASCII)
_JOB_TAG = re.compile(r'\s*"(?:([0-9a-z]{13})\.)?([0-9]{1,18})"\s*', re.ASCII)
_EXAMPLE = '"0d3k5xw2a9f5m.3"'


class Tag(NamedTuple):
    """An ETag of If-Match, read. `job_id`: None where it is not that of a job, or a job's revision alone."""

    revision: int
    job_id: int | None = None


def etag_of(revision: int) -> str:
    return f'"{revision}"'


def job_etag(job_id: str, revision: int) -> str:
    """`job_id`: as text."""
    return f'"{job_id}.{revision}"'


def if_match(request: web.Request, *, of_job: bool) -> Tag | None:
    """Returns what the caller wants to change; None: whatever is there. A job that is addressed by its name
    is named by its whole ETag: another job may have come to the name since, with the same revision. Raises Problem
    invalid-parameter."""
    text = request.headers.get("If-Match")
    if text is None or text.strip() == "*":
        return None
    if not of_job:
        match = _TAG.fullmatch(text)
        if match is None:
            raise Problem("invalid-parameter", 'If-Match must be one ETag as it was answered, such as "3", or *.')
        return Tag(int(match[1]))
    match = _JOB_TAG.fullmatch(text)
    job_id = None if match is None or match[1] is None else parse_job(match[1])
    if match is None or (match[1] is not None and job_id is None):
        raise Problem("invalid-parameter", f"If-Match must be one ETag as it was answered, such as {_EXAMPLE}, or *.")
    if job_id is None and "name" in request.match_info:
        raise Problem(
            "invalid-parameter",
            f"If-Match {text.strip()} is a revision alone, which another job of this name may have as well; send the "
            f"whole ETag as it was answered, such as {_EXAMPLE}, or address the job by its id.",
        )
    return Tag(int(match[2]), job_id)


def create_only(request: web.Request) -> bool:
    """Returns whether If-None-Match: * was given on a write. Raises Problem invalid-parameter."""
    text = request.headers.get("If-None-Match")
    if text is None:
        return False
    if text.strip() != "*":
        raise Problem("invalid-parameter", "If-None-Match must be * with a write: create only.")
    return True


def not_modified(request: web.Request, etag: str) -> bool:
    """Returns whether If-None-Match on a read has this ETag."""
    text = request.headers.get("If-None-Match")
    if text is None:
        return False
    tags = {tag.strip().removeprefix("W/") for tag in text.split(",")}
    return "*" in tags or etag in tags
