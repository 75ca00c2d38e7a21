"""The judge of the endurance trial, on histories made by hand: the honest one passes, each dishonest one is caught."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from scripts.trials import checker
from scripts.trials.beats import parse_history
from scripts.trials.checker import Job, Verdict, judge

S = 1_000_000_000
QUIET = 100 * S


def time_of(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat().replace("+00:00", "Z")


def life(instance: str, attempt: int, token: int, *beats: float, node: str = "n1", end: bool = True) -> list[str]:
    """Lines of one run at these seconds of the boot clock; without `end` it was cut short."""
    words = ["start", *["beat"] * (len(beats) - 1)]
    if end:
        words[-1] = "end"
    who = f"{instance} {attempt} {token} {node}"
    return [f"{word} {who} {round(at * S)}\n" for word, at in zip(words, beats, strict=True)]


def attempt(number: int, token: int, outcome: str = "succeeded", node: str = "n1") -> dict[str, Any]:
    return {"number": number, "token": token, "node": node, "outcome": outcome}


def row(instance: str, at: int, *attempts: dict[str, Any], state: str = "SUCCEEDED", **other: Any) -> dict[str, Any]:
    base = {"id": instance, "state": state, "scheduled_at": time_of(at), "manual": False, "skipped": 0}
    return {**base, "skipped_until": None, "reason": None, "error": None, "attempts": list(attempts), **other}


def gap(first: int, last: int, count: int, reason: str | None = "overlap") -> dict[str, Any]:
    more = {"skipped": count, "skipped_until": time_of(last), "reason": reason}
    return row(f"gap@{first}", first, state="SKIPPED", **more)


def honest() -> tuple[Job, list[str]]:
    """Two due times that ran, one of them twice because its first attempt was lost, and two that were skipped."""
    job = Job("job", True, [1000, 2000, 3000, 4000])
    job.rows = [
        row("a", 1000, attempt(1, 1, "lost"), attempt(2, 2, node="n2")),
        gap(2000, 3000, 2),
        row("b", 4000, attempt(1, 3)),
    ]
    lines = [
        *life("a", 1, 1, 1.0, 1.1, end=False),
        *life("a", 2, 2, 9.0, 9.1, 9.2, node="n2"),
        *life("b", 1, 3, 10.0, 10.1),
    ]
    return job, lines


def judged(job: Job, lines: list[str], quiet_ns: int | None = QUIET) -> Verdict:
    return judge([job], {job.name: parse_history("".join(lines))}, quiet_ns)


def broken(verdict: Verdict) -> set[str]:
    return {rule for rule, found in verdict.violations.items() if found}


def test_an_honest_history_passes_and_everything_was_looked_at() -> None:
    job, lines = honest()
    verdict = judged(job, lines)
    assert verdict.held, verdict.violations
    assert verdict.counts["runs"] == 3
    assert verdict.counts["runs cut short"] == 1
    assert verdict.counts["attempts lost"] == 1
    assert verdict.counts["due times skipped"] == 2
    assert verdict.counts["lines"] == 7
    looked_at = {rule for rule, number in verdict.checked.items() if number}
    assert looked_at == set(checker.RULES) - {checker.AGREED, checker.STOOD}, "these two are for who asks the nodes"


def test_an_attempt_that_lived_on_beside_the_next() -> None:
    job, lines = honest()
    lines[:2] = life("a", 1, 1, 1.0, 9.15, end=False)
    verdict = judged(job, lines)
    assert broken(verdict) == {checker.ALONE, checker.FORBIDDEN}
    assert "150.0 ms" in verdict.violations[checker.ALONE][0]


def test_a_life_is_over_only_after_its_last_beat() -> None:
    job, lines = honest()
    lines[:2] = life("a", 1, 1, 1.0, 9.0, end=False)
    assert checker.ALONE in broken(judged(job, lines)), "at the same moment is not after it"
    lines[:2] = life("a", 1, 1, 1.0, 8.999_999_999, end=False)
    assert judged(job, lines).held


def test_a_long_life_is_held_against_all_that_come_within_it() -> None:
    job, lines = honest()
    lines[:2] = life("a", 1, 1, 1.0, 20.0, end=False)
    verdict = judged(job, lines)
    assert len(verdict.violations[checker.FORBIDDEN]) == 2
    assert len(verdict.violations[checker.ALONE]) == 1


def test_lines_that_alternate_are_an_overlap_whatever_the_clock_says() -> None:
    job, lines = honest()
    lines[1], lines[2] = lines[2], lines[1]  # the later one's start stands before the last beat of the earlier one
    assert broken(judged(job, lines)) == {checker.ALONE, checker.FORBIDDEN}


def test_two_runs_of_a_job_that_forbids_it() -> None:
    job, lines = honest()
    lines[5:] = life("b", 1, 3, 9.15, 10.1)
    assert broken(judged(job, lines)) == {checker.FORBIDDEN}
    job.forbids = False
    assert judged(job, lines).held, "a job that allows overlap"


def test_a_later_token_that_started_first() -> None:
    job, lines = honest()
    job.rows[0]["attempts"] = [attempt(1, 2, "lost"), attempt(2, 1, node="n2")]  # type: ignore[index]
    lines[:5] = [*life("a", 1, 2, 1.0, 1.1, end=False), *life("a", 2, 1, 9.0, 9.1, 9.2, node="n2")]
    assert broken(judged(job, lines)) == {checker.ORDER}


def test_the_same_token_twice() -> None:
    job, lines = honest()
    assert broken(judged(job, [*lines, *life("b", 1, 3, 12.0, 12.1)])) == {checker.READABLE}, "started once more"
    lines[5:] = [*life("b", 1, 3, 10.0, 10.1), *life("b", 1, 3, 12.0, 12.1, node="n3")]
    assert broken(judged(job, lines)) == {checker.ORDER, checker.KNOWN}, "on two nodes"


@pytest.mark.parametrize(
    "wrong",
    [
        "beat b 1 3 n1 11000000000\n",  # after the end
        "beat b 1 3 n1\n",
        "nonsense\n",
        "\n",
        "pulse b 1 3 n1 11000000000\n",
        "beat b 1 3 n1 soon\n",
        "beat b 1 3 n1 11000",  # cut short
    ],
)
def test_lines_that_no_run_would_write(wrong: str) -> None:
    job, lines = honest()
    assert broken(judged(job, [*lines, wrong])) == {checker.READABLE}


def test_a_run_without_a_start_and_a_clock_that_goes_back() -> None:
    job, lines = honest()
    assert checker.READABLE in broken(judged(job, lines[:2] + lines[3:]))
    lines[3:5] = reversed([line.replace("end", "beat") for line in lines[3:5]])
    assert checker.READABLE in broken(judged(job, lines))


def test_a_run_that_the_cluster_does_not_know() -> None:
    job, lines = honest()
    assert broken(judged(job, [*lines, *life("c", 1, 4, 20.0, 20.1)])) == {checker.KNOWN}
    assert broken(judged(job, [*lines, *life("b", 2, 4, 20.0, 20.1)])) == {checker.KNOWN}
    lines[5:] = life("b", 1, 3, 10.0, 10.1, node="n2")
    assert broken(judged(job, lines)) == {checker.KNOWN}, "on another node than it was handed to"


def test_a_due_time_that_nothing_is_known_of() -> None:
    job, lines = honest()
    job.due_ms = [*job.due_ms, 5000]
    assert broken(judged(job, lines)) == {checker.ACCOUNTED}


def test_a_gap_that_does_not_cover_what_it_counts() -> None:
    for wrong in (gap(2000, 2000, 1), gap(2000, 3000, 1), gap(2000, 3000, 3), gap(2000, 3000, 2, None)):
        job, lines = honest()
        job.rows[1] = wrong  # type: ignore[index]
        assert broken(judged(job, lines)) == {checker.ACCOUNTED}, wrong


def test_more_records_than_due_times() -> None:
    job, lines = honest()
    job.rows = [*(job.rows or ()), row("c", 5000, attempt(1, 4))]
    lines += life("c", 1, 4, 20.0, 20.1)
    assert broken(judged(job, lines)) == {checker.ACCOUNTED}, "it was never due"
    job.rows[-1]["scheduled_at"] = time_of(4000)
    assert broken(judged(job, lines)) == {checker.ACCOUNTED}, "it was due once"
    job.rows[-1]["scheduled_at"] = time_of(3000)
    assert broken(judged(job, lines)) == {checker.ACCOUNTED}, "it was skipped, and ran"


def test_requests_to_run() -> None:
    job = Job("job", True, [], {"m"}, may_be_asked=True, rows=[row("m", 1500, attempt(1, 1), manual=True)])
    lines = life("m", 1, 1, 1.0, 1.1)
    assert judged(job, lines).held
    job.asked = {"m", "other"}
    assert broken(judged(job, lines)) == {checker.ACCOUNTED}, "acknowledged and gone"
    job.asked = set()
    assert judged(job, lines).held, "nobody heard the acknowledgement"
    job.may_be_asked = False
    assert broken(judged(job, lines)) == {checker.ACCOUNTED}, "nobody asked"


@pytest.mark.parametrize("state", ["WAITING", "RUNNING", "RETRYING", "FAILED", "TIMED_OUT", "KILLED"])
def test_an_instance_that_did_not_succeed(state: str) -> None:
    job, lines = honest()
    job.rows[2]["state"] = state  # type: ignore[index]
    assert broken(judged(job, lines)) == {checker.RAN}


def test_a_success_that_never_was() -> None:
    job, lines = honest()
    assert broken(judged(job, lines[:-1])) == {checker.RAN}, "it wrote no end"
    assert broken(judged(job, lines[:-2])) == {checker.RAN}, "it wrote nothing"
    lines[2:5] = life("a", 2, 2, 9.0, 9.1, 9.2, node="n2", end=False)
    assert broken(judged(job, lines)) == {checker.RAN}
    job, lines = honest()
    job.rows[2]["attempts"] = []  # type: ignore[index]
    assert broken(judged(job, lines)) == {checker.RAN, checker.KNOWN}


def test_the_end_of_another_attempt_does_not_count() -> None:
    job, lines = honest()
    lines[:2] = life("a", 1, 1, 1.0, 1.1)  # the lost one wrote its end, the one that is said to have succeeded did not
    lines[2:5] = life("a", 2, 2, 9.0, 9.1, node="n2", end=False)
    assert broken(judged(job, lines)) == {checker.RAN}


def test_a_job_that_is_gone_or_never_ran() -> None:
    job, lines = honest()
    job.rows = None
    assert broken(judged(job, lines)) == {checker.ACCOUNTED}
    assert broken(judge([Job("job", True, [1000], rows=[])], {}, QUIET)) == {checker.ACCOUNTED}
    assert broken(judge([honest()[0]], {}, QUIET)) == {checker.RAN}, "without a file"


def test_signs_of_life_after_the_end_of_everything() -> None:
    job, lines = honest()
    lines[:2] = life("a", 1, 1, 1.0, 1.1, end=False)
    assert broken(judged(job, lines, 10 * S)) == {checker.GONE}
    assert broken(judged(job, lines, None)) == {checker.ACCOUNTED}, "it never became quiet"


def test_gaps_do_not_hide_other_jobs() -> None:
    first, lines = honest()
    second = Job("second", True, [1000], rows=[])
    verdict = judge([first, second], {"job": parse_history("".join(lines))}, QUIET)
    assert broken(verdict) == {checker.ACCOUNTED}
    assert [what.split(":")[0] for what in verdict.violations[checker.ACCOUNTED]] == ["second"]
