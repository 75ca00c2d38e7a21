"""Says why an output is not whole, or is not there any more, and which setting says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from raftsched.api.http.durations import format_duration, format_time
from raftsched.core.model import Attempt, Instance
from raftsched.core.rows import JOBS, read_meta
from raftsched.core.rules.executors import is_worker
from raftsched.core.rules.kept_output import Kept, kept_of
from raftsched.core.tables import ReadView
from raftsched.output.keeping.store import NOWHERE
from raftsched.surface.explain import OutputNote


def notes_of(view: ReadView, row: Instance, now_ms: int) -> Iterator[OutputNote]:
    """Yields what is to be said of the outputs of an instance that are not there as they were printed."""
    if all(attempt.output is None for attempt in row.attempts):
        return
    namespace = namespace_of(view, row)
    kept = kept_of(view, namespace)
    for attempt in row.attempts:
        if attempt.output is None:
            continue
        number = attempt.number
        if attempt.output.segment == NOWHERE:
            yield OutputNote(number, "too_large", too_large(attempt, namespace))
        elif aged(attempt, kept.keep_ms, now_ms):
            yield OutputNote(number, "aged", _aged_words(attempt, kept))
        elif attempt.output.truncated:
            yield OutputNote(number, "cut", _cut_words(attempt.output.truncated, kept))


def places_of(
    view: ReadView,
    row: Instance,
    now_ms: int,
    *,
    node_id: str,
    reaches: Callable[[str], bool],
    is_removed: Callable[[int], bool],
) -> Iterator[OutputNote]:
    """Yields what is to be said of outputs that would be there, and are where they cannot be read. `node_id`: of the
    node that says it; `reaches`: whether it is connected with another one; `is_removed`: whether others removed a
    segment from its own disk."""
    if all(attempt.output is None for attempt in row.attempts):
        return
    keep_ms = kept_of(view, namespace_of(view, row)).keep_ms
    members = {member.node for member in read_meta(view).members}
    for attempt in row.attempts:
        ref, node = attempt.output, attempt.output_node or attempt.node
        if ref is None or ref.segment == NOWHERE or is_worker(node) or aged(attempt, keep_ms, now_ms):
            continue
        copy = "a second copy alone, where output_copies is 2 or more"
        if node not in members:
            text = f"It is on {node}, which is no longer a member: it can be read from {copy}."
            yield OutputNote(attempt.number, "lost", text)
        elif node == node_id and is_removed(ref.segment):
            text = f"Its file was removed from the disk of {node}, and not by {node}: it can be read from {copy}."
            yield OutputNote(attempt.number, "lost", text)
        elif node != node_id and not reaches(node):
            text = f"It is on {node}, which {node_id} does not reach: until then it can be read from {copy}."
            yield OutputNote(attempt.number, "unreachable", text)


def namespace_of(view: ReadView, row: Instance) -> str:
    """Returns the namespace of the job of an instance; empty: the job is gone."""
    job = JOBS.get(view, row.job_id)
    return "" if job is None else job.namespace


def is_to_be_kept(view: ReadView, row: Instance, attempt: Attempt, now_ms: int) -> bool:
    """Returns whether its output is not older than it is to be, wherever it is."""
    return not aged(attempt, kept_of(view, namespace_of(view, row)).keep_ms, now_ms)


def aged(attempt: Attempt, keep_ms: int, now_ms: int) -> bool:
    """Returns whether its output has been there for longer than it is kept."""
    return attempt.ended_at_ms is not None and now_ms - attempt.ended_at_ms > keep_ms


def why_gone(
    attempt: Attempt,
    kept: Kept,
    namespace: str,
    node: str,
    keep_most_ms: int | None,
    now_ms: int,
    *,
    removed: bool = False,
) -> str:
    """Returns why the output that this node had is not there. `keep_most_ms`: for how long it keeps any. `removed`: it
    was to be there still, and something else removed its file."""
    if attempt.output is not None and attempt.output.segment == NOWHERE:
        return too_large(attempt, namespace)
    if aged(attempt, kept.keep_ms, now_ms):
        return f"The output is not kept any more. {_aged_words(attempt, kept)}"
    if keep_most_ms is not None and aged(attempt, keep_most_ms, now_ms):
        until = format_time((attempt.ended_at_ms or 0) + keep_most_ms)
        by = f"{node} keeps output for {format_duration(keep_most_ms)} (--output-keep)"
        return f"The output is not kept any more. It was kept until {until}: {by}."
    if removed:
        return (
            f"The output is not there any more: its file was removed from the disk of {node}, and not by {node}, or a"
            " file system was mounted over it."
        )
    share = f', or the limit output_bytes of the namespace "{namespace}"' if namespace else ""
    return (
        f"The output is not kept any more: it was deleted for room (--output-keep-bytes of {node}{share}), by age while"
        f" output_keep was shorter, with a disk that was replaced, or its file was removed from the disk of {node}"
        " before it was started last."
    )


def too_large(attempt: Attempt, namespace: str) -> str:
    """Returns why nothing of it was kept."""
    size = 0 if attempt.output is None else attempt.output.size
    return (
        f'None of its output was kept: {size:,} bytes are more than all that the namespace "{namespace}" may have on a'
        " node (its limit output_bytes)."
    )


def _aged_words(attempt: Attempt, kept: Kept) -> str:
    until = format_time((attempt.ended_at_ms or 0) + kept.keep_ms)
    return f"It was kept until {until}: {_who('output_keep', kept.keep_by)} is {format_duration(kept.keep_ms)}."


def _cut_words(left_out: int, kept: Kept) -> str:
    return (
        f"{left_out:,} bytes in the middle of its output are not there: {_who('output_max_bytes', kept.max_by)}, which"
        f" says how much is kept of an attempt, is {kept.max_bytes:,} now. --output-max of a node or worker may be"
        " lower."
    )


def _who(name: str, namespace: str | None) -> str:
    return f"the setting {name}" if namespace is None else f'{name} of the namespace "{namespace}"'
