"""Puts jobs that differ from what is there, each on the condition that nobody changed it since it was compared."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from raftsched.cli.jobs.comparing import compare, compare_all
from raftsched.cli.jobs.job_files import Wanted
from raftsched.surface.plain import audit, job_actions

if TYPE_CHECKING:
    from concurrent.futures import Future

    from raftsched.client.errors import ClientError
    from raftsched.client.http import Answer, Client

AT_ONCE = 8  # requests under way
_NEW = {"If-None-Match": "*"}


class Changed(Exception):
    """Somebody else changed the job since it was compared; the text says who, where that can be known."""

    def __init__(self, error: ClientError, why: str) -> None:
        super().__init__(why)
        self.error = error


def put(client: Client, wanted: Wanted, seen: Mapping[str, Any] | None) -> str:
    """Makes the job what the file says, if it still is as it was compared: `seen`, see `compare_all`. Returns
    "created", "changed" or "unchanged". Raises ClientError, Changed."""
    result = None if seen is None else seen["result"]
    if result == "unchanged":
        return "unchanged"
    if result == "created":
        return _on_condition(client, wanted, _NEW, "created")
    if seen is not None and "etag" in seen:
        return _on_condition(client, wanted, {"If-Match": seen["etag"]}, "changed")
    return _alone(client, wanted)


def _on_condition(client: Client, wanted: Wanted, condition: Mapping[str, str], result: str) -> str:
    from raftsched.client.errors import ClientError

    try:
        job = _put(client, wanted, condition).json()
        if wanted.job.get("suspended") is True and job["state"] == "SCHEDULED":
            # By a node of an earlier version, or below the level: there a PUT with If-Match pauses nothing.
            client.request("POST", job_actions.PAUSE.format(id=job["id"]), body={}, headers=_match(job))
        return result
    except ClientError as e:
        _require_there(client, wanted, e)
        return result


def _require_there(client: Client, wanted: Wanted, error: ClientError) -> None:
    """Returns when the job is as the file says although a PUT on a condition was refused: by an attempt of the same PUT
    that was not answered, or by another caller who wants the same. Else raises the error, or Changed."""
    from raftsched.client.errors import ClientError

    if error.status != 412 and error.code != "unknown-outcome":
        raise error
    try:
        seen = compare_all(client, [wanted]).get(wanted.path) or compare(client, wanted)
    except ClientError:
        raise error from None
    if seen["result"] == "unchanged":
        return
    if error.status != 412:
        raise error
    raise Changed(error, meanwhile(client, wanted.path)) from None


def _put(client: Client, wanted: Wanted, condition: Mapping[str, str]) -> Answer:
    from raftsched.client.errors import ClientError

    try:
        return client.request("PUT", wanted.path, body=wanted.body, headers=condition)
    except ClientError as e:
        if "If-Match" not in condition or e.code != "invalid-parameter":
            raise
    return client.request("PUT", wanted.path, body=wanted.body)  # a node of 0.2.0 does not know the ETags of later ones


def _match(job: Mapping[str, Any]) -> dict[str, str]:
    return {"If-Match": f'"{job["id"]}.{job["revision"]}"'}


def _alone(client: Client, wanted: Wanted) -> str:
    """Puts a job that was not compared, or would have been refused, which its own PUT says best."""
    from raftsched.client.errors import ClientError

    before = current(client, wanted.path)
    pauses = wanted.job.get("suspended") is True  # which with If-Match not all versions do
    condition = _NEW if before is None else {} if pauses else _match(before)
    try:
        answer = _put(client, wanted, condition)
    except ClientError as e:
        _require_there(client, wanted, e)
        return "created" if before is None else "changed"
    if answer.status == 201:
        return "created"
    job = answer.json()
    same = before is not None and all(before[field] == job[field] for field in ("id", "revision", "state"))
    return "unchanged" if same else "changed"


def current(client: Client, path: str) -> dict[str, Any] | None:
    """The job by its address; None: there is none."""
    from raftsched.client.errors import ClientError

    try:
        return dict(client.get(path))
    except ClientError as e:
        if e.status != 404 or e.code != "not-found":
            raise
        return None


def meanwhile(client: Client, path: str) -> str:
    """Says of a job what somebody else did to it; who that was, for callers that may read the audit."""
    from raftsched.client.errors import ClientError

    job = current(client, path)
    if job is None:
        return "deleted meanwhile; run again"
    by = ""
    try:
        notes = client.get(audit.LIST, {"resource": job["id"], "limit": 1})["items"]
        by = f" by {notes[0]['actor']}" if notes else ""
    except (ClientError, LookupError, TypeError):
        pass
    return f"changed meanwhile{by}, it is at revision {job['revision']}; run again"


def each(
    client: Client, items: Sequence[Wanted], act: Callable[[Client, Wanted], None], done: Callable[[], None]
) -> None:
    """Calls `act` for each, AT_ONCE at a time, and `done` after each. A job that waits for others is alone: whether it
    may depends on what those before it have become, and what comes after it must find it there. An exception of `act`
    is raised as soon as what is under way has ended; what comes after it in the list is not begun then."""
    from concurrent.futures import ThreadPoolExecutor

    own = threading.local()
    stop = threading.Event()

    def one(item: Wanted) -> None:
        if stop.is_set():
            return
        if not hasattr(own, "client"):
            own.client = client.twin()
        try:
            act(own.client, item)
        except BaseException:
            stop.set()
            raise

    under_way: deque[Future[None]] = deque()

    def wait(left: int) -> None:
        while len(under_way) > left:
            under_way.popleft().result()
            done()

    with ThreadPoolExecutor(AT_ONCE, "apply") as pool:
        try:
            for item in items:
                alone = _waits(item.job)
                wait(0 if alone else AT_ONCE - 1)
                under_way.append(pool.submit(one, item))
                if alone:
                    wait(0)
            wait(0)
        except BaseException:  # also Ctrl-C
            stop.set()
            raise


def _waits(job: Mapping[str, Any]) -> bool:
    trigger = job.get("trigger")
    return bool(job.get("conditions")) or (isinstance(trigger, Mapping) and "after" in trigger)
