"""Job files: what is read from YAML and JSON, what export writes, what diff and edit say and do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from raftsched.cli.jobs.export import DEFAULTS, portable
from raftsched.importers import documents
from raftsched.importers.documents import read_documents, read_jobs
from raftsched.importers.yaml_text import yaml_text
from raftsched.surface.jobs_generated import JobShown
from tests.support.stub_server import Reply, Request, problem, serve
from tests.unit.cli.house import JOB, run

_texts = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["on", "yes", "12:30", "1e3", "0o17", "0x1F", "~", "", "<<", "=", "2027-01-31", "1_000", ".5", "1."]
    ),
)
_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**15), 10**15), st.floats(allow_nan=False), _texts).filter(
        lambda v: v not in (float("inf"), float("-inf"))
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_texts, inner, max_size=4)),
    max_leaves=12,
)


@pytest.mark.slow
@given(st.dictionaries(_texts.filter(lambda k: k != "items"), _values, max_size=5))
def test_what_is_written_as_yaml_is_read_back(value: dict[str, Any]) -> None:
    text = "---\n" + yaml_text(value)
    assert [d.value for d in read_documents(text.encode("utf-8", "surrogatepass"), "f")] == [value]
    for d in yaml.safe_load_all(text):  # others read the same, by the rules of 1.1
        assert {str(k) for k in d} == {str(k) for k in value}


@pytest.mark.parametrize("text", [json.dumps({"items": [JOB], "next": "c"}), yaml_text({"items": [JOB], "next": "c"})])
def test_the_beginning_of_a_list_is_not_taken_for_all_of_it(text: str) -> None:
    """What it leaves out would be pruned."""
    with pytest.raises(click.UsageError, match=r"the beginning of a list, its first 1 jobs: .*--all"):
        read_jobs(text.encode(), "f")
    assert len(read_jobs(text.replace('"c"', "null").replace("next: c", "next: null").encode(), "f")) == 1


def test_yaml_has_the_rules_of_1_2() -> None:
    text = """
name: a
trigger: {cron: "*/5 * * * *", at: 2027-01-31T09:00:00Z}
retry: {on: [failed], delays: [5s, 1m]}
owner: yes
params: {when: 12:30, ratio: 1.5, mask: 0o17, 1: one}
---
- {name: b, labels: &l {team: fin}}
- name: c
  labels:
    <<: *l
    app: shop
---
"""
    found = read_documents(text.encode(), "f")
    assert [(d.place, d.value) for d in found] == [
        (
            "line 2",
            {
                "name": "a",
                "trigger": {"cron": "*/5 * * * *", "at": "2027-01-31T09:00:00Z"},
                "retry": {"on": ["failed"], "delays": ["5s", "1m"]},
                "owner": "yes",
                "params": {"when": "12:30", "ratio": 1.5, "mask": 15, "1": "one"},
            },
        ),
        ("line 8, item 1", {"name": "b", "labels": {"team": "fin"}}),
        ("line 8, item 2", {"name": "c", "labels": {"team": "fin", "app": "shop"}}),
    ]


@pytest.mark.parametrize(
    "text, message",
    [
        ("trigger:\n  cron: * * * * *\n", 'line 2: .*cron: "* * * * *"'),
        ("trigger:\n  cron: @daily\n", "line 2"),
        ("a: 1\nb: 2\na: 3\n", "line 3: the key 'a' is given twice"),
        ('{"a": 1, "a": 2}', "'a' is given twice"),
        ("a: !!python/object/apply:os.system [x]\n", "line 1: could not determine"),
        ("&a [*a]\n", "levels"),
        ("a: 99999999999999999999999\n", "too large"),
        ("a: [1\n", "line 2"),
        ("just words\n", "is not a job"),
        ("? [a]\n: b\n", "a key must be plain text"),
        ("\x00", "not YAML"),
        ("[" * 100_000, "nests too deeply"),
        ("- " * 100_000 + "x", "not YAML"),
    ],
)
def test_bad_files_say_where_and_what(text: str, message: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        read_documents(text.encode(), "jobs.yaml")
    import re

    assert re.search(message.replace("* * * * *", r"\* \* \* \* \*"), refused.value.message), refused.value.message
    assert "jobs.yaml" in refused.value.message


def test_a_small_file_cannot_become_a_huge_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "VALUES_MAX", 10_000)
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(click.UsageError, match="10,000 values"):
        read_documents("\n".join(lines).encode(), "f")


def test_an_answer_is_made_a_job_again() -> None:
    answers = [
        {**JOB, "state": "SUSPENDED"},
        {**JOB, "state": "EXPIRED"},
        {**JOB, "trigger": {"in": "30m", "jitter": "1m"}},
        {**JOB, "trigger": {"in": "30m"}, "next_fire_at": None, "state": "NEW"},
    ]
    found = read_jobs(json.dumps(answers).encode(), "f")
    assert found[0].value["suspended"] is True
    assert [d.expired for d in found] == [False, True, False, False]
    assert found[2].value["trigger"] == {"at": "2026-11-20T12:00:00Z"}
    assert found[3].value["trigger"] == {"in": "30m"}
    assert all("state" not in d.value and "id" not in d.value for d in found)


def test_export_leaves_out_what_the_server_fills_in() -> None:
    shown = msgspec.json.decode(b'{"trigger": {"manual": true}, "handler": {"shell": "x"}}', type=JobShown)
    filled = msgspec.json.decode(msgspec.json.encode(shown))
    filled |= {"timeout": "5m", "max_concurrency": 1}
    assert portable({"name": "a", "namespace": "b", **filled}) == {
        "name": "a",
        "namespace": "b",
        "trigger": {"manual": True},
        "handler": {"shell": "x"},
    }
    assert portable({**filled, "retry": {**DEFAULTS["retry"], "delays": ["5s"]}})["retry"] == {"delays": ["5s"]}
    assert portable({**filled, "overlap": "allow", "max_concurrency": None})["overlap"] == "allow"
    assert portable({**filled, "overlap": "allow", "max_concurrency": 1})["max_concurrency"] == 1
    assert portable(filled, full=True)["misfire"] == DEFAULTS["misfire"]
    assert portable(filled, full=True)["trigger"] == filled["trigger"]
    assert "triggers" not in portable(filled, full=True)
    several = {**filled, "trigger": None, "triggers": [{"id": "a", "cron": "0 2 * * *"}], "max_runs": 3}
    for full in (True, False):
        written = portable(several, full=full)
        assert (written["triggers"], written["max_runs"]) == (several["triggers"], 3)
        assert "trigger" not in written
    zoned = portable(several, says=("timezone",))["triggers"]
    assert zoned == [{"id": "a", "cron": "0 2 * * *", "timezone": "UTC"}]


def test_export_writes_what_apply_reads_and_says_what_it_leaves_out() -> None:
    jobs = [
        {**JOB, "state": "SUSPENDED", "timeout": "5m", "labels": {"a": "b"}},
        {**JOB, "name": "old", "state": "EXPIRED"},
        {**JOB, "name": None},
    ]
    wanted = {"name": "tick", "namespace": "default", "suspended": True, "trigger": JOB["trigger"],
              "handler": JOB["handler"], "labels": {"a": "b"}}  # fmt: skip
    with serve(lambda r: (200, {"items": jobs, "next": None})) as stub:
        for fmt in ("yaml", "json"):
            result = run("--server", stub.url, "jobs", "export", "-o", fmt)
            assert result.exit_code == 0
            assert [d.value for d in read_jobs(result.stdout.encode(), "f")] == [wanted]
            assert "left out: 1 expired" in result.stderr
            assert "left out: 1 without a name; --name-unnamed takes them along" in result.stderr
        named = run("--server", stub.url, "jobs", "export", "--name-unnamed")
    assert [d.value["name"] for d in read_jobs(named.stdout.encode(), "f")] == ["tick", JOB["id"]]


def test_export_says_what_counts_anew_elsewhere() -> None:
    several = [{"id": "a", "in": "1d"}, {"id": "b", "every": "1h"}]
    jobs = [{**JOB, "trigger": None, "triggers": several}, {**JOB, "name": "other"}]
    with serve(lambda r: (200, {"items": jobs, "next": None})) as stub:
        result = run("--server", stub.url, "jobs", "export", "-o", "json")
    assert [d.value.get("triggers") for d in read_jobs(result.stdout.encode(), "f")] == [several, None]
    says = 'written as they are: 1 with "in" among several triggers; it counts anew where they are created\n'
    assert result.stderr == says


def test_export_says_what_a_namespace_would_fill_in() -> None:
    """null is the same as left out, so no file can say that a job has none of what its namespace has a default of."""
    http = {**JOB, "name": "asks", "handler": {"http": {"url": "http://h/"}}, "grace": "1s"}
    defaults = {"grace": "3s", "user": "app", "timezone": "Asia/Tokyo", "placement": {"on": "all"}, "priority": 2}

    def answer(request: Request) -> Reply:
        of_namespace = request.path.startswith("/v1/namespaces/")
        return (200, {"defaults": defaults} if of_namespace else {"items": [JOB, http], "next": None})

    with serve(answer) as stub:
        result = run("--server", stub.url, "jobs", "export", "-o", "json")
    hint = "applied, they get the default of their namespace"
    assert result.stderr.splitlines() == [
        f"written as they are: 1 without {field}; {hint}" for field in ("grace", "user")
    ]


def test_a_full_export_means_the_same_under_any_defaults_of_a_namespace() -> None:
    job = {**JOB, "trigger": {"cron": "0 2 * * *"}, "placement": None, "notify": None, "labels": {}}
    with serve(lambda r: (200, {"items": [job], "next": None})) as stub:
        result = run("--server", stub.url, "jobs", "export", "--full", "-o", "json")
        (found,) = (d.value for d in read_jobs(result.stdout.encode(), "f"))
        assert found["trigger"] == {"cron": "0 2 * * *", "timezone": "UTC"}
        assert (found["placement"], found["notify"], found["labels"]) == ({}, [], {})


def test_yaml_is_printed_wherever_json_is() -> None:
    with serve(lambda r: (200, {"items": [JOB], "next": None} if "?" in r.path else JOB)) as stub:
        listed = run("--server", stub.url, "jobs", "list", "-o", "yaml")
        got = run("--server", stub.url, "jobs", "get", "tick", "-o", "yaml")
    assert yaml.safe_load(listed.stdout)["items"][0]["trigger"] == JOB["trigger"]
    assert [d.value for d in read_documents(got.stdout.encode(), "f")] == [JOB]


BEFORE = {"namespace": "default", "name": "a", "trigger": {"every": "5m"}, "handler": {"shell": "x"}}


def _result(name: str) -> str:
    return {"new": "created", "a": "changed", "same": "unchanged"}.get(name, "refused")


def test_diff_shows_what_apply_would_change_and_ends_with_1() -> None:
    asked: list[str] = []

    def answer(request: Request) -> Reply:
        if request.path == "/v1/jobs:compare":  # of all; what stays as it is need not be asked for alone
            return 200, {"items": [{"result": _result(job["name"])} for job in request.json]}
        name = request.path.split("/")[-2]
        asked.append(name)
        if name == "bad":
            return problem(422, "invalid-job", "Two things.", ("/timeout", "is no duration"), ("/queue", "is bad"))
        after = {**BEFORE, "name": name, **({"timeout": "1h"} if name != "same" else {})}
        before = None if name == "new" else {**BEFORE, "name": name}
        return 200, {"result": _result(name), "before": before, "after": after}

    with serve(answer) as stub:

        def diff(text: str, *words: str) -> tuple[int, str, str]:
            result = run("--server", stub.url, "jobs", "diff", "-f", "-", *words, input=text)
            return result.exit_code, result.stdout, result.stderr

        assert diff("name: same\n") == (0, "", "")
        assert asked == []
        code, out, _ = diff("name: a\n---\nname: same\n---\nname: new\n")
        assert code == 1
        lines = out.splitlines()
        assert lines[:2] == ["--- a (there)", "+++ a (file)"]
        assert [line for line in lines if line.startswith("+t")] == ["+timeout: 1h", "+trigger:", "+timeout: 1h"]
        assert "same" not in out
        assert diff("name: a\n---\nname: new\n", "-o", "name")[:2] == (1, "a\nnew\n")
        code, _, err = diff("name: a\n---\nname: bad\n")
        assert (code, err) == (
            2,
            "refused: bad: Two things.; /timeout: is no duration; /queue: is bad (stdin: line 3)\n",
        )
        assert {r.method for r in stub.requests} == {"POST"}


def _editor(monkeypatch: pytest.MonkeyPatch, change: tuple[str, str]) -> list[str]:
    shown: list[str] = []

    def edit(text: str, extension: str) -> str:
        shown.append(text)
        return text.replace(*change)

    monkeypatch.setattr(click, "edit", edit)
    return shown


def test_edit_puts_what_was_written_at_the_revision_that_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = _editor(monkeypatch, ("shell: date", "shell: hostname"))
    with serve(lambda r: (200, {**JOB, "state": "SUSPENDED"})) as stub:
        result = run("--server", stub.url, "jobs", "edit", "tick")
    assert result.output == "changed: tick\n"
    assert "revision" not in shown[0]
    put = stub.requests[-1]
    assert (put.method, put.path, put.headers["if-match"]) == ("PUT", f"/v1/jobs/{JOB['id']}", '"3"')
    assert put.json == {"name": "tick", "namespace": "default", "trigger": JOB["trigger"],
                        "handler": {"shell": "hostname"}}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "sent"),
    [
        (("shell: date", "shell: hostname"), {"handler": {"shell": "hostname"}}),
        (("labels:\n  a: b", "labels:\n  c: d"), {"labels": {"a": None, "c": "d"}}),
        (("name: tick\n", "description: x\n"), {"description": "x"}),
        (("user: null", "user: app"), {"user": "app"}),
    ],
)
def test_edit_leaves_alone_what_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, change: tuple[str, str], sent: Any
) -> None:
    """The namespace has a default of it since the job was written, and null would mean that."""
    shown = {**JOB, "user": None, "grace": None, "labels": {"a": "b"}}
    _editor(monkeypatch, change)

    def answer(request: Request) -> Reply:
        of_namespace = request.path.startswith("/v1/namespaces/") and "/jobs/" not in request.path
        return 200, {"defaults": {"user": "u", "grace": "3s"}} if of_namespace else shown

    with serve(answer) as stub:
        assert run("--server", stub.url, "jobs", "edit", "tick").output == "changed: tick\n"
    patch = stub.requests[-1]
    assert (patch.method, patch.path, patch.json) == ("PATCH", f"/v1/jobs/{JOB['id']}", sent)


def test_edit_without_a_change_sends_nothing_and_a_refusal_keeps_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def answer(request: Request) -> Reply:
        return (200, JOB) if request.method == "GET" else problem(412, "stale-revision", "Changed meanwhile.")

    with serve(answer) as stub:
        _editor(monkeypatch, ("", ""))
        assert run("--server", stub.url, "jobs", "edit", "tick").output == "unchanged: tick\n"
        assert {r.method for r in stub.requests} == {"GET"}
        _editor(monkeypatch, ("date", "hostname"))
        for number in (1, 2):
            result = run("--server", stub.url, "jobs", "edit", "tick")
            assert result.exit_code == 4
            assert result.stderr == f"raftsched: Changed meanwhile.\nwhat you wrote is in tick.edit{number}.yaml\n"
        _editor(monkeypatch, ("shell: date", "shell: [date"))
        assert run("--server", stub.url, "jobs", "edit", "tick").exit_code == 2
    assert "hostname" in (tmp_path / "tick.edit1.yaml").read_text()
    assert "[date" in (tmp_path / "tick.edit3.yaml").read_text()
