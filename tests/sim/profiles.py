"""Profiles of runs: the load, and the faults that strike, by weight."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from raftsched.raft.options import KIB, RaftOptions

ORDINARY = {
    "kill": 4,
    "kill_leader": 2,
    "kill_all": 1,
    "power": 3,
    "power_all": 1,
    "reset": 6,
    "reset_all": 2,
    "halves": 2,
    "isolate": 3,
    "ring": 1,
    "one_way": 3,
    "pause": 4,
    "pause_leader": 2,
    "slow_node": 2,
    "slow_disk": 3,
    "hang_disk": 1,
    "slow_link": 2,
    "lossy": 2,
    "clock": 2,
    "full_disk": 1,
    "hand_over": 2,
    "transfer": 2,
    "snapshot_kill": 3,
    "crash_in_job": 3,
    "wipe": 2,
    "flip": 1,
    "add": 2,
    "remove": 2,
    "move": 1,
}

OPTIONS = RaftOptions(tick_ms=50, snapshot_retry_ms=2_000)


@dataclass(frozen=True)
class Profile:
    """`faults`: weights, by the names of the methods of faults.Nemesis. `swarm`: each run leaves some of them out."""

    faults: dict[str, int] = field(default_factory=lambda: dict(ORDINARY))
    swarm: bool = True
    every_s: float = 1.0  # mean time between two faults
    clients: int = 6
    think_s: float = 0.4  # of each client, mean
    body_bytes: tuple[int, ...] = (0, 20, 20, 20, 300)
    options: RaftOptions | None = None  # None: drawn by the seed
    keep_entries: tuple[int, ...] = ()  # of the first machine, the second...; the others as in `options`
    timeouts_s: tuple[float, ...] = (4.0, 1.0)  # of the calls
    oversize: float = 0.0  # chance that a call is larger than any entry may be
    raising: float = 0.0  # chance that what is told of an applied entry raises
    strangers: int = 0  # who dial without the key
    latency_s: tuple[float, float] = (0.0002, 0.001)  # of the network
    first_fault_s: float = 0.0
    start_s: float = 0.5  # within which the machines are started
    last_waits: bool = False  # the last one is not started with the others
    versions: bool = False  # two at a time: versions.py
    never_held: bool = False  # operators let the level of the cluster rise as soon as it can
    # what must not be, beside what never must
    no_election: bool = False  # after the first fault
    no_snapshot: bool = False

    @property
    def changes_members(self) -> bool:
        return "add" in self.faults

    def draw(self, rng: random.Random) -> Profile:
        """Returns the profile as this seed varies it."""
        faults = self.faults
        if self.swarm and len(faults) > 3:
            faults = {name: weight for name, weight in faults.items() if rng.random() < 0.6} or faults
        return replace(
            self,
            faults=faults,
            every_s=self.every_s * rng.choice([0.5, 1, 1, 2]),
            think_s=self.think_s * rng.choice([0.5, 1, 1, 2]),
            body_bytes=rng.choice([self.body_bytes, self.body_bytes, (*self.body_bytes, 5_000)]),
            options=self.options or draw_options(rng),
        )


def draw_options(rng: random.Random) -> RaftOptions:
    """Limits so small that they are met."""
    return replace(
        OPTIONS,
        keep_entries=rng.choice([2, 10, 40, 1_000]),
        keep_bytes=rng.choice([4 * KIB, 1_000 * KIB]),
        memory_max_entries=rng.choice([4, 40, 1_000]),
        inflight_max_messages=rng.choice([2, 8, 256]),
        snapshot_chunk_bytes=rng.choice([2 * KIB, 16 * KIB]),
        snapshot_window_bytes=rng.choice([16 * KIB, 64 * KIB]),
        snapshot_keep_ms=rng.choice([500, 20_000]),
        entry_max_commands=rng.choice([10, 4_000]),
        append_max_bytes=rng.choice([32 * KIB, 4_000 * KIB]),
        entry_max_bytes=16 * KIB,
        waiting_max_bytes=rng.choice([32 * KIB, 64_000 * KIB]),
        queue_max_bytes=rng.choice([32 * KIB, 32_000 * KIB]),
        inflight_max_bytes=rng.choice([16 * KIB, 8_000 * KIB]),
        apply_max_bytes=rng.choice([KIB, 4_000 * KIB]),
        send_buffer_bytes=rng.choice([512 * KIB, 64_000 * KIB]),
    )


SNAPSHOTS = replace(
    OPTIONS,
    keep_entries=2,
    memory_max_entries=4,
    snapshot_chunk_bytes=2 * KIB,
    snapshot_window_bytes=8 * KIB,
)

PROFILES: dict[str, Profile] = {
    "mixed": Profile(),
    "calm": Profile(faults={}, swarm=False),
    "kills": Profile(faults={"kill": 4, "kill_leader": 4, "kill_all": 2, "power": 4, "power_all": 2}, swarm=False),
    "network": Profile(
        faults={
            "reset": 6,
            "reset_all": 2,
            "halves": 2,
            "isolate": 3,
            "ring": 2,
            "one_way": 3,
            "slow_link": 2,
            "lossy": 2,
        }
    ),
    "members": Profile(
        faults={
            "add": 8,
            "remove": 7,
            "wipe": 3,
            "flip": 2,
            "transfer": 3,
            "kill": 2,
            "isolate": 2,
            "reset": 2,
            "pause": 1,
        }
    ),
    "moves": Profile(
        faults={
            "move": 8,
            "kill": 2,
            "power": 2,
            "wipe": 1,
            "add": 2,
            "remove": 2,
            "isolate": 2,
            "reset": 2,
            "transfer": 2,
        }
    ),
    "untold-moves": Profile(
        faults={"move_untold": 8, "kill": 2, "power": 1, "isolate": 1, "reset": 2, "transfer": 1},
        swarm=False,
        every_s=0.3,
        start_s=0.2,
    ),
    "disks": Profile(
        faults={"wipe": 4, "flip": 4, "full_disk": 3, "power": 4, "power_all": 2, "slow_disk": 2, "hang_disk": 2}
    ),
    "pressure": Profile(
        faults={
            "slow_link": 6,
            "slow_disk": 4,
            "hang_disk": 2,
            "lossy": 4,
            "slow_node": 3,
            "pause": 3,
            "isolate": 2,
            "reset": 3,
            "kill": 2,
            "add": 1,
        },
        clients=24,
        think_s=0.15,
        body_bytes=(20, 300, 1_000, 5_000),
    ),
    "snapshots": Profile(
        faults={
            "kill": 3,
            "power": 2,
            "isolate": 3,
            "snapshot_kill": 6,
            "crash_in_job": 6,
            "reset": 3,
            "full_disk": 1,
            "slow_link": 2,
        },
        options=SNAPSHOTS,
        body_bytes=(20, 300, 5_000),
    ),
    "versions": Profile(
        # members that move are not among them: 0.2.0 and versions before do not tell each other
        faults={name: weight for name, weight in ORDINARY.items() if name != "move"}
        | {"change_version": 14, "upgrade_all": 3, "late_downgrade": 4, "hold": 3},
        every_s=0.7,
        versions=True,
    ),
    "forming": Profile(
        faults={
            "wipe": 6,
            "ring": 3,
            "isolate": 2,
            "one_way": 2,
            "kill": 3,
            "power": 2,
            "reset": 2,
            "slow_disk": 1,
            "hang_disk": 1,
        },
        every_s=0.5,
        start_s=4.0,
    ),
    # made for single guards: see mutations.py
    "too-old": Profile(
        faults={"upgrade_all": 3, "late_downgrade": 6, "kill": 1},
        swarm=False,
        first_fault_s=2.0,
        versions=True,
        never_held=True,
        options=SNAPSHOTS,
    ),
    "too-old-logs": Profile(  # what a node has missed comes as entries
        faults={"upgrade_all": 3, "late_downgrade": 6, "wipe": 4},
        swarm=False,
        first_fault_s=2.0,
        versions=True,
        never_held=True,
        options=replace(OPTIONS, keep_entries=100_000, keep_bytes=64_000 * KIB),
    ),
    "unheard": Profile(
        faults={"change_version": 4, "kill_leader": 3, "kill": 2, "isolate": 2},
        swarm=False,
        first_fault_s=2.0,
        versions=True,
        never_held=True,
    ),
    "votes": Profile(
        faults={"vote_kill": 6, "kill_leader": 4, "isolate": 2, "hand_over": 2},
        swarm=False,
        every_s=1.0,
        latency_s=(0.001, 0.02),  # several campaign at the same time
        options=replace(OPTIONS, election_max_ms=1_100),
    ),
    "followers": Profile(
        faults={"lone_follower": 3, "far_follower": 3, "paused_follower": 1},
        swarm=False,
        first_fault_s=6.0,
        clients=2,
        think_s=6.0,  # so that who was away is not behind
        no_election=True,
    ),
    "lost-campaigns": Profile(faults={"lost_campaign": 1}, swarm=False, every_s=4.0, first_fault_s=3.0),
    "figure-eight": Profile(
        faults={"figure_eight": 1},
        swarm=False,
        every_s=4.0,
        first_fault_s=3.0,
        clients=6,
        think_s=0.15,
        timeouts_s=(0.3,),
        body_bytes=(12_000,),
        options=replace(OPTIONS, append_max_bytes=32 * KIB, entry_max_bytes=16 * KIB),
    ),
    "backlog": Profile(
        faults={"isolate": 4, "halves": 2, "kill_leader": 1, "one_way": 2},
        swarm=False,
        clients=8,
        think_s=0.2,
        timeouts_s=(0.4, 2.0),
        body_bytes=(5_000,),
        options=replace(OPTIONS, keep_bytes=16 * KIB, memory_max_entries=40),
    ),
    "long-tails": Profile(
        faults={"deaf_leader": 1},
        swarm=False,
        every_s=2.0,
        first_fault_s=3.0,
        clients=8,
        think_s=0.1,
        timeouts_s=(0.3,),
        body_bytes=(12_000,),
        options=replace(OPTIONS, append_max_bytes=32 * KIB, entry_max_bytes=16 * KIB),
    ),
    "late-tails": Profile(
        faults={"slow_deaf_leader": 1},
        swarm=False,
        every_s=1.0,
        first_fault_s=3.0,
        clients=14,
        think_s=0.1,
        timeouts_s=(0.3,),
        body_bytes=(15_000,),
        options=replace(OPTIONS, append_max_bytes=32 * KIB, entry_max_bytes=16 * KIB),
    ),
    "late-votes": Profile(
        faults={"late_votes": 1},
        swarm=False,
        every_s=2.0,
        first_fault_s=3.0,
        options=replace(OPTIONS, election_max_ms=1_100),
    ),
    "split-formation": Profile(
        faults={"split_formation": 1},
        swarm=False,
        every_s=0.1,
        last_waits=True,
        options=replace(OPTIONS, dead_peer_ms=10_000),
    ),
    "rolled-back": Profile(faults={"roll_back": 6, "reset": 1}, swarm=False, every_s=1.0, first_fault_s=3.0),
    "lonely": Profile(faults={"lonely_leader": 1}, swarm=False, every_s=2.0, first_fault_s=3.0),
    "empty-voter": Profile(faults={"empty_voter": 1, "add": 0}, swarm=False, every_s=2.0, first_fault_s=3.0),
    "late-answers": Profile(
        faults={"late_answers": 1},
        swarm=False,
        every_s=3.0,
        first_fault_s=2.5,
        clients=20,
        think_s=0.1,
        timeouts_s=(0.3,),
        options=replace(OPTIONS, dead_peer_ms=30_000, keep_entries=1_000),
    ),
    "far-apart": Profile(
        faults={"isolate": 4, "halves": 2, "hand_over": 1},
        swarm=False,
        every_s=6.0,
        clients=30,
        think_s=0.05,
        timeouts_s=(0.15, 0.3),
        latency_s=(0.1, 0.15),
        options=replace(OPTIONS, keep_entries=5_000, keep_bytes=64_000 * KIB),
    ),
    "oversize": Profile(
        faults={"kill": 1, "reset": 1},
        swarm=False,
        oversize=0.1,
        options=replace(
            OPTIONS,
            append_max_bytes=32 * KIB,
            append_bytes=32 * KIB,
            entry_max_bytes=16 * KIB,
            snapshot_chunk_bytes=16 * KIB,
            frame_max_bytes=64 * KIB,
        ),
    ),
    "raising": Profile(faults={"kill": 2, "isolate": 1}, swarm=False, raising=0.02),
    "strangers": Profile(faults={"reset": 2, "kill": 1}, swarm=False, strangers=2),
    "full-disks": Profile(faults={"full_disk": 4, "kill": 1, "isolate": 1}, swarm=False),
    "laggards": Profile(
        faults={"kill": 4, "isolate": 3, "reset": 2, "power": 2},
        swarm=False,
        options=replace(OPTIONS, keep_entries=100_000, keep_bytes=64_000 * KIB, memory_max_entries=10),
        no_snapshot=True,
    ),
    "patient-callers": Profile(
        faults={"deaf_follower": 1},
        swarm=False,
        first_fault_s=6.0,
        clients=15,
        think_s=0.2,
        timeouts_s=(100.0,),
        options=replace(SNAPSHOTS, inflight_max_messages=2, dead_peer_ms=10_000),
    ),
    "hasty-changes": Profile(faults={"hasty_changes": 1}, swarm=False, every_s=3.0, first_fault_s=3.0),
    "two-removals": Profile(faults={"two_removals": 1}, swarm=False, every_s=3.0, first_fault_s=3.0),
    "half-replaced": Profile(faults={"half_replaced": 1}, swarm=False, every_s=3.0, first_fault_s=3.0),
    "gone": Profile(faults={"gone_for_good": 1, "remove": 2}, swarm=False, every_s=3.0, first_fault_s=3.0),
    "late-resets": Profile(
        faults={"reset_trap": 3, "isolate": 2, "kill": 2, "hand_over": 1},
        swarm=False,
        every_s=0.8,
        think_s=0.3,
        options=replace(OPTIONS, keep_entries=1_000),
    ),
    "spliced": Profile(
        faults={"isolate": 3, "slow_link": 6, "transfer": 3, "kill_leader": 2, "reset": 2},
        swarm=False,
        every_s=0.7,
        options=SNAPSHOTS,
        body_bytes=(300, 5_000),
    ),
    "uneven-tails": Profile(
        faults={"overtaken": 1},
        swarm=False,
        every_s=0.5,
        first_fault_s=3.0,
        think_s=0.15,
        keep_entries=(2,),
        options=replace(SNAPSHOTS, keep_entries=1_000),
        body_bytes=(20, 300),
    ),
}
