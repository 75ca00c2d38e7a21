"""Creates of single jobs that come together are proposed together: those that are alike are one command."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat

from raftsched.api.auth.callers import Caller, RequestContext, begin_request, end_request, out_of_memory
from raftsched.api.auth.spending import Spending, is_charged
from raftsched.api.context import ApiContext
from raftsched.api.http.failures import failed
from raftsched.api.jobs.alike import AlikeJobs
from raftsched.api.jobs.joined import COMMAND_BYTES, PROPOSAL_BYTES, Group
from raftsched.api.jobs.parse import Content, create_command
from raftsched.api.ports import Reply
from raftsched.cluster_settings import Settings
from raftsched.core.commands import Accepted, Answer
from raftsched.core.levels import JOBS_ARE_JOINED
from raftsched.errors import RaftschedError
from raftsched.system.clock import thread_s

log = logging.getLogger(__name__)

TOGETHER_MAX = 256  # creates of one proposal

_Create = tuple[RequestContext, Content, Reply]


class Creates:
    """The creates of single jobs that are under way on the connections of one server."""

    def __init__(self, ctx: ApiContext) -> None:
        self._ctx = ctx
        self._jobs = AlikeJobs()
        self._waiting: list[_Create] = []
        self._joins = False  # all nodes know the command for many jobs; that stays so

    def read(self, who: Caller, raw: bytes, settings: Settings) -> Content:
        """Returns the job of a body. Who has a token is charged for what that takes."""
        ctx = self._ctx
        if not is_charged(ctx, who):
            return self._jobs.read(raw, settings, ctx.now_ms(), ctx.defaults_of)
        began_s = thread_s()
        try:
            return self._jobs.read(raw, settings, ctx.now_ms(), ctx.defaults_of)
        finally:
            Spending(ctx, who).add(thread_s() - began_s)

    def propose(self, call: RequestContext, content: Content, reply: Reply) -> None:
        """Proposes a job with the others that come in this pass of the event loop. `reply` is called from the event
        loop, once. A request with a trace has its own proposal, which is a span of it."""
        if call.state is not None and call.state.trace is not None:
            self._ctx.propose_then((create_command(content),), reply)
            return
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._propose)
        self._waiting.append((call, content, reply))

    def _propose(self) -> None:
        waiting, self._waiting = self._waiting, []
        by_caller: dict[tuple[int, str, str], list[_Create]] = {}
        for create in waiting:
            call = create[0]
            by_caller.setdefault((call.caller.actor, call.caller.name, call.remote), []).append(create)
        for creates in by_caller.values():
            for some in _bounded(creates):
                self._propose_of_one(some)

    def _propose_of_one(self, creates: Sequence[_Create]) -> None:
        """Proposes the jobs of one caller. Whatever goes wrong is told to each of those who asked, and to no other."""
        token = begin_request(creates[0][0])
        try:
            groups = self._grouped(creates)
            commands = [group.command() for group, _ in groups]
            for call, _, _ in creates:  # what is said of each, should memory run out, and not of the first alone
                if call.state is not None:
                    call.state.proposed = True
            self._ctx.propose_then(commands, partial(_answer, [replies for _, replies in groups]))
        except Exception as error:
            _answer([[reply for _, _, reply in creates]], None, _told(error))
        finally:
            end_request(token)

    def _grouped(self, creates: Sequence[_Create]) -> list[tuple[Group, list[Reply]]]:
        """Returns the commands that make them, each with those who wait for its answers."""
        if not self._joins and len(creates) > 1:
            self._joins = self._ctx.meta().level >= JOBS_ARE_JOINED
        groups: list[tuple[Group, list[Reply]]] = []
        newest: dict[int, tuple[Group, list[Reply]]] = {}  # by shape
        for _, content, reply in creates:
            found = newest.get(id(content.shape)) if self._joins else None
            if found is not None and found[0].takes(content):
                found[1].append(reply)
            else:
                newest[id(content.shape)] = made = Group(content), [reply]
                groups.append(made)
        return groups


def _bounded(creates: Sequence[_Create]) -> Iterator[Sequence[_Create]]:
    """Cuts the creates of one caller into those of a proposal each, which fits an entry of the log."""
    first = size = 0
    for place, (_, content, _) in enumerate(creates):
        own = COMMAND_BYTES + 2 * len(content.body)  # the policy takes about as much as the body that it is read from
        if place > first and (size + own > PROPOSAL_BYTES or place - first >= TOGETHER_MAX):
            yield creates[first:place]
            first, size = place, 0
        size += own
    yield creates[first:]


def _told(error: Exception) -> RaftschedError:
    """Returns what callers are told. To be called in the context of the request."""
    if isinstance(error, RaftschedError):
        return error
    if isinstance(error, MemoryError):
        log.error("POST /v1/jobs: out of memory")
        return out_of_memory()
    return failed(log, {}, error, "POST /v1/jobs failed")


def _answer(of_groups: Sequence[Sequence[Reply]], answers: list[Answer] | None, error: RaftschedError | None) -> None:
    """Gives each job's answer to who asked for it. Raises MemoryError, after all were given theirs."""
    failure: MemoryError | None = None
    for place, replies in enumerate(of_groups):
        if answers is None:
            each: Iterable[Answer | None] = repeat(None)
        else:
            answer = answers[place]
            each = (isinstance(answer, Accepted) and answer.each) or repeat(answer)
        for reply, one in zip(replies, each, strict=False):
            try:
                reply(None if one is None else [one], error)
            except MemoryError as out:
                failure = out
            except Exception:
                log.exception("an answer failed")
    if failure is not None:
        raise failure
