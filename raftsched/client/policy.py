"""Decides which server a request goes to, whether it is sent again, and what is not known at its end. Without I/O.

Both clients follow it: `transport.py` (asyncio) and `http.py` (the command line). They ask `next` for the next step, do
it, and report what happened:

    not sent        the next server. Nothing has happened.
    no answer       the next server if the request may be repeated, else the outcome is unknown.
    a stranger      the next server. Who answers is not raftsched.
    503             the next server. This node did nothing.
    a proxy's 503   the next server if the request may be repeated, else the answer: the proxy may not know either.
    504             as no answer: the node does not know either.
    429             the same server after the time that it names: the limit is the cluster's, not the node's.
    a stale 404     the next server: this node could ask no leader, and may not have heard yet of what others know.
    any other 404   the answer. To a DELETE that may have been done before it: the thing is gone.
    any other 4xx   the answer. Another node would give the same.

A request may be repeated when doing it twice is the same as doing it once: GET, PUT, DELETE, a merge patch (RFC 9110,
section 9.2.2), and whatever carries an Idempotency-Key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from raftsched.client.errors import ClientError, NotRaftschedError
from raftsched.client.server_order import Nodes
from raftsched.client.servers import Server
from raftsched.client.strangers import named
from raftsched.client.wire import retry_after

PAUSE_S = 0.05  # before the second round over all servers; doubled for each further one
PAUSE_MAX_S = 1.0
LAST_TRY_S = 0.25  # a refused write is not tried again with less time than this left: its answer could not be awaited
READS = frozenset({"GET", "HEAD"})
REPEATABLE = READS | {"PUT", "PATCH", "DELETE"}
_PASSING = frozenset(
    {"no-leader", "overloaded", "stopping", "behind"}
)  # codes of a 503 that another round may not meet
_ELSEWHERE = frozenset({"no-leader", "stopping"})  # those that another node may end at any moment: do not wait for them
STALE = "raftsched-stale"  # the header of an answer that may be old


Verdict = Literal["take", "done before", "error"]
"""The meaning of an answer's head: it is the answer; there is nothing to delete any more, because an earlier attempt,
which was not answered, deleted it; or its body holds an error, for `refused`."""

Step = tuple[Server | None, float]
"""The next thing to do: send the request to this server, which has so many seconds until the head of its answer is
there; or, without a server, wait so many seconds."""


class Rules:
    """The differences between the clients.

    With `rounds` the servers are asked again and again until `timeout` seconds are over; without, each is asked once,
    and `timeout` holds for each answer and for all waiting together.

    `unknown` makes an error of method, path, a reason and the 504 if there was one; `unreachable` of the reason why
    each server failed, and the timeout. `waits_for`: codes of a 429 that are waited for; None: all that name a time.
    `random`: 0 to 1, so that clients do not all come back at one time.
    """

    def __init__(
        self,
        timeout: float,
        rounds: bool,
        unknown: Callable[[str, str, str, ClientError | None], ClientError],
        unreachable: Callable[[Mapping[Server, str], float], ClientError],
        waits_for: frozenset[str] | None = None,
        random: Callable[[], float] = lambda: 1.0,
    ) -> None:
        self.timeout, self.rounds = timeout, rounds
        self.unknown, self.unreachable = unknown, unreachable
        self.waits_for, self.random = waits_for, random


class Exchange:
    """A request with all its repeats. Times are seconds of a monotonic clock."""

    def __init__(
        self,
        rules: Rules,
        nodes: Nodes,
        method: str,
        path: str,
        *,
        now: float,
        repeatable: bool | None = None,
        may_ask: Callable[[Server], bool] | None = None,
    ) -> None:
        """`repeatable` None: as the method says. `may_ask` leaves servers out."""
        self._rules = rules
        self._nodes = nodes
        self._method, self._path = method, path
        self.writes = method not in READS
        self._may_repeat = method in REPEATABLE if repeatable is None else repeatable
        self._may_ask = may_ask
        self._deadline = now + rules.timeout
        self._waited = 0.0
        self._pause = PAUSE_S
        self._failures: dict[Server, str] = {}
        self._strangers: set[Server] = set()  # servers that are no nodes
        self._uncertain: dict[Server, str] = {}  # servers that may have done it
        self._no_outcome: ClientError | None = None  # a 504
        self._refusal: ClientError | None = None
        self._same: Server | None = None  # asked again after the wait
        self._begin_round(now)

    @property
    def server(self) -> Server:
        """The one that was asked last."""
        return self._server

    def _begin_round(self, now: float) -> None:
        order = self._nodes.order(now, lead=self.writes)
        self._left = [s for s in order if self._may_ask is None or self._may_ask(s)]
        self._retry_after = 0.0
        self._hopeless = True  # no server of this round can be trusted, which waiting does not change
        self._refused_for_good = self._may_pass = False  # answers of this round
        self._round_over = False

    def next(self, now: float) -> Step:
        """Returns the next step. Raises ClientError when there is none."""
        if self._same is not None:
            self._left.insert(0, self._same)
            self._same = None
            return self._wait(now)
        if self._round_over:
            self._begin_round(now)
        time_left = self._time_left(now)
        if self._left and (time_left > 0 or not self._rules.rounds):
            self._server = self._left.pop(0)
            self._had_time = time_left > LAST_TRY_S or not self._rules.rounds
            return self._server, time_left if self._rules.rounds else self._rules.timeout
        self._round_over = True
        nothing_happened = self._refusal is None and not (self._uncertain and self.writes)
        hopeless = self._hopeless and self._failures and nothing_happened
        if not self._rules.rounds or hopeless or (self._refused_for_good and not self._may_pass):
            raise self._given_up()
        return self._wait(now)

    def _time_left(self, now: float) -> float:
        return self._deadline - now if self._rules.rounds else self._rules.timeout - self._waited

    def _wait(self, now: float) -> Step:
        rules, time_left = self._rules, self._time_left(now)
        seconds = max(self._retry_after, self._pause * (0.5 + 0.5 * rules.random()))
        if self._refusal is not None and not self._uncertain:
            # Nothing was done. Say so rather than send it so late that its answer cannot be awaited, or wait in vain.
            needed = min(LAST_TRY_S, rules.timeout / 4) if self.writes and rules.rounds else 0.0
            if time_left - (seconds if self.writes else self._retry_after) < needed:
                raise self._given_up()
        if time_left <= 0 or (seconds > time_left and not rules.rounds):
            raise self._given_up()
        seconds = min(seconds, time_left)
        self._retry_after = 0.0
        self._waited += seconds
        self._pause = min(PAUSE_MAX_S, self._pause * 2)
        return None, seconds

    def _given_up(self) -> ClientError:
        if self._uncertain and self.writes:
            return self._unknown()
        nothing = self._refusal is None and self._no_outcome is None
        if nothing and self._failures and self._strangers.issuperset(self._failures):
            told = "; ".join(f"{server} {why}" for server, why in self._failures.items())
            return NotRaftschedError("not-raftsched", told)
        return self._refusal or self._no_outcome or self._rules.unreachable(self._failures, self._rules.timeout)

    def _unknown(self, more: str = "") -> ClientError:
        why = "; ".join(f"{server} {why}" for server, why in self._uncertain.items()) + more
        return self._rules.unknown(self._method, self._path, why, None if more else self._no_outcome)

    # ------------------------------------------------------------ what happened to the last `Step.server`

    def not_sent(self, why: str, now: float, *, untrusted: bool = False) -> None:
        """Takes that the server got nothing of the request. `untrusted`: its certificate is not to be trusted."""
        self._failures[self._server] = why
        self._nodes.failed(self._server, now)
        self._hopeless = self._hopeless and untrusted

    def strange(self, why: str, now: float) -> None:
        """Takes an answer of somebody who is no node: as far as the cluster goes, nothing has happened."""
        self.not_sent(why, now, untrusted=True)
        self._strangers.add(self._server)

    def unanswered(self, why: str, now: float) -> None:
        """Takes that the server got some of the request, and its answer did not come or broke off. Raises ClientError
        when the request may not be repeated."""
        self._hopeless = False
        if self._had_time or self._server not in self._failures:  # else this says less than what is known
            self._failures[self._server] = why
        self._nodes.failed(self._server, now)
        self._uncertain[self._server] = why
        if not self._may_repeat:
            raise self._unknown()
        self._may_pass = True

    def answered(self, status: int, headers: Mapping[str, str]) -> Verdict:
        """Takes the head of an answer. Raises ClientError for a redirection: whoever is followed gets the token."""
        self._hopeless = False
        self._nodes.answered(self._server, headers, lead=self.writes, able=status != 503)
        if 300 <= status < 400 and "location" in headers:
            to = "".join(c for c in headers["location"][:200] if c.isprintable())
            who = named(headers) and f" (it answers{named(headers)})"
            detail = f"{self._server} redirects to {to}{who}; say that address if it is meant"
            raise ClientError("redirected", detail, status=status)
        if status < 400:
            return "take"
        if status == 404 and self._method == "DELETE" and self._uncertain and STALE not in headers:
            return "done before"
        return "error"

    def refused(self, error: ClientError, headers: Mapping[str, str]) -> None:
        """Takes an answer that is an error. Raises ClientError when no other server would do better."""
        after = retry_after(headers)
        codes = self._rules.waits_for
        if error.status == 429 and after is not None and (codes is None or error.code in codes):
            self._refusal, self._same = error, self._server
            self._retry_after = after
        elif error.status == 503 and not self._may_repeat and error.code == "http-503":
            raise error  # by a proxy, perhaps for a connection that broke when the node had the request
        elif error.status == 503:
            self._refusal = error
            if error.code not in _PASSING:
                self._refused_for_good = True
                return
            self._may_pass = True
            if error.code not in _ELSEWHERE:
                self._retry_after = max(self._retry_after, after or 0.0)
        elif error.status == 504 and self._may_repeat:
            self._no_outcome, self._refusal = error, None
            self._uncertain[self._server] = f"answered: {error.detail}"
            self._may_pass = True
        elif error.status == 404 and STALE in headers:
            self._refusal, self._refused_for_good = error, True
        elif error.status == 412 and self._uncertain:
            raise self._unknown("; it has changed since then, perhaps by that attempt")
        else:
            raise error
