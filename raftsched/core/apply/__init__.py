"""apply: one committed entry into the tables. Pure, deterministic, total.

It returns `Rejected` for what cannot be done and never raises for it; anything raised here is a bug, and the node
stops rather than diverge from the others. Commands are handled by family: cluster, jobs, firing, attempts,
instances, retention.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raftsched.core import commands as c
from raftsched.core.apply import attempts, cluster, firing, instances, jobs, retention
from raftsched.core.apply.tx import Tx
from raftsched.core.commands import Action, Answer
from raftsched.core.entry import BatchResult, EntryResult, decode_entry
from raftsched.core.origins import claim
from raftsched.core.tables import View

_HANDLERS: dict[type, Callable[[Tx, Any], Answer]] = {
    c.Form: cluster.form,
    c.OpenLeadership: cluster.open_leadership,
    c.Barrier: cluster.barrier,
    c.PutSettings: cluster.put_settings,
    c.OpenSession: cluster.open_session,
    c.EndSession: cluster.end_session,
    c.CreateJob: jobs.create_job,
    c.EditJob: jobs.edit_job,
    c.SetJobState: jobs.set_job_state,
    c.DeleteJob: jobs.delete_job,
    c.RunNow: firing.run_now,
    c.ScheduleJob: firing.schedule_job,
    c.Fire: firing.fire,
    c.Assign: attempts.assign,
    c.Wake: attempts.wake,
    c.Prune: retention.prune,
    c.Started: attempts.started,
    c.Ended: attempts.ended,
    c.Kill: instances.kill,
    c.Rerun: instances.rerun,
}


class Applier:
    """Applies entries of one turn to one view; the counters are read once and written by `close`."""

    def __init__(self, view: View) -> None:
        self._tx = Tx(view)

    def entry(self, index: int, term: int, data: bytes) -> EntryResult:
        """An empty entry applies as nothing."""
        tx = self._tx
        actions: list[Action] = []
        tx.actions = actions
        results: list[BatchResult] = []
        if data:
            entry = decode_entry(data)
            tx.advance(entry.now_ms)
            for batch in entry.batches:
                if claim(tx.view, batch.origin, batch.seq, tx.now):
                    answers = [_HANDLERS[type(command)](tx, command) for command in batch.commands]
                    results.append(BatchResult(batch.origin, batch.seq, answers))
                else:
                    results.append(BatchResult(batch.origin, batch.seq, None))
        return EntryResult(index, term, results, actions)

    def close(self) -> None:
        self._tx.save_meta()


def apply_entry(view: View, index: int, term: int, data: bytes) -> EntryResult:
    """One entry by itself."""
    applier = Applier(view)
    result = applier.entry(index, term, data)
    applier.close()
    return result
