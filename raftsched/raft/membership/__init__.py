"""The members of the cluster: who they are, how a cluster forms, how nodes come and go.

`configuration` holds the members as the log says them, `changes` is the leader's part in changing them. `formation` is
this node's identity (its disk, the peers' disks) and decides whom it lets in; `forming` runs the two steps by which a
new cluster agrees on its members; `incarnations` recognises a disk that went back to an earlier state. `peer_set` ties
these to the connections, `join_requests` remembers nodes that ask to be let in, `requests` are this node's own requests
to the leader, and `admission` explains to an operator why a node is not let in.
"""
