"""Made from api/jobs/fields.py by scripts/make-fields; not edited by hand."""

from __future__ import annotations

from typing import Any

from raftsched.api.http.problems import FieldError
from raftsched.api.jobs.concurrency import concurrency_of
from raftsched.api.jobs.conditions import conditions_of
from raftsched.api.jobs.handlers import capability_of, cwd_of, env_of, target_of
from raftsched.api.jobs.notify import normal, notify_of
from raftsched.api.jobs.outcomes import outcomes_of, stored_outcomes
from raftsched.api.jobs.rules import (
    check_description,
    check_labels,
    check_owner,
    conditions_timeout_of,
    delivery_of,
    encode_params,
    expires_of,
    grace_of,
    is_on_all,
    max_concurrency_of,
    misfire_of,
    overlap_of,
    placement_of,
    preferred_of,
    queue_of,
    retention_of,
    retry_of,
    shards_of,
    shown_conditions_timeout,
    shown_max_concurrency,
    shown_timeout,
    stored_max_concurrency,
    stored_placement,
    timeout_of,
    user_of,
)
from raftsched.api.jobs.triggers import check_max_runs, trigger_of_job, triggers_of
from raftsched.cluster_settings import Settings
from raftsched.core.model import Policy
from raftsched.surface.content import MisfireIn, RetentionIn, RetryIn
from raftsched.surface.jobs_generated import JobIn, JobShown

_RETRY = RetryIn()
_MISFIRE = MisfireIn()
_RETENTION = RetentionIn()


def leave_out_defaults(given: JobIn) -> None:
    """A default that is given is the same as one left out: so a repeated creation changes nothing."""
    if given.priority == 5:
        given.priority = None
    if given.queue == "default":
        given.queue = None
    if given.timeout == "5m":
        given.timeout = None
    if given.delivery == "at_least_once":
        given.delivery = None
    if given.max_lost == 3:
        given.max_lost = None
    if given.retry is not None and given.retry == _RETRY:
        given.retry = None
    if given.outcomes is not None:
        given.outcomes = stored_outcomes(given.outcomes)
    if given.overlap == "forbid":
        given.overlap = None
    if given.misfire is not None and given.misfire == _MISFIRE:
        given.misfire = None
    if given.max_concurrency is not None:
        given.max_concurrency = stored_max_concurrency(given.max_concurrency, given.overlap)
    if given.conditions_timeout == "1h":
        given.conditions_timeout = None
    if given.labels == {}:
        given.labels = None
    if given.placement is not None:
        given.placement = stored_placement(given.placement)
    if given.notify is not None:
        given.notify = normal(given.notify)
    if given.retention is not None and given.retention == _RETENTION:
        given.retention = None


def policy_of(
    given: JobIn, settings: Settings, now_ms: int, errors: list[FieldError], kept: Policy | None, namespace: str
) -> Policy:
    """Returns what core looks at; refusals are added to `errors`, then the result is of no use."""
    trigger = trigger_of_job(given, now_ms, errors, kept, namespace)
    required_capability = capability_of(given.handler, errors)
    timeout_ms = timeout_of(given.timeout, settings, errors)
    more: dict[str, Any] = {}  # what is not as it is by default
    if given.triggers:
        more["triggers"] = triggers_of(given.triggers, now_ms, errors, kept)
    if given.max_runs is not None:
        check_max_runs(given.triggers, errors)
    if given.params:
        encode_params(given.params, settings, errors)
    if given.description is not None:
        check_description(given.description, errors)
    if given.owner is not None:
        check_owner(given.owner, errors)
    if given.priority is not None:
        more["priority"] = given.priority
    if given.queue is not None:
        more["queue"] = queue_of(given.queue, errors)
    if given.grace is not None:
        more["grace_ms"] = grace_of(given.grace, errors)
    if given.user is not None:
        more["user"] = user_of(given.user, given.handler, namespace, errors)
    if given.delivery is not None:
        more["delivery"] = delivery_of(given.delivery)
    if given.max_lost is not None:
        more["max_lost"] = given.max_lost
    if given.suspend_after is not None:
        more["suspend_after"] = given.suspend_after
    if given.retry is not None:
        more["retry"] = retry_of(given.retry, errors)
    if given.outcomes is not None:
        more["outcomes"] = outcomes_of(given.outcomes, given.handler, errors)
    if given.overlap is not None:
        more["overlap"] = overlap_of(given.overlap)
    if given.misfire is not None:
        more["misfire"] = misfire_of(given.misfire, trigger, given.triggers, errors)
    if given.max_concurrency is not None:
        more["max_concurrency"] = max_concurrency_of(given.max_concurrency, given.overlap)
    if given.concurrency is not None:
        more["concurrency"] = concurrency_of(given.concurrency, given.params, errors)
    if given.conditions:
        more["conditions"] = conditions_of(given.conditions, errors, kept)
    if given.conditions_timeout is not None:
        more["conditions_timeout_ms"] = conditions_timeout_of(given.conditions_timeout, errors)
    if given.expires is not None:
        more["expires_ms"] = expires_of(given.expires, errors)
    if given.labels:
        check_labels(given.labels, errors)
    if given.placement is not None:
        more["node_labels"] = placement_of(given.placement, errors)
    if given.notify is not None:
        more["notify"] = notify_of(given.notify, errors)
    if given.retention is not None:
        more["retention"] = retention_of(given.retention, errors)
    if given.handler is not None and not errors:
        more["target"] = target_of(given.handler)
        more["cwd"] = cwd_of(given.handler)
        more["env"] = env_of(given.handler)
    if given.placement is not None and not errors:
        more["prefer"] = preferred_of(given.placement, errors)
        more["shards"] = shards_of(given.placement, given.conditions, errors)
        more["on_all"] = is_on_all(given.placement)
    return Policy(trigger=trigger, required_capability=required_capability, timeout_ms=timeout_ms, **more)


def fill_in(content: JobShown, policy: Policy) -> None:
    """Fills in the defaults that depend on more than the field itself."""
    if content.timeout is None:
        content.timeout = shown_timeout(policy)
    if content.max_concurrency is None:
        content.max_concurrency = shown_max_concurrency(content.overlap)
    if content.conditions_timeout is None:
        content.conditions_timeout = shown_conditions_timeout(policy)
