"""The worker of a node: runs what is assigned to it.

The node process decides (worker.py) and asks (runner.py), but never runs a job itself. A small supervisor process
(supervisor.py) forks one keeper (keeper.py) around everything that runs; a keeper ends its whole process tree on
timeout, on request, when supervisor or node died, and before the node's lease does, which it reads from shared memory
(lease.py) so that neither of the two has to be awake. A sentinel (sentinel.py) above the supervisor ends what is left
when keeper and supervisor are themselves killed or stopped. What runs is made by executors/; what it printed is kept by
output.py.

The modules that the supervisor loads import the standard library and msgspec only: it has to start fast and fork
cheap.
"""
