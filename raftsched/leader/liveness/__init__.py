"""Liveness: leases of workers, the state of nodes, and whether this node should go on leading."""
