"""Jobs that are alike become one command."""

from __future__ import annotations

from msgspec.structs import replace

from raftsched.api.jobs.parse import Content, create_command
from raftsched.core.commands import CreateJobs, encode
from raftsched.core.rules.selection import DEFAULT_NAMESPACE

JOBS_MAX = 1_000  # of one command
PROPOSAL_BYTES = 256 * 1024  # of one proposal, by an estimate that is more than half of what it comes to: an entry of
# the log takes twice as much, and what fits none is refused as a whole
COMMAND_BYTES = 512  # of a command beside body, policy and name: who asks, the key, what nothing is said of


class Group:
    """Jobs of one shape (alike.py) that are made by one command, in this order."""

    def __init__(self, content: Content, key: bytes = b"", digest: bytes = b"", place: int = 0) -> None:
        """`key`, `digest` and `place`: see CreateJob; without a key the place means nothing."""
        self._first = content
        self._contents = [content]
        self._trigger = content.policy.trigger
        self._key, self._digest = key, digest
        self._places = [place]

    def takes(self, content: Content, key: bytes = b"", place: int = 0) -> bool:
        """Adds a job, unless it is not like the others. Returns whether it did."""
        first, trigger = self._first, content.policy.trigger
        if content.shape is None or content.shape is not first.shape or key != self._key:
            return False
        if content.defaults != first.defaults or len(self._contents) >= JOBS_MAX:
            return False
        if trigger != self._trigger and replace(trigger, at_ms=self._trigger.at_ms) != self._trigger:
            return False
        self._contents.append(content)
        self._places.append(place)
        return True

    def __len__(self) -> int:
        return len(self._contents)

    def command(self) -> bytes:
        """Returns the command that makes them, encoded."""
        first, contents = self._first, self._contents
        if len(contents) == 1:
            place = self._places[0] if self._key else None
            return create_command(first, key=self._key, digest=self._digest, place=place)
        times = tuple([content.policy.trigger.at_ms for content in contents])
        names = tuple([content.name for content in contents])
        return encode(
            CreateJobs(
                first.namespace or DEFAULT_NAMESPACE,
                first.policy,
                tuple([content.body for content in contents]),
                times if times.count(times[0]) < len(times) else (),
                names if names.count(None) < len(names) else (),
                first.suspended,
                self._key,
                self._digest,
                tuple(self._places) if self._key else (),
                first.defaults,
            )
        )
