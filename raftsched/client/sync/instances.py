"""Made from client/instances.py by scripts/make-sync; not edited by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Unpack

from raftsched.client.generated.dead_letters import DeadLetter
from raftsched.client.generated.explain import Explanation
from raftsched.client.generated.output import OutputPiece, Searched
from raftsched.client.generated.runs import Instance, RecentRun
from raftsched.client.instances import Stream
from raftsched.client.models import Sweep
from raftsched.client.refs import InstanceRef
from raftsched.client.spec import DeadFilter, InstanceFilter, KillFilter, SearchFilter
from raftsched.client.sync.bridge import Bridge


class Instances:
    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def kill_matching(self, *, dry_run: bool = False, **filters: Unpack[KillFilter]) -> Sweep:
        """All of a job or a namespace that are not at their end, the newest first; `state` narrows it. With `dry_run`
        nothing is done, and `done` is 0. ValueError when neither a job nor a namespace is named."""
        return self._bridge.run(lambda c: c.instances.kill_matching(dry_run=dry_run, **filters))

    def rerun(self, ref: InstanceRef, *, downstream: bool = False) -> Instance:
        """One more attempt of what is at its end. `downstream`: from here on, all that follows it in its workflow."""
        return self._bridge.run(lambda c: c.instances.rerun(ref, downstream=downstream))

    def wait(self, ref: InstanceRef, *, timeout: float | None = None) -> Instance:
        """Until it is at its end. `timeout` in seconds; TimeoutError after that."""
        return self._bridge.run(lambda c: c.instances.wait(ref, timeout=timeout))

    def output(self, ref: InstanceRef, *, attempt: int | None = None, stream: Stream | None = None) -> bytes:
        """Returns what it printed up to now: stdout and stderr as they came, or one of them; of the last attempt,
        unless another one is named."""
        return self._bridge.run(lambda c: c.instances.output(ref, attempt=attempt, stream=stream))

    def follow(
        self, ref: InstanceRef, *, attempt: int | None = None, stream: Stream | None = None, offset: int = 0
    ) -> Iterator[bytes]:
        """Yields what it prints, as it comes, from this byte on until the attempt ends. Goes on where it was when the
        node that is asked goes away; waits for an attempt that is still to come."""
        return self._bridge.each(lambda c: c.instances.follow(ref, attempt=attempt, stream=stream, offset=offset))

    def pieces(
        self,
        ref: InstanceRef,
        *,
        attempt: int | None = None,
        stream: Stream | None = None,
        tail_bytes: int | None = None,
        follow: bool = True,
    ) -> Iterator[OutputPiece]:
        """Yields what it prints with the stream of each piece, in order, until the attempt ends; with `follow` False
        what there is. `tail_bytes`: begins so many before the end, and skips what is further back when it falls
        behind. Goes on where it was when the node that is asked goes away."""
        return self._bridge.each(
            lambda c: c.instances.pieces(ref, attempt=attempt, stream=stream, tail_bytes=tail_bytes, follow=follow)
        )

    def list_fields(
        self, *fields: str, most: int | None = None, **filters: Unpack[InstanceFilter]
    ) -> Iterator[dict[str, Any]]:
        """Gives only these fields of each, as JSON has them. InvalidError names the fields that there are."""
        return self._bridge.each(lambda c: c.instances.list_fields(most=most, **filters))

    def recent(self, jobs: Sequence[str], *, count: int = 30) -> Mapping[str, Sequence[RecentRun]]:
        """Returns the newest runs of each of these jobs, at most 50 ids, and at most 50 runs of each. A job that is not
        there is left out."""
        return self._bridge.run(lambda c: c.instances.recent(jobs, count=count))

    def search(self, text: str, *, ignore_case: bool = False, **filters: Unpack[SearchFilter]) -> Iterator[Searched]:
        """Yields what holds the text in the output of attempts that have ended, the newest instance first, a part of
        the search at a time. Each part says which nodes did not answer: what they have was not searched."""
        return self._bridge.each(lambda c: c.instances.search(text, ignore_case=ignore_case, **filters))

    def list(self, *, most: int | None = None, **filters: Unpack[InstanceFilter]) -> Iterator[Instance]:
        """The newest scheduled time first; `most` of them (None: all)."""
        return self._bridge.each(lambda c: c.instances.list(most=most, **filters))

    def get(self, ref: InstanceRef) -> Instance:
        """NotFoundError: there is none, or it is not kept any more."""
        return self._bridge.run(lambda c: c.instances.get(ref))

    def kill(self, ref: InstanceRef) -> Instance:
        """Asks what runs to end; ends at once what has not started."""
        return self._bridge.run(lambda c: c.instances.kill(ref))

    def explain(self, ref: InstanceRef) -> Explanation:
        """Why it ran then and there, waits or was skipped, step by step."""
        return self._bridge.run(lambda c: c.instances.explain(ref))


class DeadLetters:
    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def requeue(self, ids: Sequence[str] | None = None, /, **filters: Unpack[DeadFilter]) -> Sweep:
        """These, or all that match. ValueError when neither is given."""
        return self._bridge.run(lambda c: c.dead_letters.requeue(ids, **filters))

    def discard(self, **filters: Unpack[DeadFilter]) -> Sweep:
        """All that match. ValueError without a filter."""
        return self._bridge.run(lambda c: c.dead_letters.discard(**filters))

    def list(self, *, most: int | None = None, **filters: Unpack[DeadFilter]) -> Iterator[DeadLetter]:
        """The newest first; `most` of them (None: all)."""
        return self._bridge.each(lambda c: c.dead_letters.list(most=most, **filters))
