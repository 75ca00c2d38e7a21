"""The cluster as its users see it, on virtual time: Raft, leader and workers of every machine, and what they run.

The Raft simulator (tests.sim) with the real Leader and Worker in each process. What is made up stops at the worker's
runner: supervisors and keepers (keepers.py, runner.py) are processes of their own that go on when the node is stopped
or dead. truth.py knows what really runs, ledger.py what the log says, dues.py what was owed; none of them asks the
code that is tested. `python -m tests.sim --jobs --seed N -v` replays a seed, `scripts/simulate --jobs` runs many.
"""
