"""Says of the parts of a run how many succeeded, which did not and why, which run and which wait."""

from __future__ import annotations

from itertools import islice

from raftsched.api.runs.explain_words import because, error_words
from raftsched.api.runs.parts import rows_of_parts
from raftsched.bounds import SHARDS_MAX
from raftsched.core.model import FINAL, Instance, InstanceState
from raftsched.core.rows import decode_instance
from raftsched.core.rules.executors import in_words
from raftsched.core.tables import ReadView

SHOWN = 5  # parts of a kind that one text names
LOOK_MAX = SHARDS_MAX  # parts looked at for one text: all but of a run on very many workers
_BAD = {
    InstanceState.FAILED: "failed",
    InstanceState.TIMED_OUT: "took longer than its timeout",
    InstanceState.KILLED: "was killed",
    InstanceState.SKIPPED: "was skipped",
}


def part_name(part: Instance) -> str:
    """Returns "part 2", or "the part on n2" of one that is for a node or a worker."""
    return f"part {part.shard_index}" if part.shard_count else f"the part on {in_words(part.only_on)}"


def parts_words(view: ReadView, row: Instance) -> str:
    """Returns the middle of a sentence about the parts of a run; empty: it has none."""
    parts = row.parts
    if parts is None:
        return ""
    bad: list[str] = []
    run: list[str] = []
    wait: list[str] = []
    for _, raw in islice(rows_of_parts(view, row), LOOK_MAX):
        part = decode_instance(raw)
        if part.state in _BAD:
            bad.append(_ended(part))
        elif part.live is not None:
            run.append(_runs(part))
        elif part.state not in FINAL:
            wait.append(part_name(part))
    failed = parts.failed + parts.killed
    said = [_counted(parts.succeeded, parts.total), *_some(bad, failed, "did not succeed")]
    said = [", ".join(said[:2]), *said[2:], *_some(run, len(run), "run")]
    if wait:
        said.append(f"{_listed(wait)} wait{'s' if len(wait) == 1 else ''}")
    others = 0 if row.state in FINAL else parts.total - parts.ended - len(run) - len(wait)
    if others > 0:
        said.append(f"{others:,} more are not looked at here, or not made yet")
    return "; ".join(said)


def _counted(succeeded: int, total: int) -> str:
    if succeeded == total:
        return f"all {total} parts succeeded" if total > 1 else "its one part succeeded"
    return f"{succeeded or 'none'} of {total} parts succeeded"


def _ended(part: Instance) -> str:
    text = f"{part_name(part)} {_BAD[part.state]}"
    why = error_words(part.error)
    if part.reason is not None and (part.state is InstanceState.KILLED or not why):
        why = because(part.reason)
    return f"{text}: {why}" if why else text


def _runs(part: Instance) -> str:
    what = "runs" if part.state is InstanceState.RUNNING else "is about to start"
    where = f" on {in_words(part.attempts[-1].node)}" if part.shard_count else ""  # the name of others has it
    return f"{part_name(part)} {what}{where}"


def _some(said: list[str], count: int, rest: str) -> list[str]:
    shown = said[:SHOWN]
    more = count - len(shown)
    return shown + ([f"{more:,} more {rest}"] if more > 0 else [])


def _listed(names: list[str]) -> str:
    """Such as "part 1, part 2 and 7 more"."""
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
