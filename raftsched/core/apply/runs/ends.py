"""Notes the ends of instances that jobs follow, and keeps the rows of workflows."""

from __future__ import annotations

from raftsched.core.apply.tx import Tx
from raftsched.core.model import Instance, Job, JobState
from raftsched.core.rows import WORKFLOWS
from raftsched.core.rules.selection import is_followed
from raftsched.core.subjects.workflow import Workflow, member_key, member_value
from raftsched.core.tables import Table


def tell_at_the_end(tx: Tx, job: Job, instance: Instance) -> None:
    """Has the jobs told that follow an instance which has come to its end: when all commands of the entry are done, so
    that every row is stored then. A job that is deleted starts nothing. The caller stores the instance."""
    if job.name is None or job.state is JobState.DELETED:
        return
    if is_followed(tx.view, f"{job.namespace}/{job.name}"):
        instance.telling = 0
        tx.ended.append(instance.key)


def enter(tx: Tx, instance: Instance) -> bytes:
    """Returns the root of the instance's workflow, which it becomes itself when it is of none yet. The caller stores
    it."""
    if instance.root is None:
        instance.root = instance.key
        _open(tx, instance)
    return instance.root


def workflow_of(tx: Tx, root: bytes) -> Workflow:
    """Returns what is said of a workflow, which is made when it is not there. Changes have to be put."""
    workflow = WORKFLOWS.get(tx.view, root)
    if workflow is not None:
        return workflow
    first = tx.instance(root)
    if first is not None and first.root is None:
        first.root = root
        tx.put_instance(first)
        return _open(tx, first)
    return _put(tx, root)


def _open(tx: Tx, root: Instance) -> Workflow:
    key = root.key
    tx.view.put(Table.WORKFLOWS, member_key(key, key), member_value(root))
    return _put(tx, key)


def _put(tx: Tx, root: bytes) -> Workflow:
    workflow = Workflow(created_at_ms=tx.now)
    WORKFLOWS.put(tx.view, workflow, root)
    return workflow
