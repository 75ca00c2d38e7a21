"""The bounds of every number that apply computes with or makes a key of.

The API refuses earlier and says it better; here nothing may slip through, because what apply raises stops every node.
"""

from __future__ import annotations

from raftsched.bounds import (
    BOOT_ID_MAX,
    CONDITION_MAX,
    CONDITIONS_MAX,
    COUNT_MAX,
    DAY_MS,
    HOUR_MS,
    LABEL_KEY_MAX,
    LABEL_VALUE_MAX,
    LABELS_MAX,
    NOTIFY_MAX,
    OUTCOMES_MAX,
    PRIORITY_MAX,
    RATE_COUNT_MAX,
    SERVED_MAX,
    SHARDS_MAX,
    SLOTS_MAX,
    STORED_DURATION_MAX_MS,
    TIME_MAX_MS,
    TRIGGERS_MAX,
    UPSTREAM_MAX,
    WEIGHT_MAX,
    WORKER_HANDLERS_MAX,
)
from raftsched.cluster_settings import SETTINGS, Settings
from raftsched.core.model import ConditionKind, EveryMode, Outcomes, Policy, Retry, Trigger, TriggerKind
from raftsched.core.rules.allowed import rules_error
from raftsched.core.rules.executors import EXECUTOR_MAX, WORKER_PREFIX, is_worker
from raftsched.core.rules.hosts import Reading
from raftsched.core.rules.key_templates import JOB_MARK, VALUE_MAX, KeyTemplateError, parse
from raftsched.core.rules.run_keys import Concurrency
from raftsched.core.subjects.calendar import CALENDAR_NAME_MAX
from raftsched.core.subjects.cluster import NodeRule, OpenWorker
from raftsched.core.subjects.notices import SYSTEM_QUEUES

NOW_MAX_MS = 2**43  # the year 2248: ids are a time and 20 bits more, and fit in 64
GRACE_MAX_MS = HOUR_MS  # of a run that is to end
RETRY_LEVELS_MAX = 1_000
SNOOZES_MAX = 1_000  # of one instance: then it fails, so that none goes on for ever unseen
SNOOZE_MS = (1_000, 30 * DAY_MS)  # least, most
STATE_MAX = 4 * 1024  # bytes that a run keeps for its next attempts
RETRY_AFTER_MAX_MS = DAY_MS  # that an answer of HTTP may ask to wait
KEPT_MAX = 100_000  # instances of one outcome of one job
RECURRING = (TriggerKind.EVERY, TriggerKind.CRON, TriggerKind.RRULE)
EXPRESSION_MAX = 4_096  # characters
RESULT_MAX = 64 * 1024  # bytes of an attempt's result
U64_MAX = 2**64 - 1
FIRES_MAX = 2**53  # that one gap stands for: more than there are milliseconds up to TIME_MAX_MS
REVISIONS_MAX = 100  # of one job, that its active runs were made from
HANDED_BACK_MAX = 10  # times that one instance may be handed back; then it counts as lost each time
RUN_MAX = 120 * 1024  # bytes of handler and params, as JSON: they go to a run in one packet, or in its environment
# The search for circles takes ten steps for each job that it looks at, and one for each that this one waits for.
CIRCLE_JOB_STEPS = 10
CIRCLE_STEPS = 1_100  # of one search: a hundred jobs that wait for one each
CIRCLE_STEPS_AT_ONCE = 11_000  # of all searches of one entry, such as a batch
FOLLOWED_STEPS_AT_ONCE = 22_000  # of all, and of each, where jobs follow the one that is written: two thousand jobs
AWAITED_NAME_MAX = 400  # bytes of namespace and name of a job that others wait for: part of a key
QUEUE_NAME_MAX = 128  # bytes
USER_NEED_MAX = 128  # bytes: a namespace, a colon, a user
RATE_PERIOD_MS = (1_000, DAY_MS)  # least, most
USERS_MAX = 100  # jobs that a refusal carries, of those that use something; one more says that there are more
KEY_SIZE = 24  # bytes of an instance key
TARGETS_MAX = 10_100  # nodes and workers that one run has a part on: all that there may be
TRIGGER_ID_MAX = 128  # bytes
SORT_MAX = 1_000  # instances of one SortReady
P95_PERCENT_MAX = 100_000  # a thousand times what a run usually takes
HISTORY_MAX = 20  # earlier contents kept of one job

_DEFAULT_QUEUE = "default"
_EVERY, _SEVERAL, _AFTER = TriggerKind.EVERY, TriggerKind.SEVERAL, TriggerKind.AFTER
_MOMENT = "{} must lie between 1970 and 9999."


def settings_error(settings: Settings) -> str | None:
    """Returns what is wrong and what would be right; None: nothing is wrong."""
    for name, row in SETTINGS.items():
        value = getattr(settings, name)
        if not (row.least if row.logged_least is None else row.logged_least) <= value <= row.most:
            return f"{name} is {value}; use {row.least} to {row.most}."
    return None


def worker_error(c: OpenWorker, reading: Reading) -> str | None:
    """Returns what is wrong with what a remote worker says of itself, and what would be right; None: nothing is
    wrong."""
    if not is_worker(c.worker) or len(c.worker.encode()) > EXECUTOR_MAX or len(c.incarnation.encode()) > BOOT_ID_MAX:
        return f"the name of a worker takes {EXECUTOR_MAX - len(WORKER_PREFIX)} bytes, its incarnation {BOOT_ID_MAX}."
    if not 1 <= c.slots <= SLOTS_MAX or not 1 <= c.weight <= WEIGHT_MAX:
        return f"a worker has 1 to {SLOTS_MAX} slots, and a weight of 1 to {WEIGHT_MAX}."
    for names in (c.queues, c.namespaces):
        if names is not None and not 1 <= len(names) <= SERVED_MAX:
            return f"a worker is for 1 to {SERVED_MAX} queues and as many namespaces, or for all."
    if len(c.handlers) > WORKER_HANDLERS_MAX or len(c.users) > WORKER_HANDLERS_MAX or len(c.labels) > LABELS_MAX:
        return f"a worker has at most {WORKER_HANDLERS_MAX} handlers and {LABELS_MAX} labels."
    return None if c.allowed is None else rules_error(c.allowed, reading)


def policy_error(policy: Policy) -> str | None:
    """Returns what is wrong and what would be right; None: nothing is wrong."""
    found = _wrong_in_trigger(policy.trigger)
    if found is None and (policy.triggers or policy.trigger.kind is _SEVERAL):
        found = _wrong_in_triggers(policy)
    if found is not None:
        return found
    if not 0 <= policy.priority <= PRIORITY_MAX:
        return f"priority is {policy.priority}; use 0 to {PRIORITY_MAX}."
    retry, retention, misfire = policy.retry, policy.retention, policy.misfire
    if not 1 <= policy.timeout_ms <= STORED_DURATION_MAX_MS:
        return _duration("timeout", policy.timeout_ms)
    if not 0 <= policy.max_lost <= COUNT_MAX or not 0 <= policy.max_concurrency <= COUNT_MAX:
        return "max_lost must be 0 or more, max_concurrency 1 or more (0: as overlap has it)."
    queue = policy.queue
    if queue != _DEFAULT_QUEUE:
        if len(queue.encode()) > QUEUE_NAME_MAX:
            return f"queue takes {len(queue.encode())} bytes; {QUEUE_NAME_MAX} is the limit."
        if queue.startswith(SYSTEM_QUEUES):
            return f"queues named {' or '.join(SYSTEM_QUEUES)}... are the cluster's own; take another."
    notify = policy.notify
    if notify and (len(notify) > NOTIFY_MAX or len({one.webhook for one in notify}) < len(notify)):
        return f"notify names at most {NOTIFY_MAX} webhooks, each once."
    for one in notify:
        if not all(0 <= ms <= STORED_DURATION_MAX_MS for ms in (one.late_ms, one.longer_ms, one.not_run_ms)):
            return f"late_by, longer_than and not_run_for are at most {STORED_DURATION_MAX_MS} ms."
        if not 0 <= one.p95_percent <= P95_PERCENT_MAX:
            return f"p95_times is {one.p95_percent / 100}; use at most {P95_PERCENT_MAX // 100}."
    if policy.grace_ms is not None and not 0 <= policy.grace_ms <= GRACE_MAX_MS:
        return f"grace is {policy.grace_ms} ms; use 0 to {GRACE_MAX_MS}."
    if policy.user and len(policy.user.encode()) > USER_NEED_MAX:
        return f"user takes {len(policy.user.encode())} bytes with its namespace; {USER_NEED_MAX} is the limit."
    if policy.suspend_after is not None and not 1 <= policy.suspend_after <= COUNT_MAX:
        return "suspend_after must be 1 or more."
    if retry.delays_ms or retry.jitter_percent:
        found = _wrong_in_retry(retry)
        if found is not None:
            return found
    if policy.concurrency is not None:
        found = _wrong_in_concurrency(policy.concurrency)
        if found is not None:
            return found
    if policy.shards or policy.on_all:
        found = _wrong_in_parts(policy)
        if found is not None:
            return found
    if not 0 <= misfire.grace_ms <= STORED_DURATION_MAX_MS:
        return _duration("misfire grace", misfire.grace_ms)
    if not 0 <= retention.max_age_ms <= STORED_DURATION_MAX_MS:
        return _duration("retention max_age", retention.max_age_ms)
    if not (0 <= retention.succeeded <= KEPT_MAX and 0 <= retention.failed <= KEPT_MAX):
        return f"retention keeps 0 to {KEPT_MAX} instances of an outcome."
    if policy.expires_ms and not 0 < policy.expires_ms <= STORED_DURATION_MAX_MS:
        return _duration("expires", policy.expires_ms)
    if not 1 <= policy.conditions_timeout_ms <= STORED_DURATION_MAX_MS:
        return _duration("conditions_timeout", policy.conditions_timeout_ms)
    if policy.outcomes is not None:
        found = _wrong_in_outcomes(policy.outcomes)
        if found is not None:
            return found
    return _wrong_in_conditions(policy) if policy.conditions else None


def _wrong_in_retry(retry: Retry) -> str | None:
    if len(retry.delays_ms) > RETRY_LEVELS_MAX:
        return f"retry has {len(retry.delays_ms)} delays; at most {RETRY_LEVELS_MAX} are allowed."
    if not 0 <= retry.jitter_percent <= 100:
        return f"retry jitter_percent is {retry.jitter_percent}; use 0 to 100."
    for delay in retry.delays_ms:
        if not 0 <= delay <= STORED_DURATION_MAX_MS:
            return _duration("a retry delay", delay)
    return None


def _wrong_in_outcomes(outcomes: Outcomes) -> str | None:
    count = len(outcomes.exit) + len(outcomes.status)
    if count > OUTCOMES_MAX:
        return f"outcomes have {count} entries; at most {OUTCOMES_MAX} are allowed."
    for kind, least, most in (("exit", 0, 255), ("status", 100, 599)):
        for mapped in getattr(outcomes, kind):
            if not least <= mapped.first <= mapped.last <= most:
                return f"outcomes {kind} names {mapped.first} to {mapped.last}; use {least} to {most}."
            if mapped.delay_ms and not SNOOZE_MS[0] <= mapped.delay_ms <= SNOOZE_MS[1]:
                return _duration("a snooze", mapped.delay_ms)
    return None


def _wrong_in_concurrency(limits: Concurrency) -> str | None:
    try:
        parse(limits.key)
    except KeyTemplateError as error:
        return f"the template of a key {error}."
    if not 1 <= len(limits.value.encode()) <= VALUE_MAX or limits.value.count(JOB_MARK) > 1:
        return f"a key takes 1 to {VALUE_MAX} bytes, and names its job once."
    if not 0 <= limits.max <= COUNT_MAX:
        return f"the max of a key is {limits.max}; use 1 or more (0: any number)."
    return None if limits.rate_count is None else rate_error(limits.rate_count, limits.rate_period_ms, "starts")


def _wrong_in_parts(policy: Policy) -> str | None:
    if not 0 <= policy.shards <= SHARDS_MAX:
        return f"shards is {policy.shards}; use 1 to {SHARDS_MAX}."
    if policy.shards and policy.on_all:
        return "a run has shards, or a part on each node; say one of them."
    if any(condition.kind is ConditionKind.PATH for condition in policy.conditions):
        return "a path is looked for on the one node that then runs it; a run with parts has many."
    return None


def _wrong_in_conditions(policy: Policy) -> str | None:
    if len(policy.conditions) > CONDITIONS_MAX:
        return f"there are {len(policy.conditions)} conditions; at most {CONDITIONS_MAX} are allowed."
    for condition in policy.conditions:
        target = condition.target
        if not 1 <= len(target) <= CONDITION_MAX or "\0" in target:
            return f"what a condition looks at has 1 to {CONDITION_MAX} characters, and no NUL among them."
        if condition.kind is ConditionKind.JOB:
            wrong = _wrong_name(target)
            if wrong is not None:
                return wrong
            if not 1 <= condition.within_ms <= STORED_DURATION_MAX_MS:
                return _duration("within", condition.within_ms)
        elif condition.kind is ConditionKind.HTTP and condition.status and not 100 <= condition.status <= 599:
            return f"the status {condition.status} is none of HTTP; use 100 to 599."
    return None


def rate_error(count: int, period_ms: int, of: str) -> str | None:
    """Returns what is wrong with a rate of `of`, and what would be right; None: nothing is wrong."""
    if not 1 <= count <= RATE_COUNT_MAX:
        return f"a rate of {count} {of} is out of bounds; use 1 to {RATE_COUNT_MAX}."
    least, most = RATE_PERIOD_MS
    if not least <= period_ms <= most:
        return f"the period of the rate is {period_ms} ms; use {least} to {most}."
    return None


def node_rule_error(rule: NodeRule) -> str | None:
    """Returns what is wrong and what would be right; None: nothing is wrong."""
    if rule.slots is not None and not 1 <= rule.slots <= SLOTS_MAX:
        return f"slots is {rule.slots}; use 1 to {SLOTS_MAX}, or drain the node."
    labels = rule.labels or ()
    if len(labels) > LABELS_MAX:
        return f"there are {len(labels)} labels; at most {LABELS_MAX} are allowed."
    if len({key for key, _ in labels}) < len(labels):
        return "a label has one value; give each key once."
    if any(not 1 <= len(key) <= LABEL_KEY_MAX or len(value) > LABEL_VALUE_MAX for key, value in labels):
        return f"a label has a key of 1 to {LABEL_KEY_MAX} characters and a value of at most {LABEL_VALUE_MAX}."
    return None


def _wrong_in_trigger(trigger: Trigger) -> str | None:
    kind, starts, ends = trigger.kind, trigger.starts_at_ms, trigger.ends_at_ms
    if not 0 <= trigger.at_ms <= TIME_MAX_MS:
        return _MOMENT.format("at")
    if starts is not None and not 0 <= starts <= TIME_MAX_MS:
        return _MOMENT.format("starts_at")
    if ends is not None and not 0 <= ends <= TIME_MAX_MS:
        return _MOMENT.format("ends_at")
    least = 1 if kind is _EVERY else 0
    if not least <= trigger.period_ms <= STORED_DURATION_MAX_MS:
        return _duration("the period", trigger.period_ms)
    if not 0 <= trigger.jitter_ms <= STORED_DURATION_MAX_MS:
        return _duration("jitter", trigger.jitter_ms)
    if trigger.max_runs is not None and not 1 <= trigger.max_runs <= COUNT_MAX:
        return "max_runs must be 1 or more."
    if trigger.calendar is not None:
        if not 1 <= len(trigger.calendar.encode()) <= CALENDAR_NAME_MAX:
            return f"the name of a calendar takes 1 to {CALENDAR_NAME_MAX} bytes."
        if kind not in RECURRING or trigger.mode is not EveryMode.FIXED_RATE:
            return "a calendar goes with cron, rrule, and every at a fixed rate."
    elif trigger.calendar_moves:
        return "nothing is moved without a calendar; name one."
    if len(trigger.expr) > EXPRESSION_MAX:
        return f"an expression has at most {EXPRESSION_MAX} characters."
    return None if kind is not _AFTER and trigger.after is None else _wrong_in_after(trigger)


def _wrong_in_after(trigger: Trigger) -> str | None:
    after = trigger.after
    if after is None or trigger.kind is not _AFTER:
        return "a job that follows others names them, and has no other trigger."
    if trigger.jitter_ms or trigger.starts_at_ms is not None or trigger.ends_at_ms is not None:
        return "a job that follows others has no time of its own, and so no jitter, start or end of it."
    if not 1 <= len(after.jobs) <= UPSTREAM_MAX or len(set(after.jobs)) < len(after.jobs):
        return f"a job follows 1 to {UPSTREAM_MAX} others, each named once."
    return next((wrong for wrong in map(_wrong_name, after.jobs) if wrong is not None), None)


def _wrong_name(target: str) -> str | None:
    namespace, slash, name = target.partition("/")
    if not (namespace and slash and name) or "\0" in target or len(target.encode()) > AWAITED_NAME_MAX:
        return f"a job is named as namespace/name, in at most {AWAITED_NAME_MAX} bytes."
    return None


def _wrong_in_triggers(policy: Policy) -> str | None:
    triggers = policy.triggers
    if policy.trigger != Trigger(kind=_SEVERAL, max_runs=policy.trigger.max_runs):
        return "a job has one trigger or several, not both."
    if not 1 <= len(triggers) <= TRIGGERS_MAX:
        return f"a job has 1 to {TRIGGERS_MAX} triggers."
    if len({trigger.id for trigger in triggers}) < len(triggers):
        return "triggers are told apart by their ids; give each another."
    for trigger in triggers:
        if not 1 <= len(trigger.id.encode()) <= TRIGGER_ID_MAX:
            return f"the id of a trigger takes 1 to {TRIGGER_ID_MAX} bytes."
        if trigger.kind in (TriggerKind.MANUAL, _SEVERAL):
            return "of several triggers each is one of at, in, every, cron, rrule."
        if trigger.max_runs is not None:
            return "of several triggers none has max_runs; that is the job's."
        found = _wrong_in_trigger(trigger)
        if found is not None:
            return found
    return None


def _duration(name: str, value: int) -> str:
    return f"{name} is {value} ms; use more than zero, and at most {STORED_DURATION_MAX_MS}."
