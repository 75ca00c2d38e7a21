"""A cluster in one process on virtual time: the real code of every node, a made-up network, disks, clocks and faults.

One seed is one run, byte for byte. `python -m tests.sim --seed N -v` replays it with a trace; `scripts/simulate` runs
many. What runs is raft.facade.Raft with all that is behind it over store.Store; what is made up stops at the edges: the
event loop (loop.py), TCP (network.py), how long a disk takes (disk.py), clocks (clocks.py). faults.py breaks things,
clients.py asks for writes, checks.py looks after every step whether a promise was broken.
"""
