"""Every other rule, with a story that it accepts and stories that it does not."""

from __future__ import annotations

from harness import beats
from harness.checkers import answers, creates, equal, judge, overlap

from tests.unit.harness.evidence import Story, at, said


def test_an_acknowledged_job_that_ran_is_not_lost() -> None:
    story = Story()
    story.create("a", 1.0)
    story.run("a", 1.0, 1.5)
    story.create("b", 1.0, "unknown")
    story.create("c", 1.0, "unknown")
    story.run("c", 1.0, 1.5)
    finding = creates.lost(story.evidence)
    assert finding.held
    assert finding.looked_at == 1
    assert finding.counts["unknown creates that ran"] == 1


def test_an_acknowledged_job_that_never_ran_is_lost() -> None:
    story = Story()
    story.create("a", 1.0)
    assert "never ran" in said(creates.lost(story.evidence))
    story.run("a", 1.0, 1.5, ended=False)
    assert "never ran" in said(creates.lost(story.evidence))


def test_an_acknowledged_job_that_is_not_listed_is_lost() -> None:
    story = Story()
    story.create("a", 1.0, listed=False)
    story.run("a", 1.0, 1.5)
    assert "not in the list" in said(creates.lost(story.evidence))


def test_what_was_refused_must_not_run() -> None:
    story = Story()
    story.create("a", 1.0, "fail")
    assert creates.refused(story.evidence).held
    story.run("a", 1.0, 1.5)
    assert not creates.refused(story.evidence).held


def test_what_nobody_answered_for_is_there_with_its_run_or_not_at_all() -> None:
    story = Story()
    story.create("a", 1.0, "unknown")
    assert creates.lost(story.evidence).held
    story.row("jobs", id="1", name="a")
    assert "is in the list, and never ran" in said(creates.lost(story.evidence))
    story.run("a", 1.0, 1.5)
    assert creates.lost(story.evidence).held


def test_what_was_refused_must_not_be_listed() -> None:
    story = Story()
    story.create("a", 1.0, "fail")
    story.row("jobs", id="1", name="a")
    assert "refused and is in the list" in said(creates.refused(story.evidence))


def test_a_create_that_made_two_is_found() -> None:
    story = Story()
    story.create("a", 1.0)
    story.run("a", 1.0, 1.1, token=1)
    story.run("a", 2.0, 2.1, token=2)
    assert creates.single(story.evidence).held
    story.run("a", 3.0, 3.1, token=3, instance="another@1")
    assert "a ran as a@1, another@1" in said(creates.single(story.evidence))


def test_two_lives_of_an_instance_that_overlap_are_found() -> None:
    story = Story()
    story.run("a", 1.0, 2.0, token=1)
    story.run("a", 2.1, 3.0, token=2)
    story.run("b", 1.5, 2.5)
    assert overlap.alone(story.evidence).held
    story.run("a", 2.9, 3.5, token=3)
    assert "0.10 s before" in said(overlap.alone(story.evidence))


def test_a_life_that_spans_several_is_held_against_all() -> None:
    story = Story()
    story.run("a", 1.0, 9.0, token=1)
    story.run("a", 2.0, 3.0, token=2)
    story.run("a", 4.0, 5.0, token=3)
    assert len(overlap.alone(story.evidence).wrong) == 2


def test_lines_between_each_other_are_an_overlap_whatever_the_clock_says() -> None:
    lines = [f"start i 1 1 n1 5 {at(1)}", f"start i 2 2 n2 6 {at(3)}", f"beat i 1 1 n1 5 {at(2)}"]
    story = Story()
    story.lives = beats.parse("a", lines)
    assert not overlap.alone(story.evidence).held


def test_runs_of_a_job_that_forbids_it_must_not_overlap() -> None:
    story = Story()
    for kind in ("allow", "forbid"):
        story.note("recurs", job=kind, kind=kind, targets_ms=[])
        story.run(kind, 1.0, 2.0, instance=f"{kind}@1")
        story.run(kind, 1.5, 2.5, instance=f"{kind}@2")
    finding = overlap.forbidden(story.evidence)
    assert len(finding.wrong) == 1
    assert finding.wrong[0].startswith("forbid")


def test_tokens_have_to_grow() -> None:
    story = Story()
    story.run("a", 1.0, 1.1, token=4)
    story.run("a", 2.0, 2.1, token=7)
    assert overlap.ordered(story.evidence).held
    story.run("a", 3.0, 3.1, token=7)
    assert not overlap.ordered(story.evidence).held


def test_a_repetition_needs_a_reason() -> None:
    story = Story()
    story.run("a", 1.0, 1.1, token=1, ended=False)
    story.run("a", 2.0, 2.1, token=2)
    attempts = [{"token": 1, "outcome": "lost"}, {"token": 2, "outcome": "succeeded"}]
    story.row("instances", id="a@1", attempts=attempts)
    finding = overlap.duplicates(story.evidence)
    assert finding.held
    assert finding.counts["repeated after: lost"] == 1
    attempts[0]["outcome"] = "succeeded"
    assert "run again" in said(overlap.duplicates(story.evidence))


def test_a_run_that_nobody_gave_out_is_found() -> None:
    story = Story()
    story.run("a", 1.0, 1.1, token=1, ended=False)
    attempts = [{"number": 1, "token": 1, "outcome": "lost"}, {"number": 2, "token": 3, "outcome": "succeeded"}]
    story.row("instances", id="a@1", attempts=attempts)
    assert overlap.duplicates(story.evidence).held
    story.run("a", 2.0, 2.1, token=2)
    assert "(token 2, n1) ran, and nobody gave it out" in said(overlap.duplicates(story.evidence))
    del attempts[0]  # an old one is not listed any more
    assert overlap.duplicates(story.evidence).held


def test_what_succeeded_wrote_its_end_under_that_token() -> None:
    story = Story()
    story.run("a", 1.0, 1.1, token=1, ended=False)
    story.run("a", 2.0, 2.1, token=2)
    attempts = [{"token": 1, "outcome": "lost"}, {"token": 2, "outcome": "succeeded"}]
    story.row("instances", id="a@1", attempts=attempts)
    story.row("instances", id="silent@1", attempts=[{"token": 9, "outcome": "succeeded"}])
    finding = overlap.succeeded(story.evidence)
    assert finding.held
    assert finding.looked_at == 1
    attempts[0]["outcome"] = "succeeded"
    assert "token 1 never wrote its end" in said(overlap.succeeded(story.evidence))


def test_nobody_lives_on_who_is_said_to_have_succeeded() -> None:
    story = Story()
    story.run("a", 1.0, 3.0, token=2)
    story.run("b", 1.0, 9.0, token=3)  # of it nothing was said
    story.note("succeeded", 3.5, attempts=[["a@1", 2], ["silent@1", 9]])
    finding = overlap.over(story.evidence)
    assert finding.held
    assert finding.looked_at == 1
    story.note("succeeded", 2.0, attempts=[["a@1", 1]])  # of another attempt
    assert overlap.over(story.evidence).held
    story = Story()
    story.run("a", 1.0, 3.0, token=2)
    story.note("succeeded", 2.5, attempts=[["a@1", 2]])
    story.note("succeeded", 3.5, attempts=[["a@1", 2]])
    assert "lived 0.50 s after it was said" in said(overlap.over(story.evidence))


def test_nothing_lives_on_when_all_is_over() -> None:
    story = Story()
    story.run("a", 1.0, 5.0)
    story.note("quiet", 6.0)
    assert overlap.readable(story.evidence).held
    story.note("quiet", 4.0)
    assert "1.0 s after" in said(overlap.readable(story.evidence))


def test_nothing_starts_when_all_is_over() -> None:
    story = Story()
    story.note("quiet", 4.0)
    story.run("a", 5.0, 5.5)
    assert "1.5 s after" in said(overlap.readable(story.evidence))


def test_lines_that_no_run_would_write_are_found() -> None:
    def faults(*lines: str) -> list[str]:
        return beats.parse("a", lines).faults

    start, beat, end = (f"{word} i 1 1 n1 5 {at(n)}" for n, word in enumerate(("start", "beat", "end")))
    assert faults(start, beat, end, "") == []
    assert faults(beat)
    assert faults(start, start)
    assert faults(start, end, beat)
    assert faults(start, "beat i 1 1 n1")
    assert faults("stop i 1 1 n1 5 7")


def failing(name: str, hopeless: bool) -> Story:
    story = Story()
    story.op("create-failing", {"job": name, "hopeless": hopeless, "failures": 2}, 0, 1, "ok", {"id": name})
    return story


def test_what_is_hopeless_becomes_a_dead_letter() -> None:
    story = failing("h", True)
    assert "no dead letter" in said(answers.retried(story.evidence))
    story.note("dead-letters", jobs=["h"])
    assert "after 0 attempts that failed" in said(answers.retried(story.evidence))
    for number in range(4):
        story.run("h", number, number + 0.1, token=number + 1, failed=True)
    assert answers.retried(story.evidence).held


def test_what_is_tried_again_often_enough_does_not() -> None:
    story = failing("f", False)
    assert answers.retried(story.evidence).held
    story.note("dead-letters", jobs=["f"])
    assert "became a dead letter" in said(answers.retried(story.evidence))


def test_what_was_deleted_in_time_must_not_start() -> None:
    story = Story()
    story.op("delete", {"job": "a", "at_ms": 10_000}, 5.0, 5.1)
    story.op("delete", {"job": "b", "at_ms": 10_000}, 9.0, 9.5)  # it may have been on its way
    story.run("b", 10.0, 10.1)
    assert answers.cancelled(story.evidence).held
    story.run("a", 10.0, 10.1)
    assert not answers.cancelled(story.evidence).held


def test_what_was_deleted_must_not_be_listed() -> None:
    story = Story()
    story.op("delete", {"job": "a", "at_ms": 10_000}, 5.0, 5.1, "unknown")
    story.row("jobs", id="1", name="a")
    assert answers.cancelled(story.evidence).held
    story.op("delete", {"job": "a", "at_ms": 10_000}, 5.0, 5.1)
    assert "a was deleted and is in the list" in said(answers.cancelled(story.evidence))


def test_what_was_killed_ends_and_does_not_start_again() -> None:
    story = Story()
    story.op("kill", {"job": "a", "instance": "a@1"}, 5.0, 5.1)
    story.run("a", 4.0, 12.0, ended=False)
    assert answers.cancelled(story.evidence).held
    story.run("a", 16.0, 17.0, token=2)
    assert "started 10.9 s after" in said(answers.cancelled(story.evidence))
    story.run("a", 4.0, 60.0)
    assert "lived 54.9 s after" in said(answers.cancelled(story.evidence))


def test_a_bulk_action_reaches_all() -> None:
    story = Story()
    request = {"action": "pause", "wanted": "SUSPENDED", "jobs": 3}
    story.op("bulk", request, 0, 1, "ok", {"states": {"SUSPENDED": 3}})
    assert answers.in_bulk(story.evidence).held
    story.op("bulk", request, 2, 3, "ok", {"states": {"SUSPENDED": 2, "SCHEDULED": 1}})
    assert not answers.in_bulk(story.evidence).held


def test_errors_that_are_not_documented_are_found() -> None:
    story = Story()
    story.op("read", {}, 0, 1, "fail", {"status": 503, "code": "no-leader"})
    story.op("read", {}, 0, 1, "unknown", {"status": 504, "code": "unknown-outcome"})
    story.op("write", {}, 0, 1, "fail", {"status": 412, "code": "stale"})
    assert answers.documented(story.evidence).held
    story.op("read", {}, 0, 1, "fail", {"status": 412, "code": "stale"})
    story.op("create", {}, 0, 1, "fail", {"status": 500, "code": "internal"})
    assert len(answers.documented(story.evidence).wrong) == 2
    story.op("read", {}, 10, 11, "unknown", {"status": 500, "code": "internal"})
    assert len(answers.documented(story.evidence).wrong) == 3
    story.note("healed", 12, name="memory-limit", began=at(9), nodes=["n1"])
    assert len(answers.documented(story.evidence).wrong) == 2


def test_a_cluster_that_refuses_everything_is_found() -> None:
    story = Story()
    for number in range(30):
        story.op("create", {"job": f"a{number}"}, 0, 1, "fail", {"status": 503})
    assert "none of 30 calls of 'create'" in said(answers.served(story.evidence))
    story.op("create", {"job": "b"}, 0, 1)
    assert answers.served(story.evidence).held


def test_a_node_that_ends_by_itself_is_found() -> None:
    story = Story()
    assert answers.stood(story.evidence).held
    story.note("exit", node="n1", code=1, log="Traceback ...")
    story.note("bad-stop", node="n2", code=None)
    story.note("not-over", amiss="no leader")
    assert len(answers.stood(story.evidence).wrong) == 3


def test_nodes_that_differ_are_found() -> None:
    story = Story()
    story.row("jobs", id="a", state="EXPIRED")
    assert equal.agreed(story.evidence).held
    story.final["n3"]["jobs"][0]["state"] = "SCHEDULED"
    story.final["n2"]["instances"].append({"id": "x"})
    wrong = said(equal.agreed(story.evidence))
    assert "state is 'EXPIRED' at n1, 'SCHEDULED' at n3" in wrong
    assert "only n2 has it" in wrong


def test_a_trial_without_a_last_look_shows_nothing() -> None:
    story = Story()
    story.final.clear()
    assert not all(finding.held for finding in judge(story.evidence))
