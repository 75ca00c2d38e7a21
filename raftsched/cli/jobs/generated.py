"""Made from api/jobs/fields.py by scripts/make-fields; not edited by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

# Options that are fields of a job, in the order of the help.
OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option("--timeout", metavar="DURATION", help="End an attempt after this.  [default: 5m]"),
    click.option("--grace", metavar="DURATION", help="From TERM to KILL when an attempt is ended.  [default: 5s]"),
    click.option("--user", metavar="NAME", help="As whom; a node must allow it.  [default: as the node says]"),
    click.option("--retry", metavar="RULE", help="Delays before each retry (5s,10s,1m), or exponential; see above."),
    click.option(
        "--on-exit",
        metavar="CODE=OUTCOME",
        multiple=True,
        help="75='snooze 5m', 78=cancel, 64-70=fail, 3=succeed; may be repeated.",
    ),
    click.option("--on-status", metavar="CODE=OUTCOME", multiple=True, help="The same of the statuses of --http."),
    click.option("--overlap", type=click.Choice(["forbid", "allow", "queue_one", "queue_all", "replace"])),
    click.option(
        "--max-concurrency", metavar="N", type=click.IntRange(1, 10_000), help="At most so many runs at one time."
    ),
    click.option(
        "--concurrency-key", metavar="TEMPLATE", help="Limit runs with the same key, such as '{params.tenant}'."
    ),
    click.option("--concurrency-key-max", metavar="N", help="At most so many of them at one time."),
    click.option(
        "--concurrency-key-rate", metavar="COUNT/PERIOD", help="At most so many starts of them, such as 10/1m."
    ),
    click.option("--if-path", metavar="GLOB", multiple=True, help="Wait until a file is there; may be repeated."),
    click.option("--if-http", metavar="URL", multiple=True, help="Wait until a GET answers well; may be repeated."),
    click.option(
        "--if-succeeded",
        metavar="JOB=WITHIN",
        multiple=True,
        help="Wait for a success of JOB within 2h, say; may be repeated.",
    ),
    click.option("--conditions-timeout", metavar="DURATION", help="Give up waiting after this.  [default: 1h]"),
    click.option("--expires", metavar="DURATION", help="Skip a run that has not started so long after it was due."),
    click.option("--priority", type=click.IntRange(0, 9), help="9 first.  [default: 5]"),
    click.option(
        "--queue", metavar="QUEUE", help="Whose limits hold, too; see 'raftsched queues'.  [default: default]"
    ),
    click.option("--owner"),
    click.option("--description", metavar="TEXT", help="What it is for, in a sentence."),
    click.option("--label", metavar="KEY=VALUE", multiple=True, help="May be repeated."),
    click.option(
        "--notify",
        metavar="WEBHOOK:EVENT,EVENT",
        multiple=True,
        help="The webhook and its events, such as ops:dead_letter,late=30s.",
    ),
)
# Those of them whose value is that of the field of their name.
SAME = (
    "description",
    "owner",
    "priority",
    "queue",
    "timeout",
    "grace",
    "user",
    "overlap",
    "max_concurrency",
    "conditions_timeout",
    "expires",
)
# What a job means that leaves these fields out.
DEFAULTS: Mapping[str, Any] = {
    "triggers": [],
    "params": {},
    "priority": 5,
    "queue": "default",
    "timeout": "5m",
    "delivery": "at_least_once",
    "max_lost": 3,
    "retry": {"delays": [], "exponential": None, "jitter_percent": 0, "on": ["failed", "timed_out"]},
    "overlap": "forbid",
    "misfire": {"policy": "once", "grace": "15m"},
    "conditions": [],
    "conditions_timeout": "1h",
    "labels": {},
    "retention": {"succeeded": 200, "failed": 100, "max_age": "7d"},
}
# Fields whose absence, or null, means what the namespace says.
UNSAID = frozenset(["timezone", "grace", "user", "concurrency", "expires", "placement", "notify"])
