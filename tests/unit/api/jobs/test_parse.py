"""A job as given becomes a command: it holds what is said, and all else as the model has it, and can be read back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from raftsched.api.auth.callers import Caller, RequestContext, begin_request, end_request, signed
from raftsched.api.http.problems import Problem
from raftsched.api.jobs.defaults import NamespaceDefaults
from raftsched.api.jobs.parse import create_command, read_job
from raftsched.bounds import HOUR_MS
from raftsched.cluster_settings import Settings
from raftsched.core.commands import CreateJob, decode
from raftsched.core.model import (
    Condition,
    ConditionKind,
    Delivery,
    EveryMode,
    Mapped,
    Misfire,
    MisfirePolicy,
    Outcome,
    Outcomes,
    Overlap,
    Policy,
    Retention,
    Retry,
    Trigger,
    TriggerKind,
    Verdict,
)
from raftsched.core.rules.run_keys import Concurrency
from raftsched.core.subjects.access import Attributed, Role
from raftsched.core.subjects.notices import Event, Notify
from raftsched.surface.content import MisfireIn
from raftsched.surface.jobs_generated import DefaultsIn

NOW_MS = 1_893_456_000_000  # 2030-01-01T00:00:00Z
TRIGGER = {"every": "1h", "mode": "fixed_delay", "jitter": "5s", "max_runs": 7}
SAID: list[tuple[str, Any, str, Any]] = [  # field, as given, field of the policy, as it is there
    ("priority", 9, "priority", 9),
    ("queue", "mails", "queue", "mails"),
    ("timeout", "90s", "timeout_ms", 90_000),
    ("grace", "30s", "grace_ms", 30_000),
    ("user", "svc-mail", "user", "default:svc-mail"),
    ("delivery", "at_most_once", "delivery", Delivery.AT_MOST_ONCE),
    ("max_lost", 0, "max_lost", 0),
    ("suspend_after", 4, "suspend_after", 4),
    ("retry", {"delays": ["1s", "2s"], "on": ["failed"]}, "retry", Retry((1_000, 2_000), (Outcome.FAILED,))),
    ("overlap", "queue_all", "overlap", Overlap.QUEUE_ALL),
    ("misfire", {"policy": "skip", "grace": "1m"}, "misfire", Misfire(MisfirePolicy.SKIP, 60_000)),
    ("max_concurrency", 3, "max_concurrency", 3),
    (
        "concurrency",
        {"key": "a{job}", "max": 2, "rate": {"count": 3, "per": "1m"}},
        "concurrency",
        Concurrency("a{job}", "a\0", 2, 3, 60_000),
    ),
    ("placement", {"labels": {"disk": "fast"}}, "node_labels", (("disk", "fast"),)),
    ("conditions", [{"path": "/srv/*"}], "conditions", (Condition(ConditionKind.PATH, "/srv/*"),)),
    ("conditions_timeout", "2h", "conditions_timeout_ms", 7_200_000),
    ("notify", {"on": ["failed"], "webhook": "ops"}, "notify", (Notify("ops", (Event.FAILED,)),)),
    (
        "notify",
        {"on": ["late", "not_run_since"], "webhook": "ops", "late_by": "30s", "not_run_for": "25h"},
        "notify",
        (Notify("ops", (Event.LATE, Event.NOT_RUN_SINCE), late_ms=30_000, not_run_ms=25 * HOUR_MS),),
    ),
    (
        "notify",
        {"on": ["running_long"], "webhook": "ops", "longer_than": "10m", "p95_times": 1.5},
        "notify",
        (Notify("ops", (Event.RUNNING_LONG,), longer_ms=600_000, p95_percent=150),),
    ),
    (
        "outcomes",
        {"exit": {"75": "snooze 5m", "64-70": "fail", "3": "succeed"}},
        "outcomes",
        Outcomes(
            (
                Mapped(3, 3, Verdict.SUCCEED),
                Mapped(75, 75, Verdict.SNOOZE, 300_000),
                Mapped(64, 70, Verdict.FAIL),
            )
        ),
    ),
    ("expires", "10m", "expires_ms", 600_000),
    ("retention", {"succeeded": 1, "failed": 2, "max_age": "1d"}, "retention", Retention(1, 2, 86_400_000)),
]


def policy_of(**said: Any) -> Policy:
    given = {"trigger": TRIGGER, "handler": {"exec": ["true"]}, **said}
    content = read_job(msgspec.json.encode(given), Settings(), NOW_MS)
    raw = create_command(content)
    command = decode(raw)
    assert isinstance(command, CreateJob)
    assert (command.policy, command.body) == (content.policy, content.body), "as it was written"
    token = begin_request(
        RequestContext(Caller(Role.EDITOR, None, 7, "ci"), "jobs_create", remote="127.0.0.1", work=True)
    )
    try:
        (somebodys,) = signed((raw,))
    finally:
        end_request(token)
    by = decode(somebodys)
    assert isinstance(by, Attributed)
    assert (by.actor, bytes(by.command)) == (7, raw)
    return command.policy


PLAIN = Policy(
    trigger=Trigger(
        kind=TriggerKind.EVERY, period_ms=3_600_000, mode=EveryMode.FIXED_DELAY, jitter_ms=5_000, max_runs=7
    ),
    required_capability="exec",
    target="true",
)


def test_what_is_not_said_is_as_the_model_has_it() -> None:
    assert policy_of() == PLAIN
    assert policy_of(params={}, labels={}, conditions=[], queue="default", max_concurrency=1) == PLAIN


@pytest.mark.parametrize(("field", "given", "name", "value"), SAID, ids=[one[0] for one in SAID])
def test_what_is_said_is_in_the_policy(field: str, given: Any, name: str, value: Any) -> None:
    assert policy_of(**{field: given}) == msgspec.structs.replace(PLAIN, **{name: value})


@pytest.mark.parametrize("user", ["", "1st", "-a", "a b", "a:b", "a/b", "x" * 33, "root\n"])
def test_a_user_is_a_name(user: str) -> None:
    with pytest.raises(Problem) as refused:
        policy_of(user=user)
    assert [error.pointer for error in refused.value.errors] == ["/user"]


@pytest.mark.parametrize(
    ("kind", "codes", "pointer"),
    [
        ("exit", {"256": "fail"}, "/outcomes/exit/256"),
        ("exit", {"-1": "fail"}, "/outcomes/exit/-1"),
        ("exit", {"7-5": "fail"}, "/outcomes/exit/7-5"),
        ("exit", {"one": "fail"}, "/outcomes/exit/one"),
        ("exit", {"a/b": "fail"}, "/outcomes/exit/a~1b"),
        ("exit", {"1": "again"}, "/outcomes/exit/1"),
        ("exit", {"1": "fail 5m"}, "/outcomes/exit/1"),
        ("exit", {"1": "snooze"}, "/outcomes/exit/1"),
        ("exit", {"1": "snooze soon"}, "/outcomes/exit/1"),
        ("exit", {"1": "snooze 10ms"}, "/outcomes/exit/1"),
        ("exit", {"1": "snooze 31d"}, "/outcomes/exit/1"),
        ("exit", {"1-5": "fail", "5-9": "retry"}, "/outcomes/exit/5-9"),
        ("exit", {"1": "fail", "01": "retry"}, "/outcomes/exit/01"),
        ("exit", {str(n): "fail" for n in range(33)}, "/outcomes"),
        ("status", {"429": "snooze"}, "/outcomes/status"),
    ],
)
def test_outcomes_that_cannot_be(kind: str, codes: dict[str, str], pointer: str) -> None:
    with pytest.raises(Problem) as refused:
        policy_of(outcomes={kind: codes})
    assert [error.pointer for error in refused.value.errors] == [pointer]


def test_outcomes_of_answers() -> None:
    http = {"http": {"url": "http://10.0.0.1/"}}
    policy = policy_of(handler=http, outcomes={"status": {"500-599": "retry", "429": "snooze", "503": "snooze 1m"}})
    assert policy.outcomes == Outcomes(
        status=(
            Mapped(429, 429, Verdict.SNOOZE),
            Mapped(503, 503, Verdict.SNOOZE, 60_000),
            Mapped(500, 599, Verdict.RETRY),
        )
    )
    with pytest.raises(Problem) as refused:
        policy_of(handler=http, outcomes={"exit": {"1": "fail"}})
    assert [error.pointer for error in refused.value.errors] == ["/outcomes/exit"]


def test_no_outcomes_are_none() -> None:
    assert policy_of(outcomes={}) == policy_of(outcomes={"exit": {}}) == PLAIN


@pytest.mark.parametrize("expires", ["0s", "soon", "-1m", ""])
def test_expires_is_a_duration_of_more_than_nothing(expires: str) -> None:
    with pytest.raises(Problem) as refused:
        policy_of(expires=expires)
    assert [error.pointer for error in refused.value.errors] == ["/expires"]


@pytest.mark.parametrize(
    ("handler", "target", "cwd"),
    [
        ({"exec": ["/opt/jobs/a", "-x"], "cwd": "/srv"}, "/opt/jobs/a", "/srv"),
        ({"shell": "true", "cwd": "/srv/a"}, "", "/srv/a"),
        ({"python": "shop.mail:send"}, "shop.mail:send", ""),
        ({"http": {"url": "https://Example.org/a?b=c"}}, "example.org:443", ""),
        ({"http": {"url": "http://[::1]:8080"}}, "[::1]:8080", ""),
        ({"call": "send"}, "", ""),
    ],
)
def test_what_a_node_may_refuse_is_in_the_policy(handler: dict[str, Any], target: str, cwd: str) -> None:
    policy = policy_of(handler=handler)
    assert (policy.target, policy.cwd) == (target, cwd)


@pytest.mark.parametrize(
    ("handler", "env"),
    [
        ({"exec": ["/opt/a"], "env": {"B": "1", "A": {"$secret": "key"}}}, ("A", "B")),
        ({"python": "a.b:c", "env": {"x" * 300: "1"}}, ("x" * 256,)),
        ({"call": "send", "env": {f"V{n:03}": "1" for n in range(200)}}, tuple(f"V{n:03}" for n in range(100))),
        ({"shell": "true", "env": {"A": "1"}}, ()),
        ({"exec": ["/opt/a"]}, ()),
    ],
    ids=["sorted", "long", "many", "shell", "none"],
)
def test_the_names_of_its_variables_are_in_the_policy(handler: dict[str, Any], env: tuple[str, ...]) -> None:
    assert policy_of(handler=handler).env == env


def test_a_request_is_nobodys_process() -> None:
    with pytest.raises(Problem) as refused:
        policy_of(handler={"http": {"url": "http://127.0.0.1/"}}, user="svc-mail")
    assert [error.pointer for error in refused.value.errors] == ["/user"]


def test_parts() -> None:
    assert policy_of(placement={"prefer": {"net": "10g"}}).prefer == (("net", "10g"),)
    assert policy_of(placement={"shards": 12}).shards == 12
    assert policy_of(placement={"on": "all"}).on_all
    one = policy_of(placement={"on": "one"})
    assert not one.on_all
    assert not one.shards


@pytest.mark.parametrize(
    ("given", "at"),
    [
        ({"placement": {"on": "all", "shards": 2}}, "/placement/shards"),
        ({"placement": {"on": "one", "shards": 2}}, "/placement/shards"),
        ({"placement": {"shards": 0}}, "/placement/shards"),
        ({"placement": {"shards": 1_001}}, "/placement/shards"),
        ({"placement": {"on": "some"}}, "/placement/on"),
        ({"placement": {"on": "all"}, "conditions": [{"path": "/data/x"}]}, "/placement/on"),
        ({"placement": {"shards": 2}, "conditions": [{"path": "/data/x"}]}, "/placement/shards"),
    ],
)
def test_what_does_not_go_with_parts(given: dict[str, Any], at: str) -> None:
    with pytest.raises(Problem) as refused:
        policy_of(**given)
    assert [error.pointer for error in refused.value.errors] == [at]


def test_all_that_can_be_said_is_tried() -> None:
    policy = policy_of(**{field: given for field, given, _, _ in SAID})
    assert policy == msgspec.structs.replace(PLAIN, **{name: value for _, _, name, value in SAID})
    assert {name for _, _, name, _ in SAID} == set(Policy.__struct_fields__) - {
        "trigger",
        "required_capability",
        "target",
        "cwd",
        "env",
        "prefer",
        "shards",
        "on_all",
        "triggers",
    }


def test_more_than_one_at_a_time_where_runs_may_overlap() -> None:
    assert policy_of(overlap="allow").max_concurrency == 0
    assert policy_of(overlap="allow", max_concurrency=1).max_concurrency == 1
    assert policy_of(overlap="queue_one", max_concurrency=1).max_concurrency == 0


class TestMisfireOfWhatIsDueOnce:
    """It runs, however late: to ask for anything else is a mistake that is told."""

    @pytest.mark.parametrize("trigger", [{"at": "2030-01-01T00:00:00Z"}, {"at": "2029-01-01T00:00:00Z"}, {"in": "5m"}])
    @pytest.mark.parametrize("policy", ["skip", "all"])
    def test_said_it_is_refused(self, trigger: dict[str, str], policy: str) -> None:
        with pytest.raises(Problem) as caught:
            policy_of(trigger=trigger, misfire={"policy": policy})
        (error,) = caught.value.errors
        assert error.pointer == "/misfire/policy"
        assert error.detail == (
            f'"{policy}" has no meaning for a job that is due once: it runs, however late; leave misfire out '
            "(where a job has one, give null)"
        )

    @pytest.mark.parametrize("misfire", [None, {}, {"policy": "once"}, {"policy": "once", "grace": "1h"}])
    def test_what_an_answer_shows_can_be_put_back(self, misfire: dict[str, str] | None) -> None:
        policy = policy_of(trigger={"in": "5m"}, misfire=misfire)
        assert policy.misfire.policy is MisfirePolicy.ONCE

    @pytest.mark.parametrize("trigger", [{"at": "2030-01-01T00:00:00Z"}, {"in": "5m"}, {"every": "5m"}])
    def test_a_default_of_the_namespace_is_for_the_others(self, trigger: dict[str, str]) -> None:
        defaults = NamespaceDefaults(1, DefaultsIn(misfire=MisfireIn("skip", "1m"), priority=7))
        given = {"trigger": trigger, "handler": {"exec": ["true"]}}
        content = read_job(msgspec.json.encode(given), Settings(), NOW_MS, lambda _: defaults)
        expected = Misfire(MisfirePolicy.SKIP, 60_000) if "every" in trigger else Misfire()
        assert (content.policy.misfire, content.policy.priority) == (expected, 7)
