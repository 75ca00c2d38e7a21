"""Links a worker to its cluster: what each of the two tells the other, whichever way there is between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from raftsched.core.commands import Ended, LoseAttempt, SelfReport
from raftsched.core.model import Outcome, OutputRef
from raftsched.system import background
from raftsched.worker.processes.runner import RunSpec
from raftsched.worker.session.lease_holder import LeaseHolder
from raftsched.worker.session.reports import Report, Reports


class Unstarted(NamedTuple):
    """The end of a run that was not started, and why. `begun`: see Ended."""

    outcome: Outcome
    error: str
    begun: bool = True


def not_made(token: int, error: Exception) -> Unstarted:
    """Returns the end of a run that could not be made for a reason nobody thought of: it holds up no other."""
    background.note("worker", error, f"attempt {token}")
    return Unstarted(Outcome.FAILED, f"it could not be started: {type(error).__name__}: {error}")


class Linked(Protocol):
    """Hears from its link what becomes of its session, and decides: the worker (worker.py), which says what each is.
    Runs are handed over in the link's own terms, which `Link.specs` gets back."""

    lease: LeaseHolder
    newest: int
    runs: dict[int, int]
    killing: dict[int, None]

    @property
    def session(self) -> int: ...

    @property
    def trouble(self) -> str: ...

    @property
    def pause_ms(self) -> int: ...

    @property
    def may_renew(self) -> bool: ...

    def adopt(self, session: int, ttl_ms: int) -> None: ...

    def granted(self, session: int, sent_ms: int, lease_ms: int) -> bool: ...

    def check_lease(self, now: int) -> None: ...

    def lapse(self, why: str) -> None: ...

    def look_again(self) -> None: ...

    def given(self, token: int, what: Any) -> None: ...

    def start_given(self) -> None: ...

    def kill(self, token: int) -> None: ...

    def disown(self, token: int, why: str) -> None: ...

    def settled(self, token: int) -> None: ...

    def say_soon(self) -> None: ...


class Link:
    """Opens sessions and renews their leases, tells the worker what it is given, and brings its words into the log. It
    decides nothing of a session."""

    sends_output = False  # the output of a run is sent before its end is said
    lost_output: Any = None  # what is said of an output that could not be sent
    unrenewed = ""  # why the lease was not renewed last, in words; empty: it was
    reports: Reports[Any]  # what was said and is not settled
    _worker: Linked
    _lease: LeaseHolder

    def attach(self, worker: Linked) -> None:
        self._worker = worker
        self._lease = worker.lease

    def start(self) -> None:
        """Begins to hear."""

    def waits_for(self) -> str:
        """Returns what keeps the worker from starting anything, in words; empty: nothing."""
        return ""

    # ------------------------------------------------------------ the session

    def forget_opening(self) -> None:
        """A session that was asked for is not adopted any more."""

    async def open(self) -> float:
        """Tells the ends of earlier sessions, asks for a session once, and adopts it if it was opened. Nothing of an
        earlier one is left. Returns after how many seconds to try again where it was not. Raises what `no_session`
        explains."""
        raise NotImplementedError

    def no_session(self, error: Exception) -> tuple[str, float, bool]:
        """Returns why there is none, in words; how many seconds to wait before the next attempt; and whether it is a
        known fault."""
        raise NotImplementedError

    def lapsed(self) -> None:
        """The worker has no session any more."""

    def tick(self, now: int) -> None:
        """Does what is due by the clock (boot ms), such as to renew the lease."""

    def tell(self) -> None:
        """Has the leader hear at once whether the worker takes runs."""
        raise NotImplementedError

    async def close(self, session: int, ran: Sequence[int]) -> None:
        """Says what is to be said, and ends the session: nothing of it is left, and nothing will start. `ran`: tokens
        of what was taken up. Where this does not get through, the session ends when its lease has run out for certain,
        and its runs count as lost."""
        raise NotImplementedError

    # ------------------------------------------------------------ runs

    def specs(self, session: int, todo: Mapping[int, Any]) -> Iterator[tuple[int, RunSpec | Unstarted]]:
        """Yields what was given as it is started; what has ended meanwhile is left out."""
        raise NotImplementedError

    def say_started(self, session: int, token: int, started_at_ms: int) -> None:
        raise NotImplementedError

    def say_progress(self, session: int, token: int, said: SelfReport) -> None:
        raise NotImplementedError

    def end_of(self, end: Ended | LoseAttempt, output: Any = None) -> Report[Any]:
        """Returns the end of a run as it is said. `output`: what `send_output` returned."""
        raise NotImplementedError

    def say(self) -> None:
        """Sends what is to be said."""
        raise NotImplementedError

    async def send_output(self, session: int, token: int, output: OutputRef) -> Any:
        """Returns what the end of the run says of its output, when that is where others can read it. Never raises but
        when it is cancelled."""
        return None

    def forget(self, token: int) -> None:
        """The run is settled."""

    # ------------------------------------------------------------ ends over a restart

    def kept(self, report: Report[Any]) -> bytes:
        """Returns an end as it is kept on the disk."""
        raise NotImplementedError

    def restore(self, ends: Sequence[bytes]) -> None:
        """Takes ends that an earlier process kept."""
        raise NotImplementedError
