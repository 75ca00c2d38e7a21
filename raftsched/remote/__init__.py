"""Makes remote workers: processes that run jobs without taking part in Raft. `protocol` is what they and the nodes say
to each other over HTTP, `gateway` the node's side, `agent` the worker's."""
