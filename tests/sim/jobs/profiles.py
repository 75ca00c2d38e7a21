"""Load and faults of a run of the cluster with jobs; see tests.sim.profiles."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from raftsched.raft.options import KIB, RaftOptions
from tests.sim.profiles import OPTIONS, Profile

ORDINARY = {
    "kill": 4,
    "kill_leader": 3,
    "kill_all": 1,
    "power": 3,
    "power_all": 1,
    "reset": 3,
    "reset_all": 1,
    "halves": 2,
    "isolate": 4,
    "ring": 1,
    "one_way": 5,
    "pause": 3,
    "pause_leader": 3,
    "long_pause": 4,
    "pause_supervisor": 3,
    "pause_both": 3,
    "kill_supervisor": 3,
    "stop_node": 3,
    "slow_node": 1,
    "slow_disk": 2,
    "hang_disk": 2,
    "slow_link": 1,
    "lossy": 2,
    "late_link": 4,
    "clock": 3,
    "full_disk": 1,
    "hand_over": 2,
    "transfer": 1,
    "wipe": 1,
}


@dataclass(frozen=True)
class JobsProfile(Profile):
    faults: dict[str, int] = field(default_factory=lambda: dict(ORDINARY))
    every_s: float = 3.0
    clients: int = 3
    think_s: float = 1.0
    recurring: int = 3  # of each client, about
    run_s: float = 6.0  # the longest runs take
    slots: tuple[int, ...] = (2, 4, 8)  # of a machine
    ttl_ms: tuple[int, ...] = (5_000, 5_000, 3_000)
    run_timeouts_ms: tuple[int, ...] = (1_000, 3_000, 8_000)
    workers: int = 0  # remote ones, beside the nodes
    worker_slots: tuple[int, ...] = (2, 4, 8)
    worker_ttl_ms: tuple[int, ...] = (5_000, 10_000, 3_000)
    asks: dict[str, int] = field(
        default_factory=dict
    )  # how often clients ask for what, where not as jobs.clients has it
    operation_jobs: int = 100  # that one step of it acts on, as in production
    slew: float = 0.0  # how far boot clocks may go wrong, as a part of time

    def draw(self, rng: random.Random) -> JobsProfile:
        drawn = super().draw(rng)
        assert isinstance(drawn, JobsProfile)
        return replace(drawn, options=self.options or draw_options(rng))


def draw_options(rng: random.Random) -> RaftOptions:
    """As in production, but for the log: short enough that who was away needs a snapshot now and then."""
    return replace(
        OPTIONS,
        keep_entries=rng.choice([10, 100, 5_000]),
        keep_bytes=rng.choice([16 * KIB, 4_000 * KIB]),
        memory_max_entries=rng.choice([40, 1_000]),
    )


LONG = (60_000,)

WORKERS = {
    "worker_kill": 4,
    "worker_power": 1,
    "worker_pause": 4,
    "worker_pause_supervisor": 2,
    "worker_kill_supervisor": 2,
    "worker_stop": 3,
    "worker_clock": 1,
    "worker_cut": 5,
    "worker_late": 4,
    "worker_lossy": 4,
}

# most runs are on remote workers
REMOTE = JobsProfile(swarm=False, every_s=4.0, clients=4, think_s=0.6, slots=(1,), workers=4, worker_slots=(4, 8))

PROFILES: dict[str, JobsProfile] = {
    "mixed": JobsProfile(),
    "calm": JobsProfile(faults={}, swarm=False),
    "workers": JobsProfile(
        faults={**dict.fromkeys(ORDINARY, 1), **WORKERS}, every_s=2.0, slots=(1, 2), clients=4, workers=4
    ),
    # made for single rules: see mutations.py
    "elections": JobsProfile(
        faults={"kill_leader": 3, "hand_over": 3, "isolate": 2, "pause_leader": 2, "halves": 1},
        swarm=False,
        every_s=4.0,
        clients=4,
        think_s=0.6,
    ),
    "bulk": JobsProfile(
        faults={"kill_leader": 3, "hand_over": 3, "pause_leader": 2},
        swarm=False,
        every_s=2.0,
        clients=4,
        think_s=0.6,
        asks={"bulk": 25},
        operation_jobs=1,
        latency_s=(0.02, 0.05),
    ),
    "calendars": JobsProfile(
        faults={"kill_leader": 1, "isolate": 1},
        swarm=False,
        every_s=5.0,
        clients=4,
        think_s=0.6,
        recurring=12,
        asks={"calendar": 25},
    ),
    "islands": JobsProfile(
        faults={"island": 3, "halves": 1}, swarm=False, every_s=5.0, run_s=25.0, run_timeouts_ms=LONG
    ),
    "stops": JobsProfile(
        faults={"long_pause": 3, "pause_both": 3, "pause_supervisor": 2, "isolate": 2, "kill_leader": 1},
        swarm=False,
        every_s=4.0,
        run_s=15.0,
        run_timeouts_ms=LONG,
    ),
    "restarts": JobsProfile(
        faults={"kill": 4, "kill_supervisor": 2, "power": 1, "stop_node": 3, "isolate": 2},
        swarm=False,
        every_s=2.0,
        run_s=8.0,
    ),
    "slewed": JobsProfile(
        faults={"isolate": 4, "halves": 2, "one_way": 3, "long_pause": 2, "late_link": 2},
        swarm=False,
        every_s=4.0,
        run_s=25.0,
        run_timeouts_ms=LONG,
        slew=0.099,
    ),
    "late-grants": JobsProfile(
        faults={"late_grants": 1},
        swarm=False,
        every_s=4.0,
        run_s=25.0,
        run_timeouts_ms=LONG,
        options=replace(OPTIONS, dead_peer_ms=30_000),
    ),
    "growing-delay": JobsProfile(
        faults={"growing_delay": 1},
        swarm=False,
        every_s=4.0,
        first_fault_s=4.0,
        run_s=40.0,
        run_timeouts_ms=LONG,
        options=replace(OPTIONS, dead_peer_ms=60_000, inflight_max_messages=5_000),
    ),
    "old-ends": JobsProfile(
        faults={"old_ends": 1}, swarm=False, every_s=3.0, first_fault_s=6.0, run_s=30.0, run_timeouts_ms=LONG
    ),
    "snapshots": JobsProfile(
        faults={"isolate": 4, "long_pause": 2, "reset": 2, "slow_disk": 2},
        swarm=False,
        every_s=3.0,
        options=replace(OPTIONS, keep_entries=2, memory_max_entries=4),
    ),
    "handed-back": JobsProfile(
        faults={"stop_node": 1},
        swarm=False,
        every_s=1.5,
        clients=6,
        think_s=0.3,
        slots=(8,),
        latency_s=(0.03, 0.08),
    ),
    "narrow": JobsProfile(
        faults={"kill_leader": 1, "isolate": 1}, swarm=False, every_s=10.0, clients=5, think_s=0.4, slots=(1, 2)
    ),
    "worker-elections": replace(
        REMOTE, faults={"kill_leader": 3, "hand_over": 3, "isolate": 2, "pause_leader": 2, "worker_cut": 2}
    ),
    "worker-stops": replace(
        REMOTE,
        faults={"worker_pause": 4, "worker_cut": 4, "worker_pause_supervisor": 1, "kill_leader": 1},
        every_s=2.0,
        run_s=15.0,
        run_timeouts_ms=LONG,
    ),
    "worker-restarts": replace(
        REMOTE,
        faults={
            "worker_kill": 4,
            "worker_kill_supervisor": 2,
            "worker_power": 1,
            "worker_stop": 3,
            "worker_cut": 3,
            "worker_cut_and_kill": 4,
        },
        every_s=1.0,
        run_s=8.0,
    ),
    "worker-leases": replace(
        REMOTE,
        faults={"worker_cut_for_a_lease": 1},
        every_s=2.0,
        run_s=25.0,
        run_timeouts_ms=LONG,
        worker_ttl_ms=(5_000,),
    ),
    "worker-openings": replace(
        REMOTE,
        faults={"worker_kill": 4, "worker_lossy": 3, "worker_cut": 1},
        every_s=1.0,
        run_s=8.0,
    ),
    "worker-repeats": replace(
        REMOTE, faults={"worker_lossy": 1}, every_s=1.0, first_fault_s=3.0, think_s=0.3, run_s=8.0
    ),
    "worker-slewed": replace(
        REMOTE,
        faults={"worker_cut": 4, "worker_pause": 2, "worker_late": 2},
        every_s=2.0,
        run_s=25.0,
        run_timeouts_ms=LONG,
        slew=0.099,
    ),
    "worker-late-grants": replace(
        REMOTE, faults={"worker_late_grants": 1}, run_s=25.0, run_timeouts_ms=LONG, worker_ttl_ms=(10_000,)
    ),
    "worker-islands": replace(
        REMOTE, faults={"worker_island": 1}, every_s=5.0, run_s=25.0, run_timeouts_ms=LONG, worker_ttl_ms=(5_000,)
    ),
    "members": JobsProfile(faults={**ORDINARY, "add": 4, "remove": 4, "wipe": 3}),
}
