"""What TLS on the API costs creates: two clusters of three nodes, one with it and one without, measured in turns.

`create` with 256 connections in closed loops through the leader, as `create` does it. `share` is what the cluster with
TLS reached of what the one without did, of the medians of all rounds. Client and nodes share the machine: the client
pays for TLS, too. Both clusters run all the time; the one that is not asked is idle.
"""

from __future__ import annotations

from statistics import median

from scripts.benches.create import single_rate
from scripts.benches.figures import emit
from tests.support.cluster import Cluster

IN_FLIGHT = 256


async def bench_tls(plain: Cluster, sealed: Cluster, rounds: int, seconds: float) -> None:
    reached: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(rounds):
        for tls, cluster in ((False, plain), (True, sealed)):
            found = await single_rate(cluster, cluster.leader(), IN_FLIGHT, seconds)
            emit("create-tls", tls=tls, in_flight=IN_FLIGHT, **found)
            reached[tls].append(found["per_second"])
    emit("tls-share", in_flight=IN_FLIGHT, rounds=rounds, share=median(reached[True]) / median(reached[False]))
