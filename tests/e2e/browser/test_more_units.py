"""The modules below workflows, comparisons, saved filters and the palette, one by one; and each page as lines of the
command line, which reads them."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import click
import pytest

from raftsched.cli.main import cli
from tests.support.browser import Tab

RUN = "1m8qwcmc40000@1796097856136"
CONTROL = re.compile(r"[\0-\x09\x0b-\x1f\x7f-\x9f]")
# An address of each page -> what the line of the command line has to have.
LINES = {
    "/ui/": "cluster status",
    "/ui/jobs": "jobs list",
    "/ui/jobs?q=billing/rep&state=SUSPENDED&label=a=b": (
        "jobs list --state SUSPENDED --label a=b -N billing --name-contains rep"
    ),
    "/ui/jobs?health=failing&sort=next": "jobs list --failing",
    "/ui/jobs?health=late&owner=ana": "jobs list --owner ana --late",
    "/ui/runs?late=true": "runs list --late",
    "/ui/jobs/new": "jobs create --help",
    "/ui/jobs/1m8qwcmc40000": "runs list --job 1m8qwcmc40000",
    "/ui/jobs/1m8qwcmc40000?state=FAILED": "runs list --job 1m8qwcmc40000 --state FAILED",
    "/ui/jobs/1m8qwcmc40000?tab=schedule": "jobs next 1m8qwcmc40000",
    "/ui/jobs/1m8qwcmc40000?tab=graph": "jobs graph 1m8qwcmc40000",
    "/ui/jobs/1m8qwcmc40000?tab=revisions": "jobs revisions 1m8qwcmc40000",
    "/ui/jobs/1m8qwcmc40000/edit": "jobs edit 1m8qwcmc40000",
    "/ui/runs": "runs list",
    "/ui/runs?state=FAILED,TIMED_OUT&job=x&from=2026-12-01T00:00:00.000Z": (
        "runs list --state FAILED,TIMED_OUT --job x --from 2026-12-01T00:00:00.000Z"
    ),
    f"/ui/runs/{RUN}": f"runs explain {RUN}",
    f"/ui/runs/{RUN}?attempt=2": f"runs output {RUN} --attempt 2",
    f"/ui/compare?a={RUN}&b={RUN}7": f"runs get {RUN}7",
    "/ui/workflows?state=failed": "workflows list --state failed",
    f"/ui/workflows/{RUN}": f"workflows show {RUN}",
    "/ui/dead-letters?name_prefix=it's": "dlq list --name-prefix",
    "/ui/queues": "queues list",
    "/ui/queues/gpu": "queues get gpu",
    "/ui/calendars": "calendars list",
    "/ui/calendars/holidays": "calendars get holidays",
    "/ui/namespaces": "namespaces list",
    "/ui/namespaces/billing": "namespaces get billing",
    "/ui/webhooks": "webhooks list",
    "/ui/webhooks/ops": "webhooks deliveries ops",
    "/ui/operations": "operations list",
    "/ui/audit?actor=ana": "audit list --actor ana",
    "/ui/audit?tab=chain": "audit verify",
    "/ui/audit?tab=refusals": "audit refusals",
    "/ui/tokens": "tokens list",
    "/ui/cluster": "doctor",
    "/ui/cluster/settings": "cluster settings list",
    "/ui/preview": "preview --help",
    "/ui/crontab": "jobs import --dry-run -",
    "/ui/sign-in": "login",
}


@pytest.fixture
def tab(units: Tab) -> Tab:
    return units


def reads(line: str) -> None:
    """Lets the command line read a line, and runs nothing."""
    program, *words = shlex.split(line)
    assert program == "raftsched"
    command: click.Command = cli
    context: click.Context | None = None
    name: str | None = program
    while True:
        try:
            context = command.make_context(name, words, parent=context)
        except click.exceptions.Exit:
            return  # of --help
        if not isinstance(command, click.Group):
            return
        words = [*context._protected_args, *context.args]
        name, found, words = command.resolve_command(context, words)
        assert found is not None, line
        command = found


@pytest.mark.parametrize("address", LINES)
def test_a_page_is_shown_as_lines_that_the_command_line_reads(tab: Tab, address: str) -> None:
    path, _, search = address.partition("?")
    made = tab.call("components/copy-lines.js", "linesOf", path, f"?{search}", "http://127.0.0.1:7401", False)
    assert any(LINES[address] in line for line in made["cli"]), made["cli"]
    for line in made["cli"]:
        reads(line)
    for line in made["curl"]:
        words = shlex.split(line)
        assert words[0] == "curl"
        assert words[-1].startswith("http://127.0.0.1:7401/v1/")


def test_every_page_has_its_lines(tab: Tab) -> None:
    paths = tab.page.evaluate(
        '() => fetch("/ui/assets/x/core/routes.js").then((answer) => answer.text())'
        '.then((text) => [...text.matchAll(/path: "([^"]*)"/g)].map((found) => found[1]))'
    )
    assert len(paths) > 20
    known = {address.partition("?")[0].rstrip("/") for address in LINES}

    def is_known(path: str) -> bool:
        parts = path.split("/")
        return any(
            len(one.split("/")) == len(parts)
            and all(a == b or a.startswith(":") for a, b in zip(parts, one.split("/"), strict=True))
            for one in known
        )

    assert not [path for path in paths if not is_known(path)]


def test_lines_name_another_server_and_leave_the_token_a_variable(tab: Tab) -> None:
    made = tab.call("components/copy-lines.js", "linesOf", "/ui/jobs/a%20b%2Fc'd", "", "https://n1.example:8443", True)
    assert made["cli"][0] == "raftsched --server https://n1.example:8443 jobs get 'a b/c'\\''d'"
    curl = shlex.split(made["curl"][0])
    assert curl[:3] == ["curl", "-H", "Authorization: Bearer $RAFTSCHED_TOKEN"]
    assert curl[3].startswith("https://n1.example:8443/v1/jobs/a%20b%2Fc")


MARK = "what-was-typed"
HOSTILE = (
    "$(touch pwned)",
    "`touch pwned`",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "a\ntouch pwned\n",
    "a\x15touch pwned\r#",
    "a\x03touch pwned\r'!!\\",
    "\x1b[201~\rtouch pwned\r\tx\x7f\x9b",
    "\u202e)dewnwp hcuot($ \u2066",
    "<img src=x onerror=alert(1)>",
    "!!",
    "é" * 128,
    "\\",
    "*",
    "~",
    "-n",
    "",
)


def pasted(line: str, folder: Path) -> bytes:
    """Types a line into an interactive bash that knows nothing of pasting. Returns what the line's program printed."""
    command = ["bash", "--norc", "--noprofile", "-i"]
    environ = {"PATH": os.environ["PATH"], "TERM": "dumb", "LANG": "C.UTF-8", "HISTFILE": "/dev/null"}
    master, slave = pty.openpty()
    shell = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=environ, start_new_session=True
    )
    os.close(slave)
    timer = threading.Timer(20, shell.kill)  # of a quote that is still open
    timer.start()
    try:
        os.write(master, f"{line} >said; exit\r".replace("\n", "\r").encode())
        while shell.poll() is None:
            try:
                if not os.read(master, 65536):
                    break
            except OSError:
                break
        shell.wait()
    finally:
        timer.cancel()
        os.close(master)
    return (folder / "said").read_bytes()


@pytest.mark.parametrize("text", HOSTILE)
def test_a_word_that_is_pasted_into_a_shell_stays_one_word(tab: Tab, tmp_path: Path, text: str) -> None:
    word = tab.call("pages/editor/model.js", "quoted", text)
    assert pasted(f"printf '<%s>' {word}", tmp_path) == f"<{text}>".encode()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["said"]


@pytest.mark.parametrize("text", HOSTILE)
def test_lines_with_what_others_typed_run_nothing_of_it(tab: Tab, tmp_path: Path, text: str) -> None:
    sent = urlencode({"job": text, "namespace": text, "state": text, "a": text, "q": text, "owner": text})
    name = quote(text, safe="")
    for path in ("/ui/runs", "/ui/jobs", "/ui/compare", "/ui/workflows", f"/ui/jobs/{name}", f"/ui/webhooks/{name}"):
        made = tab.call("components/copy-lines.js", "linesOf", path, f"?{sent}", "http://n1.example", True)
        for line in made["cli"] + made["curl"]:
            assert not CONTROL.search(line), line
    job = {"name": "job", "namespace": "default"}
    content = {"trigger": {"manual": True}, "handler": {"shell": text}, "owner": text, "labels": {"key": text}}
    line = tab.call("pages/job/lines.js", "commandLine", job, content)
    words = pasted(f"printf '<%s>' {line}", tmp_path).decode()
    said = f"raftsched jobs create job --manual --shell {MARK} --label key={MARK} --owner {MARK}"
    assert words == "".join(f"<{one}>" for one in said.split()).replace(MARK, text)


@pytest.mark.parametrize("search", ["?constructor=x", "?toString=true", "?__proto__=x", "?tab=constructor"])
def test_parameters_that_no_page_has_are_no_options(tab: Tab, search: str) -> None:
    for path in ("/ui/runs", "/ui/audit", "/ui/jobs/a", "/ui/dead-letters"):
        made = tab.call("components/copy-lines.js", "linesOf", path, search, "http://127.0.0.1:7401", False)
        plain = tab.call("components/copy-lines.js", "linesOf", path, "", "http://127.0.0.1:7401", False)
        assert made == plain


def test_an_address_that_cannot_be_read_has_lines(tab: Tab) -> None:
    made = tab.call("components/copy-lines.js", "linesOf", "/ui/jobs/%zz", "", "http://127.0.0.1:7401", False)
    assert made == {"cli": ["raftsched --help"], "curl": []}


# ---------------------------------------------------------------- saved filters


@pytest.mark.parametrize(
    ("kept", "names"),
    [
        (None, []),
        ("no json", []),
        ('"text"', []),
        ('{"/ui/runs": {"0": 1}}', []),
        ('{"/ui/jobs": [{"name": "a", "query": ""}]}', []),
        ('{"/ui/runs": [{"name": "a", "query": "x=1"}, {"name": 7, "query": ""}, null, {"query": "x"}]}', ["a"]),
        (json.dumps({"/ui/runs": [{"name": "n" * 41, "query": ""}, {"name": "b", "query": "q" * 1001}]}), []),
        (json.dumps({"/ui/runs": [{"name": str(n), "query": ""} for n in range(30)]}), [str(n) for n in range(20)]),
    ],
)
def test_what_a_browser_kept_is_taken_as_far_as_it_is_a_filter(tab: Tab, kept: str | None, names: list[str]) -> None:
    assert [one["name"] for one in tab.call("components/saved.js", "savedOf", kept, "/ui/runs")] == names


# ---------------------------------------------------------------- comparisons


def test_outputs_are_compared_line_by_line_with_a_few_around_them(tab: Tab) -> None:
    before = "\n".join([*map(str, range(20)), "old", *map(str, range(20, 40))])
    after = "\n".join([*map(str, range(20)), "new", "more", *map(str, range(20, 40))])
    found = tab.call("pages/compare.js", "lineDiff", before, after)
    assert not found["left"]
    kinds = [(one["kind"], one["text"]) for one in found["shown"]]
    assert kinds[0] == ("skipped", "17 lines are the same")
    assert [one for one in kinds if one[0] in ("added", "removed")] == [
        ("removed", "old"),
        ("added", "new"),
        ("added", "more"),
    ]
    assert kinds[-1] == ("skipped", "17 lines are the same")


def test_a_comparison_of_long_outputs_is_bounded(tab: Tab) -> None:
    found = tab.call("pages/compare.js", "lineDiff", *("\n".join(f"{a}{n}" for n in range(5000)) for a in "ab"))
    assert found["left"]
    assert len(found["shown"]) == 800


# ---------------------------------------------------------------- workflows


def run(name: str, state: str = "SUCCEEDED", cause: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": name, "job": f"data/{name}", "job_id": name, "state": state, "cause": cause, "joined": None, **more}


def test_the_failed_runs_to_run_again_are_those_that_follow_none_that_failed(tab: Tab) -> None:
    items = [
        run("a"),
        run("b", "FAILED", "a"),
        run("c", "KILLED", "b"),
        run("d", "SUCCEEDED", "b"),
        run("e", "TIMED_OUT", "d"),
        run("f", "TIMED_OUT", "a"),
        run("g", "FAILED", "a", joined=["a", "f"]),
    ]
    assert [one["id"] for one in tab.call("pages/workflow.js", "firstFailed", items)] == ["b", "f"]


def test_the_graph_of_a_workflow_has_what_follows_and_what_ran(tab: Tab) -> None:
    graph = {
        "jobs": [{"name": f"data/{one}", "id": one, "state": "SCHEDULED"} for one in ("before", "a", "b", "later")],
        "edges": [
            {"from": f"data/{one}", "to": f"data/{other}", "kind": "after", "on": "succeeded"}
            for one, other in (("before", "a"), ("a", "b"), ("b", "later"))
        ],
    }
    items = [run("a"), run("b", cause="a"), run("gone", cause="a")]
    found = tab.call("pages/workflow-parts.js", "graphOfRuns", graph, items)
    assert {one["name"] for one in found["jobs"]} == {"data/a", "data/b", "data/gone", "data/later"}
    assert {(one["from"], one["to"]) for one in found["edges"]} == {
        ("data/a", "data/b"),
        ("data/b", "data/later"),
        ("data/a", "data/gone"),
    }


def wide_graph(count: int) -> dict[str, Any]:
    names = [f"job-{one}" for one in range(count)]
    return {
        "jobs": [{"name": one} for one in ["first", *names]],
        "edges": [{"from": "first", "to": one} for one in names],
    }


@pytest.mark.parametrize("room", [300, 340, 700, 1200])
@pytest.mark.parametrize("count", [1, 3, 9])
@pytest.mark.parametrize("chain", [False, True])
def test_a_graph_is_as_wide_as_its_place(tab: Tab, room: int, count: int, chain: bool) -> None:
    graph = wide_graph(count)
    if chain:
        graph["edges"] = [{"from": a["name"], "to": b["name"]} for a, b in pairwise(graph["jobs"])]
    found = tab.page.evaluate(
        "async ([graph, room]) => { const { layout } = await import('/ui/assets/x/charts/graph.js');"
        " const drawn = layout(graph, room, 44); return { ...drawn, at: [...drawn.at.values()] }; }",
        [graph, room],
    )
    assert found["width"] <= room + 1
    boxes = sorted((place["y"], place["x"], place["x"] + place["wide"]) for place in found["at"])
    assert len(boxes) == count + 1
    assert all(a[2] < b[1] for a, b in pairwise(boxes) if a[0] == b[0])  # none lies on another
    assert min(place["x"] for place in found["at"]) >= 0
    assert max(place["x"] + place["wide"] for place in found["at"]) <= room + 1
    assert max(place["y"] for place in found["at"]) + found["high"] <= found["height"] + 1


@pytest.mark.parametrize(
    ("names", "common"),
    [([], ""), (["a/b"], "a/"), (["a/b", "a/c"], "a/"), (["a/b", "ab/c"], ""), (["b"], "")],
)
def test_what_all_names_begin_with_is_left_out(tab: Tab, names: list[str], common: str) -> None:
    assert tab.call("charts/graph.js", "commonOf", names) == common


# ---------------------------------------------------------------- a year, the palette


def test_a_day_is_as_bad_as_the_worst_of_its_runs(tab: Tab) -> None:
    runs = [
        {"scheduled_at": at, "state": state}
        for at, state in (
            ("2026-11-30T23:30:00Z", "SUCCEEDED"),  # the viewer is in Berlin: 1 December
            ("2026-11-30T12:00:00Z", "SUCCEEDED"),
            ("2026-11-30T13:00:00Z", "FAILED"),
            ("2026-11-29T13:00:00Z", "SKIPPED"),
        )
    ]
    found = tab.page.evaluate(
        "async (runs) => { const { daysOf, worstOf } = await import('/ui/assets/x/pages/job/year.js');"
        " return [...daysOf(runs)].map(([day, counts]) => [day, worstOf(counts), counts]); }",
        runs,
    )
    assert found == [
        ["2026-12-01", "SUCCEEDED", {"SUCCEEDED": 1}],
        ["2026-11-30", "FAILED", {"SUCCEEDED": 1, "FAILED": 1}],
        ["2026-11-29", "SKIPPED", {"SKIPPED": 1}],
    ]


@pytest.mark.parametrize(
    ("typed", "verb", "text"),
    [
        ("run invoices", "run", "invoices"),
        ("run", None, "run"),
        ("constructor invoices", None, "constructor invoices"),
        (" invoices x ", None, "invoices x"),
        ("pause a/b", "pause", "a/b"),
    ],
)
def test_a_verb_in_front_asks_for_an_action(tab: Tab, typed: str, verb: str | None, text: str) -> None:
    assert tab.call("components/palette-words.js", "wordsOfPalette", typed) == {"verb": verb, "text": text}


def test_all_words_of_what_is_typed_have_to_fit(tab: Tab) -> None:
    fits = [
        tab.call("components/palette-words.js", "fitsPalette", "Go to dead letters", one) for one in ("LET go", "go x")
    ]
    assert fits == [True, False]
