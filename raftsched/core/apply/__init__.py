"""apply: one committed entry into the tables. Pure, deterministic, total.

It returns `Rejected` for what cannot be done and never raises for it; anything raised here is a bug, and the node
stops rather than diverge from the others. Commands are handled by family: cluster, nodes, queues, jobs,
firing, attempts, instances, retention, access.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raftsched.core import commands as c
from raftsched.core import webhooks as w
from raftsched.core.actions import Action
from raftsched.core.apply import (
    access,
    attempts,
    calendars,
    checks,
    cluster,
    firing,
    instances,
    jobs,
    keys,
    manual,
    namespaces,
    nodes,
    operations,
    queues,
    retention,
    secrets,
    webhooks,
)
from raftsched.core.apply.tx import NOBODY, Tx
from raftsched.core.calendars import DeleteCalendar, OweAnew, PutCalendar
from raftsched.core.commands import (
    UNDECODABLE,
    UNKNOWN,
    Accepted,
    Answer,
    By,
    Keyed,
    Note,
    Rejected,
    Unknown,
    asked,
    decode,
)
from raftsched.core.entry import BatchResult, EntryResult, decode_entry
from raftsched.core.namespaces import DeleteNamespace, PutNamespace
from raftsched.core.origins import claim
from raftsched.core.secrets import DeleteSecret, PutSecret
from raftsched.core.tables import View


def _unknown(tx: Tx, c: Unknown) -> Answer:
    return UNKNOWN


def _keyed(tx: Tx, keyed: Keyed) -> Answer:
    try:
        command = decode(keyed.command)
    except UNDECODABLE:
        return UNKNOWN
    if isinstance(command, (Keyed, Note, By)):
        return Rejected("invalid-parameter", "A command is done under one key.")
    return keys.once(tx, keyed.key, keyed.digest, lambda: _HANDLERS[type(command)](tx, command))


_NO_TOKEN = Rejected("unauthorized", "Requests need a token since a moment ago.")


def _by(tx: Tx, c: By) -> Answer:
    """A command for somebody: what it makes is his, and it is noted once it is done."""
    try:
        command = asked(c)
    except UNDECODABLE:
        return UNKNOWN
    if isinstance(command, By):
        return UNKNOWN  # one caller asks for it, who is said first
    if c.operation and not c.name and tx.audit.access.required:
        return _NO_TOKEN  # let pass by a node that did not know yet
    tx.by, tx.repeated = c, False
    answer = _HANDLERS[type(command)](tx, command)
    tx.by = NOBODY
    if isinstance(answer, Accepted) and not tx.repeated:
        tx.audit.done(c, decode(command.command) if isinstance(command, Keyed) else command, answer)
    return answer


_HANDLERS: dict[type, Callable[[Tx, Any], Answer]] = {
    c.Form: cluster.form,
    c.OpenLeadership: cluster.open_leadership,
    c.Barrier: cluster.barrier,
    c.PutSettings: cluster.put_settings,
    c.PauseCluster: nodes.pause_cluster,
    c.PutNodeRule: nodes.put_node_rule,
    c.OpenSession: cluster.open_session,
    c.EndSession: cluster.end_session,
    c.CloseSession: cluster.close_session,
    c.CreateJob: jobs.create_job,
    c.EditJob: jobs.edit_job,
    c.SetJobState: jobs.set_job_state,
    c.DeleteJob: jobs.delete_job,
    c.RunNow: manual.run_now,
    c.SkipNext: manual.skip_next,
    c.Backfill: manual.backfill,
    c.ScheduleJob: firing.schedule_job,
    c.Fire: firing.fire,
    c.Assign: attempts.assign,
    c.Wake: attempts.wake,
    c.Prune: retention.prune,
    c.Started: attempts.started,
    c.Ended: attempts.ended,
    c.LoseAttempt: attempts.lose_one,
    c.Kill: instances.kill,
    c.Rerun: instances.rerun,
    c.Requeue: instances.requeue,
    c.Discard: instances.discard,
    c.ReportConditions: checks.report_conditions,
    c.Recheck: checks.recheck,
    c.PutQueue: queues.put_queue,
    c.DeleteQueue: queues.delete_queue,
    c.NoteUnplaceable: queues.note_unplaceable,
    c.SortReady: queues.sort_ready,
    PutCalendar: calendars.put_calendar,
    DeleteCalendar: calendars.delete_calendar,
    OweAnew: calendars.owe_anew,
    c.StartOperation: operations.start_operation,
    c.StepOperation: operations.step_operation,
    c.CancelOperation: operations.cancel_operation,
    c.Keyed: _keyed,
    c.Note: keys.note,
    c.By: _by,
    c.CreateToken: access.create_token,
    c.RevokeToken: access.revoke_token,
    c.SetAccess: access.set_access,
    c.SetOidc: access.set_oidc,
    c.SeedTokens: access.seed_tokens,
    c.ForgetSecrets: access.forget_secrets,
    PutNamespace: namespaces.put_namespace,
    DeleteNamespace: namespaces.delete_namespace,
    w.PutWebhook: webhooks.put_webhook,
    w.DeleteWebhook: webhooks.delete_webhook,
    w.RotateSecret: webhooks.rotate_secret,
    w.ResealWebhook: webhooks.reseal_webhook,
    w.TestWebhook: webhooks.send_test,
    PutSecret: secrets.put_secret,
    DeleteSecret: secrets.delete_secret,
    Unknown: _unknown,
}


class Applier:
    """Applies entries of one turn to one view; the counters are read once and written by `close`."""

    def __init__(self, view: View) -> None:
        self._tx = Tx(view)

    def entry(self, index: int, term: int, data: bytes) -> EntryResult:
        """An empty entry applies as nothing, and so does what is none. Raises NewerLog."""
        tx = self._tx
        actions: list[Action] = []
        tx.actions = actions
        results: list[BatchResult] = []
        entry = decode_entry(data) if data else None
        if entry is not None:
            tx.advance(entry.now_ms)
            tx.index, tx.term = index, term
            if entry.members is not None:
                cluster.configure(tx, index, entry.members)
            for batch in entry.batches:
                if claim(tx.view, batch.origin, batch.seq, tx.now):
                    answers = [_HANDLERS[type(command)](tx, command) for command in batch.commands]
                    results.append(BatchResult(batch.origin, batch.seq, answers))
                else:
                    results.append(BatchResult(batch.origin, batch.seq, None))
            tx.events.close(index, actions)
            tx.audit.close(index)
        return EntryResult(index, term, results, actions)

    def close(self) -> None:
        self._tx.save()


def apply_entry(view: View, index: int, term: int, data: bytes) -> EntryResult:
    """One entry by itself."""
    applier = Applier(view)
    result = applier.entry(index, term, data)
    applier.close()
    return result
