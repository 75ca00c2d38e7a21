"""What a run is told about itself, whatever its handler is, and what of its handler the runner gets."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from raftsched.core.ids import instance_key, instance_text, job_text
from raftsched.core.model import Attempt, Instance, InstanceState, Job, JobState, Policy, Trigger, TriggerKind
from raftsched.core.subjects.secret import Secret
from raftsched.worker.processes.wire import Exec, Http, Limits, Python, Task
from raftsched.worker.tasks.tasks import BadJob, Resolved, resolved, task_of

NOMINAL_MS = 1_893_456_000_250  # 2030-01-01T00:00:00.250Z
INSTANCE = Instance(
    job_id=77,
    nominal_at_ms=NOMINAL_MS,
    request=0,
    state=InstanceState.LAUNCHED,
    job_revision=1,
    priority=5,
    created_at_ms=0,
    modified_at_ms=0,
    ready_at_ms=0,
)
ABOUT = {
    "RAFTSCHED_JOB_ID": job_text(77),
    "RAFTSCHED_JOB_NAME": "report",
    "RAFTSCHED_INSTANCE_ID": instance_text(INSTANCE.key),
    "RAFTSCHED_ATTEMPT": "3",
    "RAFTSCHED_FENCING_TOKEN": "4711",
    "RAFTSCHED_SCHEDULED_AT": "2030-01-01T00:00:00.250Z",
    "RAFTSCHED_NODE_ID": "n2",
    "RAFTSCHED_WORKER": "n2",
}


def task(
    handler: dict[str, Any],
    params: dict[str, Any] | None = None,
    secret: bytes = b"",
    instance: Instance = INSTANCE,
) -> Task:
    """Returns the task of a run. `secret`: the value of each secret that it refers to."""
    body = {"handler": handler, **({"params": params} if params is not None else {})}
    policy = Policy(trigger=Trigger(kind=TriggerKind.MANUAL), timeout_ms=1_234)
    job = Job(
        id=77,
        namespace="default",
        name="report",
        revision=1,
        state=JobState.SCHEDULED,
        policy=policy,
        body=json.dumps(body).encode(),
        created_at_ms=0,
        modified_at_ms=0,
        anchor_at_ms=0,
    )
    attempt = Attempt(number=3, node="n2", session=5, token=4711, assigned_at_ms=0)

    def find(namespace: str, name: str) -> Secret:
        return Secret(namespace=namespace, name=name, revision=1, value=secret)

    return task_of(resolved(job, instance, attempt, find), {"greet": "jobs.mail:greet"})


def test_commands_and_functions_find_it_in_their_environment() -> None:
    for handler, kind in (({"exec": ["a"]}, Exec), ({"shell": "a"}, Exec), ({"python": "a:b"}, Python)):
        found = task({**handler, "env": {"A": "b", "RAFTSCHED_FENCING_TOKEN": "9999"}, "cwd": "/x"}, {"p": 1})
        assert isinstance(found, Exec | Python)
        assert isinstance(found, kind)
        params = {"RAFTSCHED_PARAMS": '{"p": 1}', "RAFTSCHED_REPORT_FILE": "/dev/fd/3"} if kind is Exec else {}
        assert found.env == {"A": "b", **ABOUT, **params}, "what the cluster says wins"
        assert (found.cwd, found.limits) == ("/x", None)


def test_requests_carry_it_in_headers() -> None:
    found = task({"http": {"url": "http://a/", "headers": {"X": "y", "Raftsched-Attempt": "1"}}})
    assert isinstance(found, Http)
    assert found.headers == {
        "X": "y",
        "Raftsched-Job-Id": job_text(77),
        "Raftsched-Job-Name": "report",
        "Raftsched-Instance-Id": instance_text(INSTANCE.key),
        "Raftsched-Attempt": "3",
        "Raftsched-Fencing-Token": "4711",
        "Raftsched-Scheduled-At": "2030-01-01T00:00:00.250Z",
        "Raftsched-Node-Id": "n2",
        "Raftsched-Worker": "n2",
    }


def test_limits_in_numbers() -> None:
    given = {"memory": "512MiB", "cpu": "1m30s", "open_files": 1024}
    for handler in ({"exec": ["a"]}, {"shell": "a"}, {"python": "a:b"}):
        found = task({**handler, "limits": given})
        assert isinstance(found, Exec | Python)
        assert found.limits == Limits(512 * 2**20, 90, 1024)
    found = task({"exec": ["a"], "limits": {"cpu": "1s"}})
    assert isinstance(found, Exec)
    assert found.limits == Limits(None, 1, None)


def test_a_process_of_its_own() -> None:
    for handler, wanted in (({"python": "a:b"}, False), ({"python": "a:b", "fresh": True}, True)):
        found = task(handler)
        assert isinstance(found, Python)
        assert found.fresh is wanted


@pytest.mark.parametrize("limits", [{"memory": "much"}, {"cpu": "long"}, {"open_files": "many"}])
def test_limits_that_cannot_be_read_fail_the_run(limits: dict[str, Any]) -> None:
    with pytest.raises(BadJob, match=r"this node cannot read the (job's handler|handler's limits)"):
        task({"exec": ["a"], "limits": limits})


def test_a_call_is_the_function_that_has_the_name_on_this_node() -> None:
    found = task({"call": "greet", "env": {"A": "b"}}, {"name": "ana"})
    assert isinstance(found, Python)
    assert (found.function, json.loads(found.params), found.env) == (
        "jobs.mail:greet",
        {"name": "ana"},
        {"A": "b", **ABOUT},
    )
    with pytest.raises(BadJob, match='no handler "gone" any more'):
        task({"call": "gone"})


def test_a_remote_worker_has_a_name_and_no_node_id() -> None:
    job = Job(
        id=77,
        namespace="default",
        name=None,
        revision=1,
        state=JobState.SCHEDULED,
        policy=Policy(trigger=Trigger(kind=TriggerKind.MANUAL)),
        body=b'{"handler":{"shell":"true"},"user":"web","params":{"a":1}}',
        created_at_ms=0,
        modified_at_ms=0,
        anchor_at_ms=0,
    )
    attempt = Attempt(number=1, node="worker/gpu-1", session=5, token=4711, assigned_at_ms=0)
    found = resolved(job, INSTANCE, attempt)
    assert (found.env["RAFTSCHED_NODE_ID"], found.env["RAFTSCHED_WORKER"]) == ("", "gpu-1")
    assert (found.handler, found.params, found.user) == (b'{"shell":"true"}', b'{"a":1}', "web")
    own = task_of(found, {})
    assert isinstance(own, Exec)
    assert own.argv == ("/bin/sh", "-c", "true")


TEMPLATED = {"exec": ["a", "{due:%F}", "{params.who}", "{attempt}", "{token}"], "template": True}


def test_templates_are_filled_in() -> None:
    found = task(TEMPLATED, {"who": "{due}"})
    assert isinstance(found, Exec)
    assert found.argv == ("a", "2030-01-01", "{due}", "3", "4711"), "what was inserted is not read again"
    found = task({**TEMPLATED, "template": False}, {"who": "ana"})
    assert isinstance(found, Exec)
    assert list(found.argv) == TEMPLATED["exec"], "braces have no meaning of their own"
    with pytest.raises(
        BadJob, match=r"cannot be filled in: /handler/exec/2 has {params.who}, which params do not have"
    ):
        task(TEMPLATED)


def test_secrets_are_no_templates_and_templates_show_none() -> None:
    env = {"DAY": "{due:%F}", "WORD": {"$secret": "pw"}}
    found = task({"exec": ["a"], "env": env, "template": True}, {"pw": {"$secret": "pw"}}, b"{due}{{")
    assert isinstance(found, Exec)
    assert (found.env["DAY"], found.env["WORD"]) == ("2030-01-01", "{due}{{")
    assert json.loads(found.env["RAFTSCHED_PARAMS"]) == {"pw": "{due}{{"}
    with pytest.raises(BadJob, match="which is a secret"):
        task({"exec": ["a", "{params.pw}"], "template": True}, {"pw": {"$secret": "pw"}}, b"hunter2")


def test_a_time_is_written_in_the_zone_of_the_trigger() -> None:
    body = b'{"handler":{"exec":["a","{due:%F %H:%M}"],"template":true}}'
    for zone, text in (
        ("Asia/Tokyo", "2030-01-01 09:00"),
        ("America/St_Johns", "2029-12-31 20:30"),
        ("UTC", "2030-01-01 00:00"),
    ):
        trigger = Trigger(kind=TriggerKind.CRON, expr="0 0 * * *", timezone=zone)
        found = resolved(
            made(body, trigger), INSTANCE, Attempt(number=1, node="n", session=5, token=1, assigned_at_ms=0)
        )
        assert json.loads(found.handler)["exec"] == ["a", text]
    nowhere = made(body, Trigger(kind=TriggerKind.CRON, expr="0 0 * * *", timezone="Mars/Base"))
    with pytest.raises(BadJob, match="no time zone Mars/Base"):
        resolved(nowhere, INSTANCE, Attempt(number=1, node="n", session=5, token=1, assigned_at_ms=0))


def made(body: bytes, trigger: Trigger) -> Job:
    return Job(
        id=77,
        namespace="default",
        name=None,
        revision=1,
        state=JobState.SCHEDULED,
        policy=Policy(trigger=trigger),
        body=body,
        created_at_ms=0,
        modified_at_ms=0,
        anchor_at_ms=0,
    )


def test_what_a_run_kept_and_how_often_it_was_put_off() -> None:
    job = made(b'{"handler":{"http":{"url":"http://a/"}}}', Trigger(kind=TriggerKind.MANUAL))
    attempt = Attempt(number=2, node="n2", session=5, token=4711, assigned_at_ms=0)
    row = msgspec.structs.replace(INSTANCE, kept=b'{"row":7}', snoozes=3)
    found = resolved(job, row, attempt)
    assert (found.env["RAFTSCHED_STATE"], found.env["RAFTSCHED_SNOOZES"]) == ('{"row":7}', "3")
    request = task_of(found, {})
    assert isinstance(request, Http)
    assert request.headers["Raftsched-Snoozes"] == "3"
    assert "Raftsched-State" not in request.headers, "a header is no place for it"


def test_a_run_that_others_started_knows_them_and_their_results() -> None:
    cause, root = instance_key(NOMINAL_MS, 5, 9), instance_key(NOMINAL_MS, 4)
    passed = b'{"default/a":{"password":{"$secret":"smtp"}}}'
    follows = msgspec.structs.replace(INSTANCE, cause=cause, root=root, passed=passed)
    run = task({"python": "jobs.mail:send"}, {"to": "ana", "upstream": 1}, instance=follows)
    assert isinstance(run, Python)
    wanted = {"to": "ana", "upstream": {"default/a": {"password": {"$secret": "smtp"}}}}
    assert json.loads(run.params) == wanted  # results are data: they name no secrets
    told = {"RAFTSCHED_CAUSE_INSTANCE_ID": instance_text(cause), "RAFTSCHED_ROOT_INSTANCE_ID": instance_text(root)}
    assert run.env == {**ABOUT, **told}


def test_how_many_runs_of_a_handler_a_process_takes() -> None:
    def of(handler: str) -> Python:
        found = Resolved(handler.encode(), b"{}", {}, (), "")
        made = task_of(found, {"greet": "jobs.mail:greet", "other": "jobs.mail:other"}, {"jobs.mail:greet": 20})
        assert isinstance(made, Python)
        return made

    assert of('{"call": "greet"}').shares_process
    assert of('{"call": "greet"}').concurrency == 20
    assert of('{"call": "other"}').concurrency == 1
    assert of('{"python": "jobs.mail:greet"}').concurrency == 1
    for more in ('"cwd": "/"', '"fresh": true', '"limits": {"cpu": "1s"}'):
        assert not of(f'{{"call": "greet", {more}}}').shares_process
