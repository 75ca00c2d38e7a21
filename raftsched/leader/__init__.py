"""Does the leader's duties: to fire, to assign, to end leases, to prune.

One loop (`leader`) drives the state of one leadership (`state`): a cache of the replicated tables that is built when
the leadership's opening entry is applied and dropped at step-down. Each duty is a module with `tick(now_ms)`, which
does what is due and returns when it wants to be called again. Those of times are in `due/`, those that give runs to
nodes in `dispatch/`, those of leases, clocks and handing over in `liveness/`; `pruning`, `bulk_steps` and `level` stand
here. Nothing here writes; proposals go through `pacing`."""
