"""Consensus: the only room that imports pysyncobj.

`Raft` takes encoded commands on any node, has a majority write them to their disks in one order, and answers with what
their apply returned on this node. Nothing that depends on a turn of the store leaves before that turn is durable.
(That an entry was applied is no such thing to who merely asked for it: a majority has it, and it is applied again.)
"""

from raftsched.raft.facade import Change, Raft
from raftsched.raft.guards import ALL, Guards
from raftsched.raft.options import RaftOptions
from raftsched.raft.proposals import settle
from raftsched.raft.status import Knock, MemberStatus, PeerStatus

__all__ = ["ALL", "Change", "Guards", "Knock", "MemberStatus", "PeerStatus", "Raft", "RaftOptions", "settle"]
