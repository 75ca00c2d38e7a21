"""Models of what keeps two runs of a remote worker apart, searched from end to end.

`lease.py` has the lease over time, `sessions.py` sessions, tokens and reports over nodes that are behind. Each rule is
a switch: with all of them nothing is found, without any one of them there is a shortest example. What the product does
is in raftsched/leader/liveness/leases.py, core/apply/cluster/membership.py and raftsched/remote; nothing here uses its
code. `python -m tests.model` searches further than the tests do, and prints the examples.
"""
