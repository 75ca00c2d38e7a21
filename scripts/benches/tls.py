"""What TLS costs creates: two clusters of three nodes, one with it and one without, measured in turns.

`--at api`: on the API, while the nodes of both speak TLS among themselves. `--at raft`: among the nodes, against
--insecure-raft.

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
AT = ("api", "raft")


async def bench_tls(at: str, plain: Cluster, sealed: Cluster, rounds: int, seconds: float) -> None:
    reached: dict[bool, list[float]] = {False: [], True: []}
    both = ((False, plain), (True, sealed))
    for number in range(rounds):
        for tls, cluster in both if number % 2 == 0 else both[::-1]:
            found = await single_rate(cluster, cluster.leader(), IN_FLIGHT, seconds)
            emit("create-tls", sealed=at, tls=tls, in_flight=IN_FLIGHT, **found)
            reached[tls].append(found["per_second"])
    share = median(reached[True]) / median(reached[False])
    emit("tls-share", sealed=at, in_flight=IN_FLIGHT, rounds=rounds, share=share)
