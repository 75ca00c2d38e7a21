"""Does consensus: the only room that imports pysyncobj.

`Raft` (facade.py) takes encoded commands on any node, has a majority write them to their disks in one order, and
returns what applying them on this node answered. Nothing that depends on a write batch of the store leaves the node
before that batch is durable, with one exception: a caller may learn earlier that its command was applied, because a
majority has it on disk and it would be applied the same way again.

Raft itself is implemented here, in `consensus/`: engine.py (elections, following), leadership.py (leading) and
replication.py (log matching, progress of each follower). pysyncobj still gives the variables of a member (role, term,
vote, leader, connected peers, next and match indices, election deadline) behind consensus/library.py, which overrides
every path of the library that acts on them. A reader who looks for the algorithm does not need the library's source.

The rooms: `consensus/` as above; `membership/` who the members are and how they change; `proposals/` the way of a
command into the log; `snapshots/` how a follower that is too far behind gets a whole state; `transport/` connections
between members. At this level: `facade` (event loop, threads, TCP around the replica), `replica` (one member without
any of these; the simulator drives it), `ports` (everything that consensus emits), `codec` (messages), `options`
(limits), `guards` (each rule's switch), `measures` (counts for those who watch).
"""

from raftsched.raft.facade import Change, Raft
from raftsched.raft.guards import ALL, Guards
from raftsched.raft.measures import Measured, Times
from raftsched.raft.options import RaftOptions, elections
from raftsched.raft.proposals.proposer import settle
from raftsched.raft.status import JoinRequest, MemberStatus, PeerStatus

__all__ = [
    "ALL",
    "Change",
    "Guards",
    "JoinRequest",
    "Measured",
    "MemberStatus",
    "PeerStatus",
    "Raft",
    "RaftOptions",
    "Times",
    "elections",
    "settle",
]
