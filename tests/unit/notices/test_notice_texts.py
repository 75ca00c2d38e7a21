"""Notifications in words."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.core.ids import instance_key
from raftsched.core.model import InstanceState
from raftsched.core.subjects.notices import Event, Notice
from raftsched.notices.texts import ERROR_LINES_MAX, ERROR_MAX, error_of, headline, link_of, sentences, slack_text

AT = 1_763_600_400_000  # 2025-11-20 01:00:00 UTC
KEY = instance_key(AT, 7 << 20)


DUE = "2025-11-20 01:00:00 UTC"
RUN = f"The run of billing/report for {DUE}"


def notice(event: Event | None = Event.FAILED, **fields: Any) -> Notice:
    usual: dict[str, Any] = {"id": 1, "at_ms": AT, "instance": KEY, "namespace": "billing", "job_name": "report"}
    usual |= {"state": InstanceState.FAILED, "attempt": 3, "node": "n2"}
    return Notice(**{**usual, "event": event, **fields})


@pytest.mark.parametrize(
    "given, title, begins",
    [
        (notice(exit_code=3), "billing/report failed", RUN + " failed with exit code 3. It is"),
        (notice(Event.SUCCEEDED, exit_code=0), "billing/report succeeded", RUN + " succeeded. It is"),
        (notice(Event.DEAD_LETTER), "billing/report failed for good", RUN + " failed for good"),
        (
            notice(Event.SKIPPED, reason="overlap", skipped=2, attempt=0),
            "billing/report was skipped",
            RUN + " was skipped: another run of the job was active.",
        ),
        (
            notice(Event.LATE, since_ms=AT, limit_ms=30_000, attempt=0),
            "billing/report is late",
            f"{RUN} is late: it was due at {DUE}, may start 30s after that, and has not started yet.",
        ),
        (
            notice(Event.LATE, since_ms=AT, limit_ms=30_000, started_at_ms=AT + 60_000),
            "billing/report is late",
            f"{RUN} is late: it was due at {DUE}, may start 30s after that, and started at 2025-11-20 01:01",
        ),
        (
            notice(Event.RUNNING_LONG, since_ms=AT, limit_ms=600_000),
            "billing/report runs long",
            RUN + " takes longer than 10m: it runs since",
        ),
        (
            notice(Event.NOT_RUN_SINCE, instance=b"", job_id=7 << 20, since_ms=AT, limit_ms=90_000_000),
            "billing/report has not succeeded",
            "The job billing/report has not succeeded for 1d1h, since 2025-11-20 01:00:00 UTC.",
        ),
        (notice(None, instance=b""), "Test of ops", "This is a test of the webhook ops"),
        (
            notice(Event.LEADER_CHANGED, instance=b"", node="n3", reason="n1"),
            "Node n3 leads now",
            "The node n3 leads the cluster now, after n1.",
        ),
        (
            notice(Event.NODE_LOST, instance=b"", repeats=3),
            "Node n2 was lost",
            "The node n2 was not heard of any more.",
        ),
        (notice(Event.DISK_SHORT, instance=b""), "Node n2 is short of disk", "The disk of the node n2 is nearly full."),
    ],
)
def test_what_happened_is_said(given: Notice, title: str, begins: str) -> None:
    assert headline(given, "ops").startswith(title)
    assert sentences(given, "ops").startswith(begins)
    assert "\n" not in headline(given, "ops")


def test_each_event_has_its_words() -> None:
    for event in Event:
        about = {} if event < Event.LEADER_CHANGED else {"instance": b""}
        given = notice(event, since_ms=AT, limit_ms=1_000, **about)
        assert sentences(given, "ops").endswith(".")
        assert "None" not in sentences(given, "ops").replace("after None", "")


def test_what_was_not_told_before_is_counted() -> None:
    for repeats, words in ((1, "1 more time"), (3, "3 more times")):
        said = sentences(notice(Event.NODE_BACK, instance=b"", repeats=repeats), "ops")
        assert said.endswith(f"That came about {words} shortly before.")


def test_of_an_error_the_first_lines_are_shown() -> None:
    assert error_of(notice()) == ""
    assert error_of(notice(error="\n one \n\n two\n")) == "one\n two"
    trace = "Traceback (most recent call last):\n" + '  File "a.py", line 1, in f\n    g()\n' * 9 + "ValueError: no\n"
    what, *frames = error_of(notice(error=trace)).split("\n")
    assert (what, frames) == ("ValueError: no", ['  File "a.py", line 1, in f', "    g()"] * 2)
    said = error_of(notice(error="exit code 1\none\ntwo\ncp: no such file"))
    assert said == "exit code 1: cp: no such file\none\ntwo"
    many = error_of(notice(error="\n".join(f"line {n}" for n in range(20))))
    assert many.count("\n") == ERROR_LINES_MAX - 1
    assert many.endswith(" ...")
    assert len(error_of(notice(error="x" * 10_000))) <= ERROR_MAX


def test_links_lead_to_the_page() -> None:
    assert link_of(notice(), "") is None
    for page in ("https://p", "https://p/", "https://p/ui", "https://p/ui/"):
        assert str(link_of(notice(), page)).startswith("https://p/ui/runs/")
    of_job = notice(Event.NOT_RUN_SINCE, instance=b"", job_id=7 << 20)
    assert str(link_of(of_job, "https://p")).startswith("https://p/ui/jobs/")
    assert link_of(notice(Event.NODE_LOST, instance=b""), "https://p") == "https://p/ui/cluster"
    assert link_of(notice(None, instance=b"", node=""), "https://p") is None


def test_what_others_wrote_means_nothing_to_slack() -> None:
    text = slack_text(notice(error="``` <!channel> <https://evil|x> @here &"), "ops", "")
    assert text.splitlines()[1:] == ["```", "''' &lt;!channel&gt; &lt;https://evil|x&gt; @here &amp;", "```"]
    named = slack_text(notice(job_name="<!here>"), "ops", "")
    assert "<" not in named
