"""Brings commands into the log, and their answers back.

`proposer` gathers this node's calls into batches and answers them when they are applied here; `forwarding` brings
batches to the leader; `queue` is the leader's queue of them, of which the replica makes an entry per write batch.
`barrier` and `committed` are the two ways to find out what a read has to wait for.
"""
