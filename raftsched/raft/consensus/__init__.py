"""Raft itself: elections, the log, replication, as Ongaro's thesis has them.

`engine` elects and follows, `leadership` leads, `replication` compares logs and remembers each follower's progress,
`journal` is the log in front of the store, `heartbeat` knows since when a majority follows. No sockets and no threads:
calls come in, and what the engine emits goes to its Host. `library` is all that is used of pysyncobj, and
`library_check` refuses to start on another release of it.
"""
