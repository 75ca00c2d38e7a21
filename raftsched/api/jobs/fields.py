"""One row for each field of a job's content, in the order in which `Job.body` stores them.

`scripts/make-fields` writes from these rows: the types (`surface/jobs_generated.py`) and the straight-line code of
`generated.py` beside this file, the client's JobSpec, JobDefaults and Job (`client/*_generated.py`), the options of
`raftsched jobs create` and what `raftsched jobs export` leaves out (`cli/jobs/generated.py`), and the table in
docs/api.md. Nothing reads the rows when a request is answered.

Defaults are those of `core.model.Policy`. Rules are functions, in `rules.py`, `triggers.py`, `handlers.py`,
`conditions.py`, `concurrency.py`, `outcomes.py` and `notify.py`. The names of their parameters say what they are given,
so that the code made of them calls them with no more than they look at: `given` is the value of the field, the name of
another field is the value of that one, `job` is the whole JobIn, `due` the trigger that was read, `kept` the policy of
the job as it is; `errors` takes what they refuse; `settings`, `now_ms` and `namespace` are what they say. A parameter
of another name has to have a default.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from raftsched.api.http.durations import format_duration
from raftsched.api.jobs import concurrency, conditions, handlers, notify, outcomes, rules, triggers
from raftsched.api.jobs.rules import POLICY
from raftsched.core.model import GRACE_MS, Delivery, Overlap
from raftsched.surface.content import MisfireIn, RetentionIn, RetryIn

Rule = Callable[..., Any]  # see above


class Kind(NamedTuple):
    """The type of a field in each place where it has one."""

    given: str  # in a request: a type of surface/content.py, scalars.py or enums.py
    shown: str  # in an answer, as the API encodes it
    spec: str  # in the client's JobSpec and JobDefaults
    model: str  # in the client's Job
    click: str = ""  # of an option, as an expression; "": text


@dataclass(frozen=True)
class Field:
    name: str
    kind: Kind
    about: str  # for docs/api.md
    default: Any = None  # as JSON; shown where the field is not stored, and never stored itself
    default_text: str = ""  # for docs/api.md, where `default` is None
    required: bool = False
    policy: str = ""  # the field of Policy that has it
    rule: Rule | None = None  # its value there; None: as it is given
    always: bool = False  # the rule is for jobs that leave the field out, too
    derived: tuple[tuple[str, Rule], ...] = ()  # other fields of Policy, once nothing was refused
    check: Rule | None = None  # refuses what is wrong, where the Policy has nothing of the field
    left_out: Any = None  # a value that is not stored, because it means what no value means
    stored: Rule | None = None  # what is stored of a given value, where more than the default is left out
    shown: Rule | None = None  # the value in an answer where it is not stored, and has no `default`
    inherited: bool = False  # the namespace may have a default for it
    options: tuple[str, ...] = ()  # of `jobs create`: "--flag METAVAR: help", with "..." when it may be repeated
    help_order: int = 0  # of its options


def choice(names: list[str]) -> str:
    return f"Literal[{', '.join(repr(name) for name in names)}]"


_OVERLAPS = [value.name.lower() for value in Overlap]
_DELIVERIES = [value.name.lower() for value in Delivery]
_TIMEOUT = format_duration(POLICY.timeout_ms)
_CONDITIONS_TIMEOUT = format_duration(POLICY.conditions_timeout_ms)
_GRACE = format_duration(GRACE_MS)

OBJECT = "dict[str, Any]"
PRIORITY = Kind("Priority", "int", "int", "int", "click.IntRange(0, 9)")
COUNT = Kind("SmallCount", "int | None", "int", "int | None", "click.IntRange(1, 10_000)")
DURATION = Kind("Duration", "str | None", "Duration", "str | None")
NAME = Kind("Name", "str", "str", "str")

# fmt: off
FIELDS = (
    Field("trigger", Kind("TriggerIn", "Raw", "Trigger", f"{OBJECT} | None"),
          "when it is due: exactly one of `at`, `in`, `every`, `cron`, `rrule`, `manual`, `after`",
          default_text="needed, unless there are `triggers`", policy="trigger", always=True,
          rule=triggers.trigger_of_job),
    Field("triggers", Kind("Triggers", "Raw", "Sequence[NamedTrigger]", f"list[{OBJECT}]"),
          "several triggers instead of one: each has an `id`, and is due by itself", default=[],
          policy="triggers", rule=triggers.triggers_of),
    Field("max_runs", Kind("Count", "int | None", "int", "int | None"),
          "beside `triggers`: so many runs of all of them; in a `trigger` it is a part of that",
          check=triggers.check_max_runs),
    Field("handler", Kind("HandlerIn", "Raw", "Handler", OBJECT),
          "what it runs: exactly one of `exec`, `shell`, `python`, `http`, `call`", required=True,
          policy="required_capability", rule=handlers.capability_of, always=True,
          derived=(("target", handlers.target_of), ("cwd", handlers.cwd_of), ("env", handlers.env_of))),
    Field("params", Kind(OBJECT, "Raw", "Params", OBJECT),
          "an object that each run is given", default={},
          check=rules.encode_params),
    Field("description", Kind("Description", "str | None", "str", "str | None"), "what it is for",
          check=rules.check_description,
          options=("--description TEXT: What it is for, in a sentence.",), help_order=3),
    Field("owner", Kind("Owner", "str | None", "str", "str | None"), "a person or team; lists can be filtered by it",
          check=rules.check_owner, options=("--owner",), help_order=2),
    Field("priority", PRIORITY, "0 to 9; of the runs that wait, a higher one starts first",
          default=POLICY.priority, policy="priority", inherited=True,
          options=(f"--priority: 9 first.  [default: {POLICY.priority}]",), help_order=1),
    Field("queue", NAME, "the queue whose limits hold for its runs", default=POLICY.queue,
          policy="queue", rule=rules.queue_of, inherited=True, help_order=1,
          options=(f"--queue QUEUE: Whose limits hold, too; see 'raftsched queues'.  [default: {POLICY.queue}]",)),
    Field("timeout", DURATION, "an attempt that takes longer is ended", default_text=_TIMEOUT,
          policy="timeout_ms", rule=rules.timeout_of, always=True, inherited=True,
          left_out=_TIMEOUT, shown=rules.shown_timeout,
          options=(f"--timeout DURATION: End an attempt after this.  [default: {_TIMEOUT}]",)),
    Field("grace", DURATION, "time from SIGTERM to SIGKILL when an attempt is ended",
          default_text=_GRACE, policy="grace_ms", rule=rules.grace_of, inherited=True,
          options=(f"--grace DURATION: From TERM to KILL when an attempt is ended.  [default: {_GRACE}]",)),
    Field("user", Kind("User", "str | None", "str", "str | None"), "the user of the node as whom it runs",
          default_text="as the node says", inherited=True,
          policy="user", rule=rules.user_of,
          options=("--user NAME: As whom; a node must allow it.  [default: as the node says]",)),
    Field("delivery", Kind("DeliveryName", "str", choice(_DELIVERIES), "str"),
          "`at_least_once`, or `at_most_once`: a run whose worker is lost is not run again",
          default=POLICY.delivery.name.lower(), policy="delivery", rule=rules.delivery_of, inherited=True),
    Field("max_lost", Kind("Lost", "int", "int", "int"), "times that a run is run again because its worker was lost",
          default=POLICY.max_lost, policy="max_lost", inherited=True),
    Field("suspend_after", COUNT, "suspends the job after this number of failed runs in a row", policy="suspend_after"),
    Field("retry", Kind("RetryIn", "Raw", "Retry", f"{OBJECT} | None"), "delays before an attempt is repeated",
          default=RetryIn(), default_text="no retry", policy="retry", rule=rules.retry_of,
          inherited=True,
          options=("--retry RULE: Delays before each retry (5s,10s,1m), or exponential; see above.",)),
    Field("outcomes", Kind("OutcomesIn", "Raw", "Outcomes", f"{OBJECT} | None"),
          "exit codes, or statuses of http, that mean something else than success or failure",
          policy="outcomes", rule=outcomes.outcomes_of, stored=outcomes.stored_outcomes,
          options=("--on-exit CODE=OUTCOME...: 75='snooze 5m', 78=cancel, 64-70=fail, 3=succeed; may be repeated.",
                   "--on-status CODE=OUTCOME...: The same of the statuses of --http.")),
    Field("overlap", Kind("OverlapName", "str", choice(_OVERLAPS), "str", f"click.Choice({_OVERLAPS})"),
          "how to treat a run that is due while another one is active: " + ", ".join(f"`{o}`" for o in _OVERLAPS),
          default=POLICY.overlap.name.lower(), policy="overlap", rule=rules.overlap_of, inherited=True,
          options=("--overlap",)),
    Field("misfire", Kind("MisfireIn", "Raw", "Misfire", f"{OBJECT} | None"),
          "how to treat due times that passed while nothing could start",
          default=MisfireIn(), default_text="once, after 15m", policy="misfire",
          rule=rules.misfire_of, inherited=True),
    Field("max_concurrency", COUNT, "runs that may be active at one time", default_text="1; any number with `allow`",
          policy="max_concurrency", rule=rules.max_concurrency_of,
          stored=rules.stored_max_concurrency, shown=rules.shown_max_concurrency,
          options=("--max-concurrency N: At most so many runs at one time.",)),
    Field("concurrency", Kind("ConcurrencyIn", "Raw", "Concurrency", f"{OBJECT} | None"),
          "limits by key: of all runs of the namespace with the same `key`, such as `{params.tenant}`, at most `max` "
          "go at one time, and so many start as `rate` says",
          policy="concurrency", rule=concurrency.concurrency_of, inherited=True,
          options=("--concurrency-key TEMPLATE: Limit runs with the same key, such as '{params.tenant}'.",
                   "--concurrency-key-max N: At most so many of them at one time.",
                   "--concurrency-key-rate COUNT/PERIOD: At most so many starts of them, such as 10/1m.")),
    Field("conditions", Kind("Conditions", "Raw", "Sequence[Condition]", f"list[{OBJECT}]"),
          "what must hold before a run starts: a file, an answer, another job's success", default=[],
          policy="conditions", rule=conditions.conditions_of,
          options=("--if-path GLOB...: Wait until a file is there; may be repeated.",
                   "--if-http URL...: Wait until a GET answers well; may be repeated.",
                   "--if-succeeded JOB=WITHIN...: Wait for a success of JOB within 2h, say; may be repeated.")),
    Field("conditions_timeout", DURATION, "a run whose conditions do not hold by then fails",
          default_text=_CONDITIONS_TIMEOUT, policy="conditions_timeout_ms",
          rule=rules.conditions_timeout_of,
          left_out=_CONDITIONS_TIMEOUT, shown=rules.shown_conditions_timeout,
          options=(f"--conditions-timeout DURATION: Give up waiting after this.  [default: {_CONDITIONS_TIMEOUT}]",)),
    Field("expires", DURATION, "a run that has not started so long after it was due, or asked for, is skipped",
          default_text="never", policy="expires_ms", rule=rules.expires_of, inherited=True,
          options=("--expires DURATION: Skip a run that has not started so long after it was due.",)),
    Field("labels", Kind("Labels", "Raw", "Mapping[str, str]", "dict[str, str]"),
          "names and values; lists can be filtered by them", default={}, inherited=True,
          check=rules.check_labels,
          options=("--label KEY=VALUE...: May be repeated.",), help_order=4),
    Field("placement", Kind("PlacementIn", "Raw", "Placement", f"{OBJECT} | None"),
          "labels that a node must have to run it (`labels`), or had better have (`prefer`); the parts of a run: one "
          "on each node (`on`), or a number (`shards`)",
          policy="node_labels", rule=rules.placement_of, inherited=True,
          derived=(("prefer", rules.preferred_of), ("shards", rules.shards_of), ("on_all", rules.is_on_all)),
          stored=rules.stored_placement),
    Field("notify", Kind("Notify", "Raw", "Notify | Sequence[Notify]", f"{OBJECT} | list[{OBJECT}] | None"),
          "webhooks that are told how its runs end, that one started, is late or runs long, that none succeeded lately",
          policy="notify", rule=notify.notify_of, stored=notify.normal,
          inherited=True, help_order=4,
          options=("--notify WEBHOOK:EVENT,EVENT...: The webhook and its events, such as ops:dead_letter,late=30s.",)),
    Field("retention", Kind("RetentionIn", "Raw", "Retention", f"{OBJECT} | None"),
          "runs that are kept after their end", default=RetentionIn(),
          default_text="{succeeded} succeeded, {failed} failed, {max_age}".format(**msgspec.to_builtins(RetentionIn())),
          policy="retention", rule=rules.retention_of, inherited=True),
)
# fmt: on
