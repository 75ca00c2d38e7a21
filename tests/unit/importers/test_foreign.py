"""Jobs of Dkron and Kubernetes: what becomes of each field, and that nothing is dropped silently."""

from __future__ import annotations

import json
from typing import Any

import pytest

from raftsched.importers.dkron import read_dkron
from raftsched.importers.documents import Document, read_documents
from raftsched.importers.foreign import Reading
from raftsched.importers.kubernetes import memory_size, read_cronjobs
from tests.support.stub_server import serve
from tests.unit.cli.house import puts, run, taking
from tests.unit.importers.house import NOW_MS, accepted, reasons, said

SHELL = {"executor": "shell", "executor_config": {"shell": "true", "command": "date"}}


def dkron(*jobs: dict[str, Any], prefix: str = "") -> Reading:
    documents = [Document(f"item {n}", job) for n, job in enumerate(jobs, 1)]
    return accepted(read_dkron(documents, timezone="Europe/Madrid", prefix=prefix, now_ms=NOW_MS))


def one(job: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """(the job, what was noted) of a Dkron job that can be imported."""
    reading = dkron({"name": "a", "schedule": "@daily", **SHELL, **job})
    assert not reading.refused, reading.refused
    return reading.entries[0].job, [note for _, note in reading.notes]


def refused(job: dict[str, Any]) -> str:
    reading = dkron({"name": "a", "schedule": "@daily", **SHELL, **job})
    assert not reading.entries
    return reading.refused[0][2]


def test_a_whole_dkron_job() -> None:
    job, notes = one(
        {
            "id": "a", "displayname": "Nightly", "schedule": "0 30 2 * * 1-5", "timezone": "Europe/Berlin",
            "owner": "Platform", "owner_email": "p@example.com", "success_count": 3, "error_count": 0,
            "last_success": None, "disabled": True, "tags": {"role": "db:1"}, "metadata": {"office": "Barcelona"},
            "retries": 2, "dependent_jobs": None, "parent_job": "", "processors": {"files": {"forward": "true"}},
            "concurrency": "forbid", "executor": "shell", "status": "success", "next": "2026-11-20T02:30:00Z",
            "executor_config": {"command": "pg_dump -f '/srv/a b.sql'", "env": "A=1,B=x=y", "cwd": "/srv",
                                "timeout": "1h30m", "mem_limit_kb": "524288"},
            "starts_at": "0001-01-01T00:00:00Z", "expires_at": "2030-01-01T00:00:00Z", "ephemeral": False,
        }
    )  # fmt: skip
    assert job == {
        "trigger": {"cron": "0 30 2 * * 1-5", "timezone": "Europe/Berlin", "ends_at": "2030-01-01T00:00:00Z"},
        "handler": {"exec": ["pg_dump", "-f", "/srv/a b.sql"], "env": {"A": "1", "B": "x=y"}, "cwd": "/srv",
                    "limits": {"memory": "524288KiB"}},
        "timeout": "1h30m", "overlap": "forbid", "owner": "Platform", "suspended": True,
        "retry": {"delays": ["1s", "1s"], "on": ["failed"]},
        "description": "Nightly",
            "labels": {"office": "Barcelona", "owner_email": "p@example.com"},
        "placement": {"labels": {"role": "db"}},
    }  # fmt: skip
    assert [note.split()[0] for note in notes] == ["retries", "owner_email", "tags", "processors"]


@pytest.mark.parametrize("processors", [5, True, ["files"], "files"])
def test_processors_of_any_kind_are_left_out(processors: object) -> None:
    given = {"name": "a", "schedule": "@every 1h", "executor": "shell", "executor_config": {"command": "x"}}
    _, notes = one(given | {"processors": processors})
    assert [note for note in notes if note.startswith("processors have no counterpart")]


@pytest.mark.parametrize(
    "schedule, trigger",
    [
        ("@every 1h30m10s", {"every": "1h30m10s"}),
        ("@every 1.5h", {"every": "1h30m"}),
        ("@every 200ms", {"every": "1s"}),
        ("@at 2030-01-31T09:00:00Z", {"at": "2030-01-31T09:00:00Z"}),
        ("@manually", {"manual": True}),
        ("@minutely", {"cron": "0 * * * * *", "timezone": "Europe/Madrid"}),
        ("@hourly", {"cron": "@hourly", "timezone": "Europe/Madrid"}),
        ("0 ~ * * * ?", {"cron": "0 H * * * *", "timezone": "Europe/Madrid"}),
        ("0 ~/15 3~6 * * MON", {"cron": "0 H/15 H(3-6) * * MON", "timezone": "Europe/Madrid"}),
        ("CRON_TZ=Asia/Tokyo 0 0 9 * * *", {"cron": "0 0 9 * * *", "timezone": "Asia/Tokyo"}),
        ("0 0 0 */2 * *", {"cron": "0 0 0 */2 * *", "timezone": "Europe/Madrid"}),
        ("0 0 0 1 * 1", {"cron": "0 0 0 1 * 1", "timezone": "Europe/Madrid"}),
    ],
)
def test_schedules_of_dkron(schedule: str, trigger: dict[str, Any]) -> None:
    assert one({"schedule": schedule})[0]["trigger"] == trigger


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"schedule": ""}, "no schedule"),
        ({"schedule": "@at 2020-01-31T09:00:00Z"}, "is past"),
        ({"schedule": "@at tomorrow"}, "not a time"),
        ({"schedule": "@reboot"}, "not known"),
        ({"schedule": "* * *"}, "has 3 fields"),
        ({"schedule": "0 0 0 */2 * 1"}, "two jobs"),
        ({"schedule": "@every soon"}, "not a duration"),
        ({"ephemeral": True}, "ephemeral"),
        ({"concurrency": "maybe"}, "allow and forbid"),
        ({"executor": "kafka"}, "shell and http"),
        ({"executor_config": {}}, "no command"),
        ({"executor_config": {"command": "a 'b"}}, "no closing quotation"),
        ({"executor_config": {"command": "a", "env": "A"}}, "no KEY=VALUE"),
        ({"executor": "http", "executor_config": {"url": "http://x", "headers": "Content-Type"}}, "JSON list"),
        ({"executor": "http", "executor_config": {}}, "no url"),
        ({"retries": "many"}, "not a whole number"),
        ({"tags": "x"}, "not an object"),
        ({"name": "?"}, "a name here may have"),
        ({"name": ""}, "it has no name"),
        ({"schedule": "0 0 25 * * *"}, "allowed are 0-23"),
        ({"timezone": "Europe/Nowhere"}, "no time zone"),
    ],
)
def test_what_dkron_has_and_cannot_be_had_here_is_refused(change: dict[str, Any], reason: str) -> None:
    assert reason in refused(change)


def test_http_of_dkron() -> None:
    config = {"method": "post", "url": "http://example.com/x", "headers": '["Content-Type: application/json"]',
              "body": "{}", "timeout": "30", "expectCode": "200,206", "expectBody": "ok", "debug": "true",
              "tlsNoVerifyPeer": "true", "new": "1"}  # fmt: skip
    job, notes = one({"executor": "http", "executor_config": config})
    assert job["handler"] == {
        "http": {"url": "http://example.com/x", "method": "POST", "headers": {"Content-Type": "application/json"},
                 "body": "{}", "expected_status": [200, 206]}
    }  # fmt: skip
    assert (job["timeout"], job["suspended"]) == ("30s", True)
    text = "\n".join(notes)
    assert "expectBody 'ok' is not checked" in text
    assert "tlsNoVerifyPeer" in text
    assert "executor_config.new has no counterpart" in text


def test_no_field_of_a_dkron_job_is_dropped_silently() -> None:
    _, notes = one({"novelty": {"a": 1}, "empty": "", "none": None})
    said = [f"{name} has no counterpart here; it is left out" for name in ("novelty", "empty", "none")]
    assert [n for n in notes if "no counterpart" in n] == said
    _, notes = one({"tags": {"role": "web"}})
    assert "Dkron runs it on each node with role=web" in notes[1] + notes[0]


def test_what_runs_after_another_job_follows_it() -> None:
    (entry,) = dkron({"name": "a", "parent_job": "The B", **SHELL}, prefix="d-").entries
    assert entry.job["trigger"] == {"after": {"job": "d-the-b"}}
    job, notes = one({"parent_job": "b", "schedule": "@daily"})
    assert job["trigger"] == {"after": {"job": "b"}}
    assert "schedule is left out: Dkron does not look at it where there is a parent_job" in notes


def test_names_of_dkron_stay_apart() -> None:
    reading = dkron(*({"name": name, "schedule": "@daily", **SHELL} for name in ("Añejo", "a-ejo", "x")), prefix="d-")
    assert [entry.name for entry in reading.entries] == ["d-a-ejo", "d-x"]
    assert "would be called 'd-a-ejo'" in reading.refused[0][2]


MANIFESTS = """
apiVersion: v1
kind: List
items:
- apiVersion: batch/v1
  kind: CronJob
  metadata:
    name: nightly
    namespace: billing
    uid: 0000
    creationTimestamp: 2024-01-01T00:00:00Z
    labels: {app.kubernetes.io/name: billing}
    annotations:
      kubectl.kubernetes.io/last-applied-configuration: "{}"
      team: fin
  spec:
    schedule: "*/5 2 * * ?"
    timeZone: Europe/Madrid
    startingDeadlineSeconds: 200
    concurrencyPolicy: Forbid
    suspend: false
    successfulJobsHistoryLimit: 3
    failedJobsHistoryLimit: 0
    jobTemplate:
      spec:
        backoffLimit: 4
        activeDeadlineSeconds: 600
        template:
          spec:
            restartPolicy: OnFailure
            dnsPolicy: ClusterFirst
            terminationGracePeriodSeconds: 30
            securityContext: {}
            serviceAccountName: billing
            nodeSelector: {disk: ssd}
            containers:
            - name: main
              image: registry/billing:1
              imagePullPolicy: IfNotPresent
              command: [/app/report, --to]
              args: ["$(TARGET)", "$$5"]
              workingDir: /srv
              env:
              - {name: TARGET, value: "out"}
              - {name: EMPTY}
              resources:
                limits: {memory: 512Mi, cpu: 500m}
                requests: {cpu: 100m}
  status: {}
- apiVersion: v1
  kind: Service
  metadata: {name: web}
"""


def cronjobs(text: str) -> Reading:
    documents = read_documents(text.encode(), "f")
    return accepted(read_cronjobs(documents, timezone="UTC", prefix=""))


def test_a_whole_cronjob() -> None:
    reading = cronjobs(MANIFESTS)
    assert not reading.refused
    (entry,) = reading.entries
    assert (entry.place, entry.name, entry.namespace) == ("CronJob nightly", "nightly", "billing")
    assert entry.job == {
        "trigger": {"cron": "*/5 2 * * *", "timezone": "Europe/Madrid"},
        "handler": {"exec": ["/app/report", "--to", "out", "$5"], "env": {"TARGET": "out", "EMPTY": ""},
                    "cwd": "/srv", "limits": {"memory": "512MiB"}},
        "overlap": "forbid", "misfire": {"policy": "skip", "grace": "200s"},
        "retention": {"succeeded": 3, "failed": 0}, "timeout": "600s",
        "retry": {"exponential": {"first": "10s", "factor": 2, "max": "6m", "attempts": 4}},
        "labels": {"app.kubernetes.io/name": "billing"}, "placement": {"labels": {"disk": "ssd"}},
    }  # fmt: skip
    told = "\n".join(f"{place}: {note}" for place, note in reading.notes)
    for word in ("limits.cpu: 500m", "requests", "registry/billing:1", "each attempt", "nodeSelector",
                 "annotation team", "serviceAccountName", "Service web: it is no CronJob"):  # fmt: skip
        assert word in told
    for word in ("last-applied", "dnsPolicy", "imagePullPolicy", "uid", "securityContext"):
        assert word not in told


SMALL = """
kind: CronJob
metadata: {name: a}
spec:
  schedule: "%s"
  jobTemplate: {spec: {template: {spec: {containers: [%s]}}}}
"""


SMALL_RUN = SMALL % ("@hourly", "{command: [a]}")


def small(container: str, schedule: str = "@hourly") -> Reading:
    return cronjobs(SMALL % (schedule, container))


def test_a_cronjob_that_says_little_has_the_defaults_of_kubernetes() -> None:
    reading = small("{image: i, command: [run]}")
    assert reading.entries[0].job == {
        "trigger": {"cron": "@hourly", "timezone": "UTC"},
        "handler": {"exec": ["run"]},
        "overlap": "allow",
        "retry": {"exponential": {"first": "10s", "factor": 2, "max": "6m", "attempts": 6}},
    }
    assert "it names no timeZone" in reading.notes[0][1]


@pytest.mark.parametrize(
    "container, lacks",
    [
        ("{command: [x], env: [{name: PW, valueFrom: {secretKeyRef: {name: db}}}]}", "secretKeyRef db"),
        ("{command: [x, $(PW)], env: [{name: PW, valueFrom: {secretKeyRef: {name: db, key: pw}}}]}", "given $(PW)"),
        (
            "{command: [x], env: [{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]}",
            "fieldRef status.podIP",
        ),
        ("{command: [x], envFrom: [{secretRef: {name: db}}]}", "secretRef db"),
        ("{command: [x], envFrom: [{configMapRef: {name: conf}}]}", "configMapRef conf"),
        ("{command: [x], volumeMounts: [{name: d, mountPath: /data}]}", "/data has to be on the nodes"),
    ],
)
def test_what_lacks_something_comes_in_suspended(container: str, lacks: str) -> None:
    reading = small(container)
    assert reading.entries[0].job["suspended"] is True
    assert any(lacks in note and "suspended" in note for _, note in reading.notes)


@pytest.mark.parametrize(
    "text, reason",
    [
        (SMALL % ("@hourly", "{image: i}"), "what its image 'i' starts"),
        (SMALL % ("@hourly", "{command: [a]}, {command: [b]}"), "2 containers"),
        (SMALL % ("0 0 */2 * 1", "{command: [a]}"), "two jobs"),
        (SMALL % ("0 0 0 * * *", "{command: [a]}"), "has 6 fields"),
        (SMALL % ("", "{command: [a]}"), "no schedule"),
        (SMALL % ("61 * * * *", "{command: [a]}"), "allowed are 0-59"),
        (SMALL % ("TZ=Nowhere 0 0 * * *", "{command: [a]}"), "no time zone"),
        (SMALL % ("@hourly", ""), "no containers"),
        ("kind: CronJob\nmetadata: {name: a}\n", "spec is missing"),
        ("kind: CronJob\nspec: {}\n", "no metadata.name"),
        ("kind: Job\nmetadata: {name: a}\n", "no CronJob"),
        ("name: a\n", "no kind"),
        (SMALL_RUN.replace("{spec: {template", "{spec: {completions: 1001, template"), "1 to 1,000 parts"),
        (SMALL_RUN.replace("{spec: {template", "{spec: {completionMode: Indexed, template"), "says no completions"),
        (SMALL_RUN.replace("{spec: {template", "{spec: {completionMode: Odd, template"), "are known"),
        (SMALL_RUN.replace("spec: {containers", "spec: {initContainers: [1], containers"), "initContainers"),
    ],
)  # fmt: skip
def test_what_kubernetes_has_and_cannot_be_had_here_is_refused(text: str, reason: str) -> None:
    reading = cronjobs(text)
    assert not reading.entries
    assert reason in reading.refused[0][2]


def template_of(fields: str, container: str = "{command: [a, $(JOB_COMPLETION_INDEX)]}") -> Reading:
    text = (SMALL % ("@hourly", container)).replace("{spec: {template", f"{{spec: {{{fields}, template")
    return cronjobs(text)


@pytest.mark.parametrize(
    "fields, job",
    [
        ("completions: 3", {"placement": {"shards": 3}}),
        ("parallelism: 2", {"placement": {"shards": 2}}),
        ("completions: 3, parallelism: 2, completionMode: Indexed",
         {"placement": {"shards": 3},
          "handler": {"shell":
                      'export JOB_COMPLETION_INDEX="$RAFTSCHED_SHARD_INDEX"; exec a "${JOB_COMPLETION_INDEX}"'}}),
        ("completions: 1, parallelism: 1", {"handler": {"exec": ["a", "$(JOB_COMPLETION_INDEX)"]}}),
        ("ttlSecondsAfterFinished: 3600", {"retention": {"max_age": "3600s"}}),
        ("suspend: true", {"suspended": True}),
        ("parallelism: 0", {"suspended": True}),
    ],
)  # fmt: skip
def test_parts_and_ages(fields: str, job: dict[str, Any]) -> None:
    reading = template_of(fields)
    assert {key: reading.entries[0].job[key] for key in job} == job
    assert "placement" in job or "placement" not in reading.entries[0].job


def test_what_of_a_job_template_works_differently_is_told() -> None:
    fields = (
        "completions: 5, parallelism: 2, podFailurePolicy: {rules: [{action: FailJob}]}, successPolicy: {rules: []},"
        " backoffLimitPerIndex: 1, maxFailedIndexes: 2, novelty: 1"
    )
    notes = said(template_of(fields))
    for word in ("parallelism 2 is left out", "podFailurePolicy", "successPolicy", "backoffLimitPerIndex",
                 "maxFailedIndexes", "novelty has no counterpart"):  # fmt: skip
        assert word in notes


@pytest.mark.parametrize(
    ("quantity", "size"),
    [
        ("1.5Gi", "1536MiB"), ("512Mi", "512MiB"), ("128974848", "123MiB"), ("129e6", "129MB"), ("129M", "129MB"),
        ("123Mi", "123MiB"), ("128974848000m", "123MiB"), ("1E9", "1GB"), ("0.5G", "500MB"), (".25Ki", "256"),
        ("1.Gi", "1GiB"), ("+1Gi", "1GiB"), ("1Ti", "1TiB"), ("64k", "64kB"), ("1500001m", "1501"),
        ("0.1Gi", "107374183"),
        ("67108864000000000n", "64MiB"), ("67108864000001u", "67108865"), ("0.001Pi", "1125899906843"),
        ("1Ei", "1048576TiB"), ("2P", "2000TB"), ("0", "0"), ("1e-3Ti", None), ("1K", None), ("1 Gi", None),
        ("Gi", None), ("1.5.2Gi", None), ("-1Gi", None), ("1gi", None), ("", None), (".", None), ("1m5", None),
    ],
)  # fmt: skip
def test_quantities_of_memory(quantity: str, size: str | None) -> None:
    assert memory_size(quantity) == size


def test_a_limit_that_is_no_quantity_is_noted() -> None:
    reading = small("{image: i, command: [run], resources: {limits: {memory: 1.5Gi}}}")
    assert reading.entries[0].job["handler"]["limits"] == {"memory": "1536MiB"}
    reading = small("{image: i, command: [run], resources: {limits: {memory: 1gi}}}")
    assert "limits" not in reading.entries[0].job["handler"]
    assert "resources.limits.memory: 1gi is no quantity of Kubernetes; it is left out" in said(reading)


def test_secrets_and_the_namespace_are_known_here() -> None:
    env = ("[{name: PW, valueFrom: {secretKeyRef: {name: DB, key: pw}}},"
           " {name: NS, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}]")  # fmt: skip
    text = (SMALL % ("@hourly", f"{{command: [x, $(NS)], env: {env}}}")).replace(
        "{name: a}", "{name: a, namespace: fin}"
    )
    (entry,) = cronjobs(text).entries
    assert entry.job["handler"] == {"exec": ["x", "fin"], "env": {"PW": {"$secret": "db.pw"}, "NS": "fin"}}
    assert "suspended" not in entry.job
    assert "secrets set fin/db.pw" in said(cronjobs(text))


def test_ends_of_pods() -> None:
    text = SMALL_RUN.replace("spec: {containers", "spec: {activeDeadlineSeconds: 60, terminationGracePeriodSeconds: 5, "
                             "securityContext: {runAsUser: 0}, containers")  # fmt: skip
    (entry,) = cronjobs(text).entries
    assert (entry.job["timeout"], entry.job["grace"]) == ("60s", "5s")
    assert "securityContext (runAsUser)" in said(cronjobs(text))


def test_two_of_one_name_are_one_too_many() -> None:
    assert "would be called 'a'" in reasons(cronjobs(f"{SMALL_RUN}---{SMALL_RUN}"))[0]


def test_the_command_sends_reports_and_ends_with_1_when_something_was_refused() -> None:
    jobs = [{"name": "a", "schedule": "@daily", **SHELL}, {"name": "b", "schedule": "@daily", "ephemeral": True}]
    with serve(taking(201)) as stub:
        result = run("--server", stub.url, "jobs", "import", "--from", "dkron", "-", "-z", "UTC", "--timeout", "2h",
                     "--suspended", input=json.dumps(jobs))  # fmt: skip
        assert result.exit_code == 1
        assert [r.path for r in puts(stub)] == ["/v1/namespaces/default/jobs/a"]
        assert puts(stub)[0].json["timeout"] == "2h"
        assert puts(stub)[0].json["suspended"] is True
        assert (
            result.stdout == "dkron: 1 imported, 1 with a note, 1 refused; times in UTC unless a job says otherwise\n"
        )
        assert "job b: refused: it is deleted after its first success" in result.stderr
        assert "job a: note: it names no timezone" in result.stderr
        stub.requests.clear()
        found = run("--server", stub.url, "jobs", "import", "--from", "kubernetes", "-", "-o", "json", input=MANIFESTS)
        assert found.exit_code == 0
        item = json.loads(found.stdout)["items"][0]
        assert item["imported"][0] == {"place": "CronJob nightly", "name": "nightly", "namespace": "billing",
                                       "result": "created"}  # fmt: skip
        assert [r.path for r in puts(stub)] == ["/v1/namespaces/billing/jobs/nightly"]
        run("--server", stub.url, "jobs", "import", "--from", "kubernetes", "-", "-N", "x", input=MANIFESTS)
        assert puts(stub)[-1].path == "/v1/namespaces/x/jobs/nightly"
    assert run("jobs", "import", "--from", "dkron", "-", "--seconds", input="[]").exit_code == 2
