"""Finds the jobs that a filter means: the rows to walk for it, and whether a job matches.

The API lists with it, and apply goes through jobs with it, so both mean the same. Most jobs need no index row for it:
one is written for a namespace other than the default one, for the owner, for each label, for the calendar, and while
a job is NEW or SUSPENDED (TAGS). Names and due times have tables of their own. What is left is walked in the order of
ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from raftsched.bounds import LABELS_MAX
from raftsched.core.model import Job, JobState, Policy
from raftsched.core.rows import decode_job
from raftsched.core.rules.filters import JobFilter
from raftsched.core.rules.references import REFERENCES_MAX, may_refer, references
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE
from raftsched.core.tables import KEY_MAX, ReadView, Table, after, day_key, due_day, from_u64, name_key, u64

TAG_SIZE = 8  # bytes
DEFAULT_NAMESPACE = "default"
TAGGED_STATES = frozenset({JobState.NEW, JobState.SUSPENDED})  # few jobs are, and people look for them
_ID_TIME_BITS = 20  # an id is a time and these


class Walk(NamedTuple):
    """The rows that hold every job that can match; of DUE together with `far`. They are in the order of ids but for
    NAMES, DUE and DUE_LATER."""

    table: Table
    low: bytes
    high: bytes | None

    @property
    def far(self) -> Walk:
        """The second part of a walk by DUE: the rows of DUE_LATER, by whole days."""
        last = None if self.high is None else after(day_key(due_day(from_u64(self.high[:8]))))
        return Walk(Table.DUE_LATER, day_key(due_day(from_u64(self.low[:8]))), last)

    @property
    def parts(self) -> tuple[Walk, ...]:
        """The walks that together come by every job that can match, in whatever order."""
        return (self, self.far) if self.table is Table.DUE else (self,)

    def rows(self, view: ReadView, after_key: bytes | None = None, *, reverse: bool = False) -> Iterator[Any]:
        """(key, value) of each, from where an earlier walk stopped."""
        low, high = self.low, self.high
        if after_key is not None:
            if reverse:
                high = after_key if high is None else min(high, after_key)
            else:
                low = max(low, after_key + b"\0")
        if high is not None and low >= high:
            return iter(())
        return view.scan(self.table, low, high, reverse=reverse)

    def job(self, view: ReadView, key: bytes, value: bytes) -> bytes | None:
        """The job's row, encoded."""
        if self.table is Table.JOBS:
            return value
        return view.get(Table.JOBS, value if self.table is Table.NAMES else key[-8:])


class _Head(msgspec.Struct, array_like=True):
    """The first fields of a Job: enough to pass over most rows without decoding them whole."""

    id: int
    namespace: str
    name: str | None
    revision: int
    state: JobState


class _Tagged(msgspec.Struct):
    """The part of a job's content that filters look at."""

    owner: str | None = None
    labels: dict[str, str] = {}


_head = msgspec.msgpack.Decoder(_Head).decode
_tagged = msgspec.json.Decoder(_Tagged).decode
_UNTAGGED = _Tagged()


# ---------------------------------------------------------------- tags


def tag(kind: str, name: str, value: str = "") -> bytes:
    """Returns the tag that stands for a value in TAGS: short, for a label may be longer than a key. Two that fall
    together cost a look at each other's jobs."""
    return blake2b(f"{kind}\0{name}\0{value}".encode(), digest_size=TAG_SIZE).digest()


_STATE_TAGS = {state: tag("state", state.name) for state in JobState}


def state_tag(state: JobState) -> bytes:
    return _STATE_TAGS[state]


def secret_tag(namespace: str, name: str) -> bytes:
    """Returns the tag of the jobs that refer to this secret."""
    return tag("secret", namespace, name)


def tags_of(namespace: str, body: bytes, policy: Policy) -> bytes:
    """The tags of a job's content, one after the other, each once."""
    calendar, notify = policy.trigger.calendar, policy.notify
    if (
        namespace == DEFAULT_NAMESPACE
        and calendar is None
        and not policy.triggers
        and policy.trigger.after is None
        and not notify
        and not may_be_tagged(body)
        and not may_refer(body)
    ):
        return b""
    found: list[bytes] = []
    if namespace != DEFAULT_NAMESPACE:
        found.append(tag("namespace", namespace))
    content = _content(body)
    if content.owner is not None:
        found.append(tag("owner", content.owner))
    for key in sorted(content.labels)[:LABELS_MAX]:
        found.append(tag("label", key, content.labels[key]))
    found += [webhook_tag(one.webhook) for one in notify]
    found += [tag("calendar", name) for name in policy.calendars]
    for reference in references(namespace, body)[:REFERENCES_MAX]:
        found.append(secret_tag(reference.namespace, reference.name))
    if policy.trigger.after is not None:
        found += [followed_tag(target) for target in policy.trigger.after.jobs]
    return b"".join(dict.fromkeys(found))


def webhook_tag(name: str) -> bytes:
    """Returns the tag of the jobs that name this webhook."""
    return tag("webhook", name)


def followed_tag(target: str) -> bytes:
    """Returns the tag of the jobs that follow this one, which is named as namespace/name."""
    return tag("after", target)


def followers(view: ReadView, target: str, behind: int = 0) -> Iterator[int]:
    """Yields the ids of the jobs with this tag, in their order, from behind an id on. Whoever looks the jobs up checks
    whether they follow: two tags may fall together."""
    prefix = followed_tag(target)
    for key, _ in view.scan(Table.TAGS, prefix + u64(behind + 1), after(prefix)):
        yield from_u64(key[8:])


def is_followed(view: ReadView, target: str) -> bool:
    """Returns whether jobs follow this one, which is named as namespace/name."""
    return next(followers(view, target), None) is not None


def split_tags(tags: bytes) -> list[bytes]:
    return [tags[at : at + TAG_SIZE] for at in range(0, len(tags), TAG_SIZE)]


def may_be_tagged(body: bytes) -> bool:
    """Returns False when this JSON cannot hold an owner or labels. It avoids `in`, which takes twice as long: that
    tries the bytes as a number first."""
    return body.find(b'"owner"') >= 0 or body.find(b'"labels"') >= 0


def _content(body: bytes) -> _Tagged:
    if not may_be_tagged(body):
        return _UNTAGGED
    try:
        return _tagged(body)
    except (ValueError, RecursionError):  # not what the API writes
        return _UNTAGGED


def content_of_body(body: bytes) -> tuple[str | None, dict[str, str]]:
    """(owner, labels) of a job's content."""
    content = _content(body)
    return content.owner, content.labels


# ---------------------------------------------------------------- walk and match


def walk(wanted: JobFilter, until_id: int | None = None) -> Walk:
    """The shortest range there is for it, as far as that can be told. `until_id`: jobs up to this one are meant, by
    somebody who goes on for long: not by due times, which move ahead when jobs fire, nor after jobs that are made
    meanwhile."""
    if wanted.namespace is not None and wanted.name is not None:
        low = name_key(wanted.namespace, wanted.name)
        return _named(low, low + b"\0")
    if until_id is None and wanted.by_due_time:
        high = None if wanted.next_to_ms is None else u64(wanted.next_to_ms)
        return Walk(Table.DUE, u64(wanted.next_from_ms or 0), high)
    if wanted.namespace is not None and wanted.name_prefix:
        low = name_key(wanted.namespace, wanted.name_prefix)
        return _named(low, after(low))
    chosen = _tag_to_walk(wanted)
    low, high = _ids(wanted)
    if until_id is not None:
        last = u64(until_id) + b"\0"
        high = last if high is None else min(high, last)
    if chosen is None:
        return Walk(Table.JOBS, low, high)
    return Walk(Table.TAGS, chosen + low, after(chosen) if high is None else chosen + high)


def _named(low: bytes, high: bytes | None) -> Walk:
    if len(low) >= KEY_MAX:
        return Walk(Table.NAMES, b"\1", b"\1")  # no name is that long: no rows
    return Walk(Table.NAMES, low, high)


def _tag_to_walk(wanted: JobFilter) -> bytes | None:
    """Returns the tag that is likely to be on the fewest jobs."""
    if wanted.labels:
        return tag("label", *wanted.labels[0])
    if wanted.owner is not None:
        return tag("owner", wanted.owner)
    if wanted.calendar is not None:
        return tag("calendar", wanted.calendar)
    if len(wanted.states) == 1 and wanted.states[0] in TAGGED_STATES:
        return state_tag(wanted.states[0])
    if wanted.namespace is not None and wanted.namespace != DEFAULT_NAMESPACE:
        return tag("namespace", wanted.namespace)
    return None


def _ids(wanted: JobFilter) -> tuple[bytes, bytes | None]:
    low = b"" if wanted.created_from_ms is None else _first_id(wanted.created_from_ms)
    high = None if wanted.created_to_ms is None else _first_id(wanted.created_to_ms)
    return low, high


def _first_id(at_ms: int) -> bytes:
    return u64(min(at_ms << _ID_TIME_BITS, 2**64 - 1))


def created_at_ms(job_id: int) -> int:
    """The time in an id."""
    return job_id >> _ID_TIME_BITS


def due_time(job: Job) -> int | None:
    """Returns when the job fires next; None also while the leader owes its next time."""
    return job.fire_at_ms


def match(wanted: JobFilter, raw: bytes, due: Callable[[Job], int | None] = due_time) -> Job | None:
    """The job of an encoded row when it matches. Deleted ones never do, the cluster's own only by their namespace.
    `due`: when a job fires next; apply goes by what is stored, who can compute times may know what the leader owes."""
    head = _head(raw)
    if head.state is JobState.DELETED or (wanted.states and head.state not in wanted.states):
        return None
    if head.namespace != wanted.namespace and (wanted.namespace is not None or head.namespace == SYSTEM_NAMESPACE):
        return None
    if not _name_matches(wanted, head.name) or not _within(
        created_at_ms(head.id), wanted.created_from_ms, wanted.created_to_ms
    ):
        return None
    job = decode_job(raw)
    if wanted.queue is not None and job.policy.queue != wanted.queue:
        return None
    if wanted.calendar is not None and wanted.calendar not in job.policy.calendars:
        return None
    if wanted.by_due_time:
        due_ms = due(job)
        if due_ms is None or not _within(due_ms, wanted.next_from_ms, wanted.next_to_ms):
            return None
    if wanted.owner is not None or wanted.labels:
        content = _content(job.body)
        if wanted.owner is not None and content.owner != wanted.owner:
            return None
        if any(content.labels.get(key) != value for key, value in wanted.labels):
            return None
    return job


def _name_matches(wanted: JobFilter, name: str | None) -> bool:
    if wanted.name is not None and name != wanted.name:
        return False
    text = name or ""
    if wanted.name_prefix is not None and not text.startswith(wanted.name_prefix):
        return False
    return wanted.name_contains is None or wanted.name_contains in text


def _within(at_ms: int, from_ms: int | None, to_ms: int | None) -> bool:
    return (from_ms is None or at_ms >= from_ms) and (to_ms is None or at_ms < to_ms)
