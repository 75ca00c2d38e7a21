"""Rules that have no switch, each taken out by a small change of the source, and who misses it: scripts/mutate.

A mutant is a copy of the tree with one such change. Tests and the simulator run in it as they are; one of them must
fail. A rule with a switch (raftsched/raft/guards.py) is looked after by tests/sim/mutations.py instead.
"""
