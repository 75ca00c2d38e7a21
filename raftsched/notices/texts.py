"""Writes a notification in plain sentences, for people: what happened, to what, where, and an address to look at."""

from __future__ import annotations

from datetime import UTC, datetime

from raftsched.core.ids import job_text, split_instance
from raftsched.core.model import InstanceState
from raftsched.core.rules.executors import in_words
from raftsched.core.subjects.notices import OF_CLUSTER, Event, Notice
from raftsched.error_texts import telling_line
from raftsched.notices.cloudevents import subject_of
from raftsched.quantities import format_duration

ERROR_LINES_MAX = 5
ERROR_MAX = 500  # characters

_WHAT = {
    Event.SUCCEEDED: "succeeded",
    Event.FAILED: "failed",
    Event.TIMED_OUT: "timed out",
    Event.KILLED: "was killed",
    Event.SKIPPED: "was skipped",
    Event.DEAD_LETTER: "failed for good and waits to be requeued or discarded",
    Event.LOST: "failed because its worker was lost",
    Event.STARTED: "started",
    Event.LATE: "is late",
    Event.RUNNING_LONG: "runs long",
    Event.NOT_RUN_SINCE: "has not succeeded for too long",
    Event.LEADER_CHANGED: "leads now",
    Event.NODE_LOST: "was lost",
    Event.NODE_BACK: "is back",
    Event.DISK_SHORT: "is short of disk",
}


_WHY_SKIPPED = {  # Instance.reason of a SKIPPED record
    "overlap": "another run of the job was active",
    "misfire": "it was too late to start it",
    "start_deadline": "no node could take it in time",
    "skip_next": "somebody asked for that",
    "restored": "it may have run between a backup and the restore of that",
    "suspended": "the job was suspended",
    "edited": "the job was changed before it was fired",
}


def headline(notice: Notice, webhook: str) -> str:
    """Returns what happened, in a few words on one line."""
    if notice.event is None:
        return f"Test of {webhook}"
    if notice.event in OF_CLUSTER:
        return f"Node {notice.node} {_WHAT[notice.event]}"
    return f"{_job(notice)} {_WHAT[notice.event]}"


def sentences(notice: Notice, webhook: str) -> str:
    """Returns what happened, and what is known of it."""
    said = [_first(notice, webhook)]
    if notice.instance and notice.event is not None:
        said.append(_where(notice))
    if notice.left_out:
        events = "1 more event was" if notice.left_out == 1 else f"{notice.left_out} more events were"
        said.append(f"Before this {events} left out: there were too many in a time.")
    if notice.repeats:
        times = "time" if notice.repeats == 1 else "times"
        said.append(f"That came about {notice.repeats} more {times} shortly before.")
    return " ".join(part for part in said if part)


def slack_text(notice: Notice, webhook: str, page: str) -> str:
    """Returns the text for Slack and what takes the same. What others wrote cannot address people in it, or link
    elsewhere: `<`, `>` and `&` are escaped, and an error stands in a block where nothing has a meaning."""
    parts = [_escaped(sentences(notice, webhook))]
    error = error_of(notice)
    if error:
        parts.append(f"```\n{_escaped(error).replace('```', chr(39) * 3)}\n```")
    link = link_of(notice, page)
    if link is not None:
        parts.append(f"<{link}>")
    return "\n".join(parts)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def error_of(notice: Notice) -> str:
    """Returns the first lines of the error, or what happened and its last lines where these say it; empty when there is
    none."""
    lines = [line.rstrip() for line in (notice.error or "").strip().splitlines() if line.strip()]
    what = telling_line(notice.error or "")
    if lines and what != lines[0].strip():
        others = [line for line in lines[1:] if not what.endswith(line.strip())]
        lines = [what, *others[1 - ERROR_LINES_MAX :]]
    text = "\n".join(lines[:ERROR_LINES_MAX])
    return text if len(text) <= ERROR_MAX and len(lines) <= ERROR_LINES_MAX else text[: ERROR_MAX - 4].rstrip() + " ..."


def link_of(notice: Notice, page: str) -> str | None:
    """Returns the address of the run or the job on the page. `page`: of the page itself; empty: it is not known."""
    if not page:
        return None
    base = page.rstrip("/").removesuffix("/ui") + "/ui"
    if notice.instance:
        return f"{base}/runs/{subject_of(notice)}"
    if notice.job_id:
        return f"{base}/jobs/{subject_of(notice)}"
    return f"{base}/cluster" if notice.node else None


def _job(notice: Notice) -> str:
    if notice.job_name is not None:
        return f"{notice.namespace}/{notice.job_name}"
    job_id = notice.job_id or split_instance(notice.instance)[1]
    return f"{notice.namespace}/{job_text(job_id)}"


def _first(notice: Notice, webhook: str) -> str:
    event, limit = notice.event, format_duration(notice.limit_ms)
    since = "" if notice.since_ms is None else _time(notice.since_ms)
    if event is None:
        return f"This is a test of the webhook {webhook}: it works."
    if event is Event.LEADER_CHANGED:
        return f"The node {notice.node} leads the cluster now, after {notice.reason}."
    if event is Event.NODE_LOST:
        return f"The node {notice.node} was not heard of any more. Its runs were lost, and run again elsewhere."
    if event is Event.NODE_BACK:
        return f"The node {notice.node} is back."
    if event is Event.DISK_SHORT:
        return f"The disk of the node {notice.node} is nearly full. The cluster may take no more writes."
    if event is Event.NOT_RUN_SINCE:
        return f"The job {_job(notice)} has not succeeded for {limit}, since {since}."
    due = _time(split_instance(notice.instance)[0])
    run = f"The run of {_job(notice)} for {due}"
    if event is Event.SKIPPED:
        return f"{run} was skipped: {_WHY_SKIPPED.get(notice.reason or '', 'it was left out')}."
    if event is Event.LATE:
        started = notice.started_at_ms
        how = "has not started yet" if started is None else f"started at {_time(started)}"
        return f"{run} is late: it was due at {since}, may start {limit} after that, and {how}."
    if event is Event.RUNNING_LONG:
        return f"{run} takes longer than {limit}: it runs since {since}."
    code = "" if notice.exit_code is None else f" with exit code {notice.exit_code}"
    return f"{run} {_WHAT[event]}{code if event is not Event.SUCCEEDED else ''}."


def _where(notice: Notice) -> str:
    about = f"It is {subject_of(notice)}"
    if not notice.attempt:
        return f"{about}."
    over = notice.state not in (InstanceState.LAUNCHED, InstanceState.RUNNING)
    return f"{about}, attempt {notice.attempt} {'ran' if over else 'runs'} on {in_words(notice.node)}."


def _time(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
