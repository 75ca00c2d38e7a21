"""Asks the cluster what applying jobs would do: of many in one request, and of each alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from raftsched.cli.jobs.job_files import Wanted
from raftsched.surface.plain import jobs

if TYPE_CHECKING:
    from raftsched.client.http import Client

_AT_ONCE = 1_000  # jobs in one question,
_BYTES_AT_ONCE = 1 << 20  # and of these so many bytes


def compare(client: Client, wanted: Wanted) -> dict[str, Any]:
    """{"result": "created", "changed" or "unchanged", "before", "after"}: what applying it would do. Raises ClientError
    as a PUT of it would."""
    return dict(client.post(jobs.COMPARE_NAMED.format(ns=wanted.namespace, name=wanted.name), wanted.body))


def compare_all(client: Client, found: Sequence[Wanted], *, newest: bool = True) -> dict[str, Mapping[str, Any]]:
    """Returns the same of many by their paths: {"result", "etag" (of the job there is)}, or {"result": "refused"}.
    Those are missing of which no node could be asked: those of earlier versions answer 404 or 405. `newest`: as of now,
    for which there has to be a leader."""
    from raftsched.client.errors import ClientError

    seen: dict[str, Mapping[str, Any]] = {}
    try:
        for some in portions([wanted for wanted in found if not wanted.expired]):
            address = jobs.COMPARE_ALL + ("?consistency=leader" if newest else "")
            answer = client.post(address, [wanted.body for wanted in some])
            seen |= {wanted.path: one for wanted, one in zip(some, answer["items"], strict=True)}
    except ClientError as e:
        if not 400 <= e.status < 500:
            raise
    return seen


def portions(found: Sequence[Wanted]) -> Iterator[list[Wanted]]:
    """Yields the jobs in their order, as many together as one question takes."""
    portion: list[Wanted] = []
    size = 0
    for wanted in found:
        portion.append(wanted)
        size += len(json.dumps(wanted.job))
        if size >= _BYTES_AT_ONCE or len(portion) >= _AT_ONCE:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def reason_of(error: Any) -> str:
    """Returns the text of a refusal, with all bad fields."""
    places = [f"{e.pointer or '/'}: {e.detail}" for e in error.errors]
    return "; ".join([error.detail, *places]) if len(places) > 1 else str(error.detail)
