"""Makes remote workers: processes that run jobs without taking part in Raft. What they and the nodes say to
each other over HTTP is in `raftsched.surface.worker_sessions`; `gateway` is the node's side, `polls` the worker's."""
