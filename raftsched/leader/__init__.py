"""What only the leader does: wheel, firing, dispatcher, leases, pruner.

All of it is a cache of the replicated tables: built when a leadership's opening entry is applied, dropped at step-down.
Nothing here writes; it proposes.
"""
