"""Holds the cluster's settings, members and pause, as last applied on the leader."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from raftsched.cluster_settings import Settings
from raftsched.core.subjects.cluster import Member


@dataclass(slots=True)
class Cluster:
    """`members` and `voters` are node ids; the leader's own is among them."""

    leader: str
    settings: Settings
    paused: bool  # nothing is fired or assigned
    members: set[str] = field(default_factory=set)
    voters: set[str] = field(default_factory=set)
    followers: set[str] = field(default_factory=set)  # the voters but for the leader
    zones: int = 0  # number of the time zone data that times are computed with (core.subjects.zones)

    def set_members(self, members: Iterable[Member]) -> None:
        members = list(members)
        self.members = {m.node for m in members}
        self.voters = {m.node for m in members if m.voter}
        self.followers = self.voters - {self.leader}
