"""Creates that come together are proposed together, and each is answered for itself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from raftsched.api.auth.callers import ANYBODY, Caller, RequestContext, RequestState, begin_request, caller, end_request
from raftsched.api.http import gathering
from raftsched.api.http.gathering import Creates
from raftsched.api.jobs.defaults import NO_DEFAULTS
from raftsched.api.jobs.joined import Group
from raftsched.api.jobs.parse import Content
from raftsched.api.ports import Reply
from raftsched.cluster_settings import Settings
from raftsched.core.commands import Accepted, Answer, CreateJob, CreateJobs, Rejected, decode, encode
from raftsched.core.levels import JOBS_ARE_JOINED
from raftsched.core.subjects.access import Role
from raftsched.errors import Overloaded, RaftschedError, UnknownOutcome
from raftsched.raft.options import RaftOptions

SETTINGS = Settings()
ANA, BO = (Caller(Role.EDITOR, actor=number, name=name, counted=False) for number, name in ((7, "ana"), (8, "bo")))


class Node:
    """Takes proposals, and answers them when the test says so."""

    def __init__(self, level: int = JOBS_ARE_JOINED) -> None:
        self.proposed: list[tuple[str, list[Any]]] = []  # who asked for which commands
        self.replies: list[Reply] = []
        self.failure: Exception | None = None
        self.settings, self.now_ms, self.defaults_of = SETTINGS, lambda: 0, lambda namespace: NO_DEFAULTS
        self.meta = lambda: SimpleNamespace(level=level)
        self.creates = Creates(cast(Any, self))
        self.answers: list[tuple[str, str]] = []  # (which job, how it was answered)

    def propose_then(self, commands: Sequence[bytes], reply: Reply) -> None:
        if self.failure is not None:
            raise self.failure
        self.proposed.append((caller().name, [decode(raw) for raw in commands]))
        self.replies.append(reply)

    def post(self, job: str, who: Caller = ANYBODY, **fields: Any) -> RequestState:
        given = {"trigger": {"in": "5m"}, "handler": {"exec": ["true"]}, "name": job, **fields}
        call = RequestContext(who, "jobs_create", work=True, state=RequestState(), needed=Role.EDITOR)
        token = begin_request(call)
        try:
            content = self.creates.read(who, msgspec.json.encode(given), SETTINGS)
            self.creates.propose(call, content, lambda answers, error: self._note(job, answers, error))
        finally:
            end_request(token)
        assert call.state is not None
        return call.state

    def _note(self, job: str, answers: list[Answer] | None, error: RaftschedError | None) -> None:
        if error is not None or answers is None:
            self.answers.append((job, "" if error is None else error.code))
            return
        (answer,) = answers
        self.answers.append((job, answer.code if isinstance(answer, Rejected) else "done"))


async def next_pass() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_those_that_are_alike_are_one_command_and_each_has_its_answer() -> None:
    node = Node()
    node.post("a")
    node.post("odd", priority=1)
    node.post("b")
    assert node.proposed == []
    await next_pass()
    ((_, (two, one)),) = node.proposed
    assert isinstance(two, CreateJobs)
    assert isinstance(one, CreateJob)
    assert (two.names, one.name) == (("a", "b"), "odd")
    node.replies[0]([Accepted(each=(Accepted(), Rejected("name-taken"))), Rejected("invalid-job")], None)
    assert sorted(node.answers) == [("a", "done"), ("b", "name-taken"), ("odd", "invalid-job")]


async def test_of_each_it_is_noted_that_it_was_proposed() -> None:
    node = Node()
    states = [node.post(job) for job in "ab"]
    assert [state.proposed for state in states] == [False, False]
    await next_pass()
    assert [state.proposed for state in states] == [True, True]


async def test_what_comes_in_the_next_pass_is_another_proposal() -> None:
    node = Node()
    for job in "ab":
        node.post(job)
        await next_pass()
    assert [[type(command) for command in commands] for _, commands in node.proposed] == [[CreateJob], [CreateJob]]


async def test_no_command_is_of_two_callers() -> None:
    node = Node()
    for job, who in (("a", ANA), ("b", BO), ("c", ANA), ("d", ANYBODY)):
        node.post(job, who)
    await next_pass()
    assert [(name, len(commands)) for name, commands in node.proposed] == [("ana", 1), ("bo", 1), ("", 1)]
    assert node.proposed[0][1][0].names == ("a", "c")


async def test_a_cluster_of_an_earlier_level_gets_a_command_for_each() -> None:
    node = Node(level=JOBS_ARE_JOINED - 1)
    for job in "ab":
        node.post(job)
    await next_pass()
    assert [type(command) for _, commands in node.proposed for command in commands] == [CreateJob, CreateJob]


async def test_a_refusal_of_the_whole_command_is_that_of_each() -> None:
    node = Node()
    for job in "ab":
        node.post(job)
    await next_pass()
    node.replies[0]([Rejected("unauthorized")], None)
    assert node.answers == [("a", "unauthorized"), ("b", "unauthorized")]


@pytest.mark.parametrize(
    ("failure", "code"),
    [(Overloaded(), "overloaded"), (MemoryError(), "unknown-outcome"), (ZeroDivisionError(), "internal")],
)
async def test_what_goes_wrong_at_once_is_told_to_each(failure: Exception, code: str) -> None:
    node = Node()
    node.failure = failure
    for job, who in (("a", ANA), ("b", BO)):
        node.post(job, who)
    await next_pass()
    assert node.answers == [("a", code), ("b", code)]


async def test_what_goes_wrong_later_is_told_to_each() -> None:
    node = Node()
    for job in "ab":
        node.post(job)
    await next_pass()
    node.replies[0](None, UnknownOutcome())
    assert node.answers == [("a", "unknown-outcome"), ("b", "unknown-outcome")]


async def test_one_that_cannot_be_answered_keeps_no_other_from_its_answer() -> None:
    node = Node()
    for job in "abc":
        node.post(job)
    await next_pass()
    note = node._note

    def fails(job: str, answers: list[Answer] | None, error: RaftschedError | None) -> None:
        if job == "b":
            raise ValueError("it cannot be said")
        note(job, answers, error)

    node._note = fails  # type: ignore[method-assign]
    node.replies[0]([Accepted(each=(Accepted(),) * 3)], None)
    assert node.answers == [("a", "done"), ("c", "done")]


async def test_all_are_answered_before_the_node_is_told_that_its_memory_ran_out() -> None:
    node = Node()
    for job in "ab":
        node.post(job)
    await next_pass()
    note = node._note

    def fails(job: str, answers: list[Answer] | None, error: RaftschedError | None) -> None:
        note(job, answers, error)
        raise MemoryError

    node._note = fails  # type: ignore[method-assign]
    with pytest.raises(MemoryError):
        node.replies[0](None, UnknownOutcome())
    assert node.answers == [("a", "unknown-outcome"), ("b", "unknown-outcome")]


async def test_a_proposal_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "TOGETHER_MAX", 2)
    node = Node()
    for job in "abc":
        node.post(job)
    await next_pass()
    assert [len(getattr(command, "bodies", "x")) for _, commands in node.proposed for command in commands] == [2, 1]


@pytest.mark.parametrize("fields", [{}, {"priority": 1}])
async def test_large_jobs_that_come_together_fit_the_log_as_they_do_alone(fields: dict[str, Any]) -> None:
    node = Node()
    for place in range(60):
        node.post(f"j{place}", params={"text": "x" * 14_000}, **(fields if place % 2 else {}))
    await next_pass()
    sizes = [sum(len(encode(command)) for command in commands) for _, commands in node.proposed]
    assert max(sizes) <= RaftOptions().entry_max_bytes
    assert sum(len(getattr(command, "bodies", "x")) for _, commands in node.proposed for command in commands) == 60


async def test_each_is_answered_when_nothing_can_be_proposed() -> None:
    def meta() -> SimpleNamespace:
        raise ZeroDivisionError

    node = Node()
    node.meta = meta
    for job in "ab":
        node.post(job)
    await next_pass()
    assert node.answers == [("a", "internal"), ("b", "internal")]


async def test_jobs_of_one_caller_that_cannot_be_joined_keep_no_other_caller_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Broken(Group):
        def takes(self, content: Content, key: bytes = b"", place: int = 0) -> bool:
            raise ZeroDivisionError

    monkeypatch.setattr(gathering, "Group", Broken)
    node = Node()
    for job, who in (("a", ANA), ("b", ANA), ("c", BO)):
        node.post(job, who)
    await next_pass()
    assert node.answers == [("a", "internal"), ("b", "internal")]
    assert [name for name, _ in node.proposed] == ["bo"]
