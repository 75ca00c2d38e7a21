"""Consensus: the only room that imports pysyncobj.

`Raft` takes encoded commands on any node, has a majority write them to their disks in one order, and answers with what
their apply returned on this node. Nothing that depends on a turn of the store leaves before that turn is durable.
"""

from raftsched.raft.facade import PeerStatus, Raft
from raftsched.raft.guards import ALL, Guards
from raftsched.raft.options import RaftOptions

__all__ = ["ALL", "Guards", "PeerStatus", "Raft", "RaftOptions"]
