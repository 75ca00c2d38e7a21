"""`raftsched forecast`: what is due next, the busiest times first, and whether there are slots for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from raftsched.cli.jobs.minutes import STEPS
from raftsched.cli.lazy import Command
from raftsched.cli.remote import check_namespace
from raftsched.cli.resources.resource import viewing
from raftsched.cli.terminal.output import print_for_programs, width
from raftsched.cli.terminal.table import cut, fold
from raftsched.cli.terminal.values import shown
from raftsched.surface.plain.enums import STEP_NAME
from raftsched.surface.plain.forecast import FORECAST

if TYPE_CHECKING:
    from raftsched.client.http import Client

_LINES = 24  # of the chart, or as few as are nearest to it
_WIDTH = 80  # columns, unless the terminal has fewer
_INDENT = 10  # of lists of names
_FIGURE = 13  # a number behind a name
_FIGURES = 41  # all numbers behind the name of a queue
_BAR_FROM = 36  # where bars begin
_TIGHT = 5  # stretches without slots that are listed of one queue


@click.command(cls=Command)
@click.option("--namespace", "-N", metavar="NS", help="Of the jobs of this namespace.  [default: of all]")
@click.option("--queue", metavar="QUEUE", help="Of the jobs of this queue.  [default: of all]")
@click.option("--from", "start", metavar="TIME", help="From this time on (RFC 3339).  [default: now]")
@click.option("--to", "end", metavar="TIME", help="Up to this time, instead of --for.")
@click.option("--for", "length", metavar="DURATION", help="For so long, such as 6h or 7d.  [default: 24h]")
@click.option(
    "--step",
    type=click.Choice(STEP_NAME),
    help="The length of a step.  [default: 1m, or the shortest that makes 1,500 steps at most]",
)
@viewing
def forecast(
    client: Client,
    fmt: str,
    namespace: str | None,
    queue: str | None,
    start: str | None,
    end: str | None,
    length: str | None,
    step: str | None,
) -> None:
    """Show how many runs are due, the busiest times first, beside the slots there are.

    DUE are runs by their nominal time, before jitter: exactly those of cron, every, rrule, at and in, with calendars,
    time zones and the number of runs that is left. Runs after a fixed delay, or after other jobs, are estimates (as if
    all succeeded), and said apart. Paused jobs count from the time until which they are paused, or not at all.

    BUSY are the slots that these runs are expected to take: as many runs as are due, for as long as the newest runs of
    each job took. A line with ! needs more than there are: what is due waits then, and starts late.

    \b
      raftsched forecast
      raftsched forecast --for 7d --step 1h
      raftsched forecast --queue mail --from 2027-03-27T22:00:00Z --for 12h --step 5m
      raftsched forecast -N billing -o json
    """
    query = {
        "namespace": check_namespace(namespace) if namespace else None,
        "queue": queue,
        "from": start,
        "to": end,
        "for": length,
        "step": step,
    }
    found: dict[str, Any] = client.get(FORECAST, query)
    if print_for_programs(fmt, found, *(peak["at"] for peak in found["peaks"])):
        return
    for line in as_text(found, min(width() or _WIDTH, _WIDTH)):
        click.echo(shown(line))


def as_text(found: dict[str, Any], columns: int = _WIDTH) -> Iterator[str]:
    """Yields the lines of the forecast for people, none of them wider than `columns`."""
    for line in _lines_of(found, columns):
        yield from fold(line, columns)


def _lines_of(found: dict[str, Any], columns: int) -> Iterator[str]:
    begin, end = _time(found["from"]), _time(found["to"])
    total, jobs = found["total"], found["jobs"]
    yield f"from {_minute(begin)} to {_minute(end)}, UTC"
    yield f"{_count(total, 'run')} of {_count(jobs, 'job')} {_are(total)} due, beside {_slots(found['slots'])}"
    if total:
        yield from ("", "MOST IS DUE")
        for peak in found["peaks"]:
            yield from _peak(peak, found["slots"], columns)
        yield from ("", *_queues(found, columns), "", *_chart(found, columns))
    warnings = list(_warnings(found))
    if warnings:
        yield from ("", *warnings)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _minute(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _slots(number: int) -> str:
    return _count(number, "slot")


def _slot_number(busy: float) -> str:
    return f"{busy:,.1f}" if busy >= 0.05 or not busy else "<0.1"


def _peak(peak: dict[str, Any], slots: int, columns: int) -> Iterator[str]:
    mark = " !" if peak["busy"] > slots else ""
    yield f"{_minute(_time(peak['at']))}  {peak['due']:,} due, {_slot_number(peak['busy'])} busy{mark}"
    room = columns - _INDENT - _FIGURE
    queues = [f"{cut(one['queue'], room)} {one['due']:,}" for one in peak["queues"]]
    yield from _wrapped("queues", queues, columns)
    names = [f"{job['namespace']}/{job['name'] or job['id']}" for job in peak["jobs"]]
    jobs = [f"{cut(name, room)} {job['due']:,}" for name, job in zip(names, peak["jobs"], strict=True)]
    more = peak["jobs_due"] - len(jobs)
    yield from _wrapped("jobs", jobs + ([f"and {more:,} more"] if more > 0 else []), columns)


def _wrapped(title: str, words: Sequence[str], columns: int) -> Iterator[str]:
    """Yields the words with commas between, in lines of so many columns."""
    line = f"  {title:<8}"
    for place, word in enumerate(words):
        text = word + ("," if place < len(words) - 1 else "")
        if len(line) + len(text) > columns - 1 and line.strip() != title and line.strip():
            yield line.rstrip()
            line = " " * _INDENT
        line += text + " "
    yield line.rstrip()


def _queues(found: dict[str, Any], columns: int) -> Iterator[str]:
    width = min(max(5, *(len(one["queue"]) for one in found["queues"])), columns - _FIGURES)
    yield f"{'QUEUE':<{width}}  {'DUE':>10}  {'MOST BUSY':>9}  {'SLOTS':>6}  {'LIMIT':>6}"
    for one in found["queues"]:
        limit = "-" if one["max_running"] is None else f"{one['max_running']:,}"
        mark = " !" if max(one["busy"]) > _limit(one) else ""
        name = cut(one["queue"], width)
        yield (
            f"{name:<{width}}  {one['total']:>10,}  {_slot_number(max(one['busy'])):>9}  {one['slots']:>6,}  "
            f"{limit:>6}{mark}"
        )
    if found["queues_left_out"]:
        yield f"and {_count(found['queues_left_out'], 'queue')} more"


class _Line(NamedTuple):
    at: datetime
    due: int
    busy: float


def _chart(found: dict[str, Any], columns: int) -> Iterator[str]:
    """A line for each hour or so, with a bar."""
    lines = list(_lines(found))
    most = max(line.due for line in lines) or 1
    yield f"{'FROM':<16}  {'DUE':>7}  {'BUSY':>6}"
    for line in lines:
        bar = "#" * (-(-line.due * (columns - _BAR_FROM) // most))
        mark = " !" if line.busy > found["slots"] else ""
        yield f"{_minute(line.at)}  {line.due:>7,}  {_slot_number(line.busy):>6}{mark or '  '} {bar}".rstrip()


def _lines(found: dict[str, Any]) -> Iterator[_Line]:
    """Yields steps, so many taken together that there are about _LINES; what is busy is the most of them."""
    step_s, due, busy = STEPS[found["step"]], found["due"], found["busy"]
    size = max(1, -(-len(due) // (_LINES + 1)))
    begin = _time(found["from"])
    for first in range(0, len(due), size):
        at = begin + timedelta(seconds=first * step_s)
        yield _Line(at, sum(due[first : first + size]), max(busy[first : first + size]))


# ---------------------------------------------------------------- warnings


def _limit(queue: dict[str, Any]) -> int:
    """Returns how many runs of a queue may run at one time."""
    slots: int = queue["slots"]
    return slots if queue["max_running"] is None else min(slots, queue["max_running"])


def _warnings(found: dict[str, Any]) -> Iterator[str]:
    yield from _too_busy("all queues", found["busy"], found["slots"], found)
    for one in found["queues"]:
        if one["paused"]:
            yield f"! queue {one['queue']} is paused: what is due in it waits"
        elif not one["slots"]:
            yield f"! nobody takes runs of queue {one['queue']}: {_count(one['total'], 'run')} {_are(one['total'])} due"
        elif _limit(one) < found["slots"]:
            yield from _too_busy(f"queue {one['queue']}", one["busy"], _limit(one), found)
    if found["estimated"]:
        yield f"{found['estimated']:,} of what is due is an estimate: after a fixed delay, or after other jobs"
    if found["unmeasured"]:
        yield f"{_count(found['unmeasured'], 'job')} never ended a run: their slots are not known, and not counted"
    if found["left_out"]:
        yield f"{_count(found['left_out'], 'job')} left out: paused, or with times that cannot be computed"
    if not found["complete"]:
        yield f"! there are more jobs than one answer looks at: those after {found['stopped_at']} are not counted"


def _too_busy(whose: str, busy: Sequence[float], limit: int, found: dict[str, Any]) -> Iterator[str]:
    begin, step_s = _time(found["from"]), STEPS[found["step"]]
    stretches = []
    for over, group in groupby(range(len(busy)), key=lambda step: busy[step] > limit):
        steps = list(group)
        if over:
            stretches.append((steps[0], steps[-1] + 1))
    for first, end in stretches[:_TIGHT]:
        low, high = (begin + timedelta(seconds=at * step_s) for at in (first, end))
        most = _slot_number(max(busy[first:end]))
        until = f"{high:%H:%M}" if low.date() == high.date() else _minute(high)
        yield f"! {whose}: {_minute(low)} to {until}, up to {most} busy, {_slots(limit)}"
    if len(stretches) > _TIGHT:
        yield f"! {whose}: {len(stretches) - _TIGHT:,} more stretches with too few slots"
