"""What a refusal says of the jobs that use something: those that the caller may see by name, of the rest how many."""

from __future__ import annotations

from contextvars import copy_context

import pytest

from raftsched.api.auth.callers import Caller, RequestContext, enter_request
from raftsched.api.resources.users import naming_users
from raftsched.core.commands import Rejected
from raftsched.core.limits import USERS_MAX
from raftsched.core.subjects.access import Role

OURS = [("ours", f"j{i}") for i in range(USERS_MAX + 1)]
THEIRS = [("theirs", f"k{i}") for i in range(USERS_MAX + 1)]
FIVE = "ours/j0, ours/j1, ours/j2, ours/j3, ours/j4"


def said(namespaces: frozenset[str] | None, *jobs: tuple[str, str]) -> str:
    def answer() -> str:
        enter_request(RequestContext(Caller(Role.EDITOR, namespaces)))
        return naming_users(Rejected("in-use", "In use.", jobs=jobs)).detail

    return copy_context().run(answer)


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        (OURS[:1], "ours/j0"),
        (OURS[:5], FIVE),
        (OURS[:7], f"{FIVE}, and 2 more"),
        (OURS, f"{FIVE}, and at least 95 more"),
        (THEIRS[:1], "1 job of other namespaces"),
        (THEIRS[:9], "9 jobs of other namespaces"),
        (THEIRS, "at least 100 jobs of other namespaces"),
        ([THEIRS[0], OURS[0], THEIRS[1]], "ours/j0 and 2 jobs of other namespaces"),
        ([*OURS[:6], THEIRS[0]], f"{FIVE}, and 1 more, and 1 job of other namespaces"),
    ],
)
def test_what_is_not_there_for_the_caller_is_counted(jobs: list[tuple[str, str]], expected: str) -> None:
    assert said(frozenset({"ours"}), *jobs) == f"In use. Used by: {expected}."


def test_who_may_see_all_is_told_of_all() -> None:
    assert said(None, OURS[0], THEIRS[0]) == "In use. Used by: ours/j0, theirs/k0."


def test_any_other_refusal_stays_as_it_is() -> None:
    refusal = Rejected("stale-revision", "Read it again.")
    assert naming_users(refusal) is refusal
