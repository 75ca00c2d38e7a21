"""The words of an explanation: why a run was made when it was, why it went where it did, what each step means."""

from __future__ import annotations

from raftsched import schedule
from raftsched.api.http.durations import format_time
from raftsched.core.ids import instance_text
from raftsched.core.model import (
    GRACE_MS,
    Attempt,
    Instance,
    InstanceState,
    Job,
    MisfirePolicy,
    Outcome,
    Overlap,
    Policy,
    Step,
    StepKind,
)
from raftsched.core.rules.executors import at_start, in_words, is_worker
from raftsched.error_texts import telling_line
from raftsched.quantities import format_duration

_ERROR_MAX = 200  # characters of the line of an error that an explanation has
_POLICY_GONE = "The job was edited since, and what it was then is kept no longer."
_MISFIRE = {
    MisfirePolicy.SKIP: "none of them",
    MisfirePolicy.ONCE: "one of them, the last, for all",
    MisfirePolicy.ALL: "the newest of them, up to the cluster's catch_up_max",
}
_OVERLAP = {
    Overlap.FORBID: "lets no other start beside it",
    Overlap.QUEUE_ONE: "lets one wait behind it, and one waited already",
    Overlap.QUEUE_ALL: "lets as many wait behind it as queue_all_max allows, and so many waited already",
}
_ENDED = {
    Outcome.SUCCEEDED: "succeeded",
    Outcome.FAILED: "failed",
    Outcome.TIMED_OUT: "took longer than its timeout and was killed",
    Outcome.KILLED: "was killed",
    Outcome.LOST: "was lost: the session of its worker ended before it reported",
    Outcome.SNOOZED: "put it off",
    Outcome.CANCELLED: "found nothing to do",
}
_REASONS = {
    "killed": "somebody asked for it",
    "replaced": "the next run of its job replaced it",
    "expired": "its job was expired",
    "deleted": "its job was deleted",
    "retries_exhausted": "all its retries failed",
    "max_lost": "its workers were lost more often than max_lost allows",
    "lost": "its worker was lost, and it is to run at most once",
    "cancelled": "by the run's own word, or its job's outcomes, there is nothing to do, now or later",
    "no_retry": "by the run's own word, or its job's outcomes, no retry would help",
    "snoozed": "by the run's own word, or its job's outcomes, it goes on later",
    "snoozes_exhausted": "it was put off too often",
    "start_deadline": "no node could take it before its start deadline",
    "expired_unstarted": "it had not started when it expired, the time that its job gives a run for that",
    "conditions_timeout": "its conditions were not met within conditions_timeout",
    "worker_lost": "its worker was lost",
    "handed_back": "its node stopped, and handed it back",
    "not_begun": "its node could not start it",
    "skip_next": "somebody asked that it be left out",
    "restored": "the cluster was restored from a backup, and it may have run after that was made",
    "suspended": "its job was suspended before it could be fired",
    "edited": "the trigger of its job was changed before it could be fired",
    "no_eligible_node": "no node there was could take it",
    "receiver_gone": "its receiver answered 410, which means that it wants no more",
}


# Of the ends without a start, what was over. For what it waited then, the error says.
_OVER = {
    "expired_unstarted": "it expired",
    "start_deadline": "its start deadline was over",
    "conditions_timeout": "its conditions_timeout was over",
}

# The same of several due times that are one record.
_OVER_OF_MANY = {
    "expired_unstarted": "none of them had started when it expired",
    "start_deadline": "no node could take them before their start deadlines",
}


def _killed_next(policy: Policy | None) -> str:
    grace_ms = GRACE_MS if policy is None or policy.grace_ms is None else policy.grace_ms
    return (
        f" Its processes get SIGTERM, and SIGKILL {format_duration(grace_ms)} later; it ends when its node says that "
        "none is left."
    )


def trigger_words(row: Instance, job: Job | None, policy: Policy | None) -> str | None:
    """Returns the trigger in words; None: the job's trigger at that time is not known any more."""
    if job is None or policy is None:
        return None
    try:
        if not policy.triggers:
            return schedule.describe(policy.trigger, hash_id=job.hash_id, anchor_ms=job.anchor_at_ms)
        if row.trigger:
            return schedule.describe(policy.trigger_of(row), hash_id=job.hash_id)
        return schedule.describe_several(policy.triggers, max_runs=policy.trigger.max_runs, hash_id=job.hash_id)
    except schedule.TriggerError:
        return None


def then_words(
    row: Instance,
    made_by: str,
    trigger: str | None,
    policy: Policy | None,
    upstream: str | None = None,
    outage: str = "",
) -> str:
    """Why it was made at that time. `upstream`: the job of the run by whose end it was started, if it may be named.
    `outage`: what kept it from being fired sooner."""
    nominal = format_time(row.nominal_at_ms)
    if made_by == "manual":
        return f"Somebody started this run by hand at {nominal}."
    if made_by == "after" and row.cause is not None:
        return _after_words(row, upstream)
    if made_by == "part" and row.parent is not None:
        return f"It is a part of the run {instance_text(row.parent)}, made at {_made(row)}, when its turn had come."
    if made_by == "event":
        return f"It delivers an event that came about at {nominal} to a webhook."
    if made_by == "backfill":
        return f"Somebody asked for a backfill: this run, made at {_made(row)}, makes up for {nominal}."
    if made_by == "skipped":
        return gap_words(row, policy, outage)
    what = f"Its trigger {row.trigger}" if row.trigger else "Its trigger"
    if trigger is not None:
        what += f' ("{trigger}")'
    text = f"{what} was due at {nominal}"
    if row.jitter_ms:
        text += f", put off by {format_duration(row.jitter_ms)} of jitter"
    if row.overdue_ms:
        text += f", which was past when the job was given it, {format_duration(row.overdue_ms)} later"
    late = row.created_at_ms - row.due_at_ms
    held_up = f", for {outage}" if outage else ""
    if made_by == "missed":
        text += f", and could not fire before {_made(row)}, {format_duration(max(0, late))} later{held_up}"
        if policy is None:
            return f"{text}: later than its grace. {_POLICY_GONE}"
        grace, runs = format_duration(policy.misfire.grace_ms), _MISFIRE[policy.misfire.policy]
        name = policy.misfire.policy.name.lower()
        return f'{text}: later than its grace of {grace}. Of those missed the policy "{name}" runs {runs}.'
    if late < 0:
        return f"{text}; it fired {format_duration(-late)} earlier, by the clock of the leader of that time."
    return f"{text}; it fired {format_duration(late)} later{held_up}."


def _after_words(row: Instance, upstream: str | None) -> str:
    assert row.cause is not None
    of = "" if upstream is None else f" of job {upstream}"
    how = "the end of run" if not row.joined else f"the ends of {len(row.joined)} runs, the last of which was"
    text = f"It was started at {_made(row)} by {how} {instance_text(row.cause)}{of}."
    if row.root is not None and row.root != row.cause:
        text += f" The first run of its workflow is {instance_text(row.root)}."
    return f"{text} Its scheduled time is that of the first."


def _made(row: Instance) -> str:
    return format_time(row.created_at_ms)


def gap_words(row: Instance, policy: Policy | None, outage: str = "") -> str:
    """Returns a sentence about the due times that a SKIPPED record stands for. `outage`: what kept them from being
    fired."""
    reason = row.reason
    if row.steps and row.steps[0].kind is StepKind.FINAL:
        reason = row.steps[0].detail  # one that was run again since has a reason of its own, or none
    if not row.gap_count:
        return f"It did not run: {because(reason or 'skipped')}."
    first, last = format_time(row.nominal_at_ms), format_time(row.gap_until_ms or row.nominal_at_ms)
    many = row.gap_count > 1
    what = f"{row.gap_count} due times from {first} to {last} were" if many else f"The due time {first} was"
    if reason == "misfire":
        why = f"nothing could fire then, for {outage or 'there was no leader or the cluster was paused'}"
        if policy is not None:
            name, grace = policy.misfire.policy.name.lower(), format_duration(policy.misfire.grace_ms)
            it = "they were" if many else "it was"
            why += f"; when it could, {it} later than the grace of {grace}, and the misfire policy is {name}"
    elif reason == "overlap":
        why = "a run of the job was active"
        if policy is not None:
            name, lets = policy.overlap.name.lower(), _OVERLAP.get(policy.overlap)
            why = f"{why}, and the overlap policy {name} {lets}" if lets else "too many runs of the job were active"
    else:
        why = (many and _OVER_OF_MANY.get(reason or "")) or because(reason or "not recorded")
    last_words = f" Of the last: {error_words(row.error)}." if row.state is InstanceState.SKIPPED and row.error else ""
    return f"{what} skipped: {why}.{last_words}"


def because(reason: str) -> str:
    """Returns what a code that the log has for an end or a wait means, to stand behind a colon."""
    return _REASONS.get(reason, reason.replace("_", " "))


def there_words(attempt: Attempt) -> str:
    """Why it went there."""
    seen = attempt.placement
    if seen is None:
        return f"It was given to {in_words(attempt.node)}; what else there was to choose from was not noted."
    load, who = f"{seen.running} of {seen.slots} slots taken", at_start(attempt.node)
    if seen.eligible > 1:
        text = f"{who} was chosen: of the {seen.eligible} nodes that could take it, it was the least busy ({load})"
    else:
        text = f"{who} was chosen: no other node could take it ({load})"
    if seen.avoided:
        text += f"; {in_words(seen.avoided)}, where the attempt before was, came after it"
    unfit = seen.nodes - max(1, seen.eligible)
    more = f" {unfit} other node{'s' * (unfit > 1)} could not take it." if unfit > 0 and seen.eligible > 1 else ""
    others = " The leader's own node is used last." if seen.nodes > 1 else ""
    return f"{text}.{more}{others}"


def unstarted_words(attempt: Attempt, ended: Step) -> tuple[str, str]:
    """Returns as what counts the time for which a worker had an attempt that nobody heard of as started (a stable
    code), and the words for it, to stand behind a duration."""
    whom = in_words(attempt.node)
    if ended.kind is StepKind.LOST:
        return "worker_lost", f"with {whom}, which was lost and had not been heard to start it"
    if ended.detail == "handed_back":
        return "handed_back", f"with {whom}, which stopped and had not started it"
    return "not_begun", f"with {whom}, which did not start it"


def step_words(row: Instance, step: Step, attempt: Attempt | None, last: bool) -> str:
    """Returns a sentence about one step."""
    name = "the attempt" if attempt is None else f"attempt {attempt.number}"
    node = "its node" if attempt is None else in_words(attempt.node)
    match step.kind:
        case StepKind.CREATED:
            return {
                None: "its time came: it was made",
                "missed": "it was made for what was missed",
                "manual": "somebody started it by hand: it was made",
                "backfill": "somebody asked for a backfill of that time: it was made",
                "after": "the run that it follows ended: it was made",
                "part": "it was made as a part of a run whose turn had come",
                "event": "an event came about that a webhook is to be told of: it was made",
            }.get(step.detail, f"it was made ({step.detail})")
        case StepKind.HELD:
            return "it waits for another run of its job to end"
        case StepKind.RELEASED:
            return "the run that it waited for ended"
        case StepKind.CONDITIONS:
            return _with("it waits for its conditions", step.detail)
        case StepKind.CONDITIONS_MET:
            return _with("its conditions were met", step.detail)
        case StepKind.IN_LINE:
            return _with("it waits for a permit of its key", step.detail)
        case StepKind.PERMIT:
            return "it got a permit of its key"
        case StepKind.UNPLACEABLE:
            return _with("no node there was could take it", step.detail)
        case StepKind.ASSIGNED:
            session = "" if attempt is None else f" under session {attempt.session}"
            return f"{name} was given to {node}{session}"
        case StepKind.STARTED:
            return f"{name} started on {node}"
        case StepKind.ENDED:
            return _with(f"{name} ended on {node}", None if step.detail is None else because(step.detail))
        case StepKind.LOST:
            why = None if attempt is None else attempt.error
            return f"{name} was lost: {why or f'the session of {node} ended before it reported'}"
        case StepKind.RETRY:
            return _with("it waits for the delay of its retry", step.detail)
        case StepKind.SNOOZED:
            return "it was put off" if step.detail is None else f"it was put off for {step.detail}"
        case StepKind.READY:
            return _with("it may run again", step.detail)
        case StepKind.SPLIT:
            return _with("its turn came, and its parts were let go", step.detail)
        case StepKind.RESULT_LEFT_OUT:
            return _with("results that were to be passed on were left out, for they are too many bytes", step.detail)
        case StepKind.RESULT_DROPPED:
            return _with("results that were to be passed on had been dropped; the params say why", step.detail)
        case StepKind.KILL_ASKED:
            return f"{name} was asked to end: {because(step.detail or 'killed')}"
        case StepKind.RERUN if step.detail == "dead_letter":
            return "it was taken from the dead letters, to run again"
        case StepKind.RERUN if step.detail == "after":
            return "the run that it follows ended again, so it runs again"
        case StepKind.RERUN:
            return "somebody asked to run it again"
        case StepKind.FINAL:
            return _final(row, step, attempt, last)
    return _with(step.kind.name.lower(), step.detail)


def _final(row: Instance, step: Step, attempt: Attempt | None, last: bool) -> str:
    text = "it came to its end" if not last else f"it is {row.state.name}"
    if attempt is not None and attempt.outcome is not None:
        text += f": attempt {attempt.number} on {in_words(attempt.node)} {_ENDED[attempt.outcome]}"
        return f"{text}; {because(step.detail)}" if step.detail else text
    return _with(text, None if step.detail is None else because(step.detail))


def _with(text: str, detail: str | None) -> str:
    return text if not detail else f"{text}: {detail.rstrip('.')}"


SILENT_MS = 2_000  # a worker says twice a second that it is there


def going_words(
    row: Instance, policy: Policy | None, now_ms: int, cut_off: str | None, heard_ms: int | None = None, parts: str = ""
) -> str:
    """Returns a sentence about an attempt that has begun, or about a run of several parts. `cut_off`: the node that was
    asked, when it is not connected with the one that runs it. `heard_ms`: when the leader last heard of that one.
    `parts`: what is said of its parts."""
    live = row.live
    if live is None:
        return _state_words(row, parts) + _asked_words(row, 0)
    text = f"It is {row.state.name} on {in_words(live.node)}."
    asked = _asked_words(row, live.token)
    ends_ms = None
    if policy is not None and policy.timeout_ms and live.started_at_ms is not None:
        ends_ms = live.started_at_ms + policy.timeout_ms
    if asked:
        text += asked + _killed_next(policy)
    elif ends_ms is not None and ends_ms <= now_ms:
        text += f" It is past its timeout, which was over at {format_time(ends_ms)}.{_killed_next(policy)}"
    silent = ""
    if heard_ms is not None and now_ms - heard_ms >= SILENT_MS:
        ago = format_duration((now_ms - heard_ms) // 1000 * 1000)
        silent = f" The leader last heard of {in_words(live.node)} {ago} ago."
    elif cut_off is not None and heard_ms is None:
        silent = f" {at_start(live.node)} is not connected with {cut_off}, which was asked: it may be down."
    if silent:
        ttl = "worker_ttl" if is_worker(live.node) else "session_ttl"
        silent += (
            f" If the leader hears nothing of it for the time of its lease ({ttl} and a quarter), its session "
            "ends and this attempt is lost."
        )
    return text + silent


def _asked_words(row: Instance, token: int) -> str:
    """Returns a sentence, behind a space, about who asked that the attempt with this token end, or the run (0); empty:
    nobody did."""
    asked = next((s for s in reversed(row.steps) if s.kind is StepKind.KILL_ASKED and s.token == token), None)
    if not row.kill_asked or asked is None:
        return ""
    at = format_time(row.created_at_ms + asked.after_ms)
    return f" It was asked to end at {at}: {because(asked.detail or 'killed')}."


def waiting_words(row: Instance, obstacle: str, parts: str = "") -> str:
    """Returns sentences about an instance that waits. `obstacle`: for what."""
    return f"{_state_words(row, parts)}{_asked_words(row, 0)} {obstacle}{expiry_words(row)}"


def _state_words(row: Instance, parts: str) -> str:
    return f"It is {row.state.name}: {parts}." if parts else f"It is {row.state.name}."


def expiry_words(row: Instance) -> str:
    """Returns a sentence, behind a space, about when an instance that waits is skipped; empty: it never is."""
    if row.expires_at_ms is None or row.state is not InstanceState.WAITING:
        return ""
    return f" Unless it starts before {format_time(row.expires_at_ms)} it is skipped: it expires then."


def end_words(row: Instance, parts: str = "") -> str:
    """Returns a sentence about its end, with the number of attempts where it ran. `parts`: what is said of its
    parts."""
    if parts:
        why = f"{because(row.reason)}; " if row.kill_asked and row.reason else ""
        return _state_words(row, f"{why}{parts}")
    if row.state is InstanceState.SKIPPED or not row.attempts:
        over = _OVER.get(row.reason or "")
        if over and row.error:
            return f"It is {row.state.name}: {over}. {error_words(row.error)}."
        return f"It is {row.state.name}: {because(row.reason or 'no attempt was made')}."
    last = row.attempts[-1]
    text = f"It is {row.state.name} after {last.number} attempt{'s' if last.number != 1 else ''}"
    if last.outcome is not None:
        text += f"; the last, on {in_words(last.node)} with token {last.token}, {_ENDED[last.outcome]}"
        error = error_words(last.error)
        if error:
            text += f": {error}"
    return f"{text}."


def error_words(error: str | None) -> str:
    """Returns the line of an error that says what happened, to stand behind a colon; empty where there is none."""
    line = telling_line(error or "")[:_ERROR_MAX].removesuffix(".")
    return "".join(c if c.isprintable() else " " for c in line)
