"""Defines the commands that make jobs: one, or many that are alike."""

from __future__ import annotations

from msgspec.structs import replace

from raftsched.core.model import Policy
from raftsched.core.subjects.command import Command


class CreateJob(Command, frozen=True, tag=10, gc=False):
    """A name that exists: the same content answers with the job there is, another content is refused, and so is
    `suspended` while it is scheduled. With `replace` it takes the new content instead (create or replace)."""

    namespace: str
    name: str | None
    policy: Policy
    body: bytes
    suspended: bool = False
    replace: bool = False
    if_none: bool = False  # create only: an existing name is refused whatever it holds
    key: bytes = b""  # hash of the caller's Idempotency-Key: under the same one the same job is answered, once made
    digest: bytes = b""  # hash of the request that goes with the key
    place: int | None = None  # in the batch, or the part of one, that the key is of
    defaults: int | None = None  # revision of the namespace that it was filled in from; refused when that is no more so


class CreateJobs(Command, frozen=True, tag=17, gc=False):
    """Jobs that are alike but for these columns, made one after the other, each as by a CreateJob. An empty column has
    the same for all of them; else it has one value for each."""

    namespace: str
    policy: Policy
    bodies: tuple[bytes, ...]
    times: tuple[int, ...] = ()  # `at_ms` of the trigger; empty: as in `policy`
    names: tuple[str | None, ...] = ()  # empty: none has one
    suspended: bool = False
    key: bytes = b""  # as in CreateJob, with the places
    digest: bytes = b""
    places: tuple[int, ...] = ()
    defaults: int | None = None

    def one(self, at: int) -> CreateJob:
        """Returns the command that makes one of them alone."""
        policy = self.policy
        if self.times:
            policy = replace(policy, trigger=replace(policy.trigger, at_ms=self.times[at]))
        return CreateJob(
            self.namespace,
            self.names[at] if self.names else None,
            policy,
            self.bodies[at],
            self.suspended,
            key=self.key,
            digest=self.digest,
            place=self.places[at] if self.places else None,
            defaults=self.defaults,
        )
