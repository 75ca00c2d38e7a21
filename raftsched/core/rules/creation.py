"""Rules for a job that is made or edited, beside those of its fields: its name, its namespace, the jobs that it waits
for, and what `H` in its cron expressions is hashed from. Apply decides by them; the API asks them when a job is only
checked."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

from msgspec.structs import replace

from raftsched.core.commands import Rejected
from raftsched.core.limits import CIRCLE_JOB_STEPS, CIRCLE_STEPS, CIRCLE_STEPS_AT_ONCE, FOLLOWED_STEPS_AT_ONCE
from raftsched.core.model import ConditionKind, Job, JobState, Policy, TriggerKind
from raftsched.core.rules.selection import DEFAULT_NAMESPACE
from raftsched.core.subjects.namespace import Namespace, namespace_error
from raftsched.core.tables import KEY_MAX, name_key


def name_error(namespace: str, name: str) -> Rejected | None:
    key = name_key(namespace, name)
    if len(key) > KEY_MAX:
        return Rejected("invalid-job", f"Namespace and name together take {len(key)} bytes; {KEY_MAX} is the limit.")
    if not name or key.count(0) > 1:
        return Rejected("invalid-job", "A name has one character at least, and no NUL in it.")
    return None


def no_room(namespace: Namespace | None, name: str, *, strict: bool) -> Rejected | None:
    """Refuses one more job when the namespace is full or not declared. `namespace`: its row, None where there is none;
    `strict`: namespaces have to be declared."""
    wrong = namespace_error(name) if namespace is None else None
    if wrong is not None:
        return Rejected("invalid-job", wrong)
    refused = undeclared(namespace, name) if strict else None
    if refused is not None:
        return refused
    if namespace is None or namespace.max_jobs is None or namespace.jobs < namespace.max_jobs:
        return None
    return Rejected("not-possible", f"The namespace {name} holds {namespace.jobs} jobs, as many as it may.")


def undeclared(namespace: Namespace | None, name: str) -> Rejected | None:
    """Refuses a namespace that is not declared. The default one never has to be."""
    if name == DEFAULT_NAMESPACE or (namespace is not None and namespace.revision):
        return None
    return Rejected(
        "invalid-job",
        "is not declared, which it has to be in this cluster; PUT it first",
        "/namespace",
        meaning="unknown-reference",
    )


def seed_of(namespace: str, name: str | None, policy: Policy) -> int:
    """Returns what `H` is hashed from in the cron expressions of a job that is made under this name: the same times in
    each cluster, and of a job that is made again. 0: the job has no name or no `H`."""
    if name is None or not has_hash(policy):
        return 0
    return int.from_bytes(blake2b(name_key(namespace, name), digest_size=8).digest(), "big") or 1


def seed_after_edit(job: Job, name: str | None, policy: Policy) -> int:
    """Returns the same for a job that gets this name and content. What it has it keeps, also under another name: its
    times shall not move by that."""
    if job.seed or has_hash(job.policy):
        return job.seed
    return seed_of(job.namespace, name, policy)


def has_hash(policy: Policy) -> bool:
    """Returns whether a cron expression of the job may have an `H`: names of days have one, too."""
    triggers = policy.all_triggers
    return any(one.kind is TriggerKind.CRON and ("H" in one.expr or "h" in one.expr) for one in triggers)


def has_content(job: Job, policy: Policy, body: bytes, *, variables: bool = True) -> bool:
    """Returns whether a job has this content already. `variables`: False: those in the policy are passed over, for
    before level 6 it has none; the body has them."""
    if job.body != body:
        return False
    return job.policy == policy or (not variables and job.policy == replace(policy, env=job.policy.env))


def taken(job: Job, namespace: str, name: str, policy: Policy, body: bytes, *, suspended: bool) -> Rejected | None:
    """Refuses a job under the name of another one, which `job` is unless its content is the same."""
    if not has_content(job, policy, body, variables=False):
        return name_taken(namespace, name, " by a job with other content")
    if suspended and job.state is JobState.SCHEDULED:
        return name_taken(namespace, name, " by the same job, but it is SCHEDULED, not suspended; pause it")
    return None


def name_taken(namespace: str, name: str, how: str = "") -> Rejected:
    return Rejected("name-taken", f"The name {name} is taken in namespace {namespace}{how}.")


def unknown_calendar(policy: Policy, known: Callable[[str], bool]) -> Rejected | None:
    """Refuses a job that names a calendar that is not there. `known`: whether there is one of this name."""
    for place, trigger in enumerate(policy.all_triggers):
        if trigger.calendar is not None and not known(trigger.calendar):
            at = f"/triggers/{place}" if policy.triggers else "/trigger"
            detail = f"names no calendar that there is; PUT /v1/calendars/{trigger.calendar} creates it"
            return Rejected("invalid-trigger", detail, f"{at}/calendar", meaning="unknown-reference")
    return None


def waits_for(policy: Policy) -> list[tuple[str, str]]:
    """Returns the jobs that one waits for, as namespace/name: those that it follows and those of its conditions, each
    with the field that says so."""
    found = []
    if policy.trigger.after is not None:
        found = [(target, "/trigger/after") for target in policy.trigger.after.jobs]
    if policy.conditions:
        found += [
            (condition.target, f"/conditions/{place}/job_succeeded")
            for place, condition in enumerate(policy.conditions)
            if condition.kind is ConditionKind.JOB
        ]
    return found


def circle(
    find: Callable[[str, str], Job | None],
    namespace: str,
    name: str | None,
    policy: Policy,
    *,
    followed: Callable[[str], bool],
    steps: int = 0,
) -> tuple[Rejected | None, int]:
    """Refuses a job that would wait for itself, directly or by way of other jobs: none of them would ever run. A
    job may be awaited before it exists, so the one that is written last closes the circle. Where no other job follows
    this one, only a condition can close it, and the search is short. A circle beyond its bounds comes to no harm, for
    each job runs once in a workflow. `find` returns the job of a namespace and a name, `followed` whether jobs follow
    the one that is named as namespace/name. `steps`: those of the searches before in the same entry; returned with
    those of this one, for an entry holds many commands, and all nodes wait for it."""
    if name is None:
        return None, steps  # nobody can wait for it
    own = f"{namespace}/{name}"
    first = dict(reversed(waits_for(policy)))  # and the fields that name them
    came: dict[str, str | None] = dict.fromkeys(reversed(first))  # and the job that waits for it
    if own in came:
        return _never(own, [own], first), steps
    last = FOLLOWED_STEPS_AT_ONCE if followed(own) else min(steps + CIRCLE_STEPS, CIRCLE_STEPS_AT_ONCE)
    for target in (ahead := list(came)):
        if steps >= last:
            break
        steps += CIRCLE_JOB_STEPS
        job = find(*split_name(target))
        for further, _ in () if job is None else waits_for(job.policy):
            if further == own:
                way = [target, own]
                while (before := came[way[0]]) is not None:
                    way.insert(0, before)
                return _never(own, way, first), steps
            steps += 1
            if further not in came:
                came[further] = target
                ahead.append(further)
    return None, steps


def _never(own: str, way: list[str], first: dict[str, str]) -> Rejected:
    """`way`: the jobs from the first that it waits for to itself. Whoever writes a job may not be allowed to know jobs
    of other namespaces, but for those that they name."""
    namespace, at = own.partition("/")[0], first[way[0]]
    known = (way[0], *(n if n.startswith(f"{namespace}/") else "a job of another namespace" for n in way[1:]))
    what = "conditions" if at.startswith("/conditions") else "triggers"
    detail = f"it would never run: {own} waits for {', which waits for '.join(known)}; take out one of these {what}"
    return Rejected("invalid-job", detail, at, meaning="circular")


def split_name(target: str) -> tuple[str, str]:
    """Returns namespace and name of a job that a condition names."""
    namespace, _, name = target.partition("/")
    return namespace, name
