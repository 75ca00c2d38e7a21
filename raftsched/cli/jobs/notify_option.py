"""The option --notify of a job: WEBHOOK:EVENT,EVENT=MEASURE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from raftsched.surface.plain.enums import JOB_EVENT_NAME

MEASURES = {"late": "late_by", "running_long": "longer_than", "not_run_since": "not_run_for"}  # field of each
EXAMPLES = {"late": "30s", "running_long": "10m", "not_run_since": "25h"}


def notify_of(texts: Sequence[str]) -> list[dict[str, Any]]:
    """WEBHOOK:EVENT,EVENT=MEASURE options of a job. Raises a usage error."""
    found = []
    for text in texts:
        webhook, colon, events = text.partition(":")
        given = [event.strip() for event in events.split(",") if event.strip()]
        if not webhook or not colon or not given:
            raise click.UsageError(f"--notify {text!r}: write WEBHOOK:EVENT,EVENT, such as ops:dead_letter")
        one: dict[str, Any] = {"webhook": webhook, "on": []}
        for event in given:
            wrong = _add_event(one, event)
            if wrong is not None:
                raise click.UsageError(f"--notify {text!r}: {wrong}, such as ops:dead_letter,late=30s")
        found.append(one)
    return found


def _add_event(one: dict[str, Any], text: str) -> str | None:
    """Adds an event, such as "failed" or "late=30s", to what a job asks of a webhook. Returns what is wrong with it."""
    event, equals, measure = text.partition("=")
    if event not in JOB_EVENT_NAME:
        return f"{event!r} is none of {', '.join(JOB_EVENT_NAME)}"
    if (event in MEASURES) != bool(measure):
        return f"say how long, as {event}={EXAMPLES[event]}" if event in MEASURES else f"{event} takes no measure"
    if event not in one["on"]:
        one["on"].append(event)
    if event == "running_long" and measure.endswith("x"):
        try:
            one["p95_times"] = float(measure.removesuffix("x"))
        except ValueError:
            return f"{measure!r} is no number of times, as 2x, nor a duration"
    elif equals:
        one[MEASURES[event]] = measure
    return None
