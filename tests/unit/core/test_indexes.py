"""Index rows follow from the rows that they are about, and one module writes them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from raftsched.core import apply, rows
from raftsched.core.apply.indexes import indexed, reindex
from raftsched.core.apply.tx import Tx
from raftsched.core.model import Instance, InstanceState, Job, JobState, Policy, Trigger, TriggerKind
from raftsched.core.tables import LANE_NOBODY, Table
from tests.support.memory_view import T0, MemoryView

MODULES = sorted(Path(apply.__file__).parent.glob("*.py"))
WRITTEN_BY_INDEXES = {"DUE", "READY", "TIMERS", "HELD", "DEAD", "PURGE", "DUE_LATER"}
WAITING = {"READY": 1, "TIMERS": 1}


def written(path: Path) -> set[str]:
    """Returns the names of the tables that the module puts rows into."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "put"
            and node.args
        ):
            table = node.args[0]
            found.add(table.attr if isinstance(table, ast.Attribute) else getattr(table, "id", ""))
    return found


@pytest.mark.parametrize("path", [p for p in MODULES if p.name != "indexes.py"], ids=lambda path: path.name)
def test_nobody_else_writes_them(path: Path) -> None:
    assert not written(path) & WRITTEN_BY_INDEXES


def an_instance() -> Instance:
    return Instance(
        job_id=5,
        nominal_at_ms=T0,
        request=0,
        state=InstanceState.WAITING,
        job_revision=1,
        priority=5,
        created_at_ms=T0,
        modified_at_ms=T0,
        ready_at_ms=T0,
        lane=3,
        score_ms=T0,
    )


def sizes(view: MemoryView) -> dict[str, int]:
    dump = view.dump()
    return {name: len(dump[name]) for name in sorted(WRITTEN_BY_INDEXES) if dump[name]}


def change(view: MemoryView, **fields: object) -> dict[str, int]:
    """Stores the instance with these fields changed, in an entry of its own."""
    tx = Tx(view)
    instance = tx.instance(an_instance().key) or an_instance()
    for name, value in fields.items():
        setattr(instance, name, value)
    tx.put_instance(instance)
    tx.save()
    return sizes(view)


def test_the_rows_of_an_instance_follow_its_fields() -> None:
    view = MemoryView()
    assert change(view, wake_at_ms=T0 + 9) == WAITING
    assert change(view, lane=4) == WAITING
    assert change(view, held=True) == {"HELD": 1, "TIMERS": 1}
    assert change(view, held=False, checking=True) == {"TIMERS": 1}
    assert change(view, checking=False, wake_at_ms=None) == {"READY": 1}
    assert change(view, state=InstanceState.RUNNING) == {}
    assert change(view, state=InstanceState.FAILED, dead_at_ms=T0, purge_at_ms=T0 + 5) == {"DEAD": 1, "PURGE": 1}
    assert rows.read_meta(view).dead_letters == 1
    tx = Tx(view)
    instance = tx.instance(an_instance().key)
    assert instance is not None
    tx.drop_instance(instance)
    tx.save()
    assert sizes(view) == {}
    assert rows.read_meta(view).dead_letters == 0


def test_what_no_node_can_take_is_counted() -> None:
    view = MemoryView()
    change(view, lane=LANE_NOBODY)
    assert rows.read_meta(view).unplaceable == 1
    change(view, lane=0)
    assert rows.read_meta(view).unplaceable == 0


def test_index_rows_may_be_needed_before_the_instance_is_stored() -> None:
    view = MemoryView()
    change(view, held=True)
    tx = Tx(view)
    instance = tx.instance(an_instance().key)
    assert instance is not None
    instance.held = False
    instance.state = InstanceState.KILLED
    reindex(tx, instance)
    assert sizes(view) == {}
    assert tx.indexed[instance.key] == (InstanceState.WAITING, indexed(instance)[1])  # the event is still to come


def test_the_rows_of_a_job_follow_its_fields() -> None:
    view = MemoryView()
    job = Job(
        id=5,
        namespace="default",
        name=None,
        revision=1,
        state=JobState.SCHEDULED,
        policy=Policy(trigger=Trigger(kind=TriggerKind.EVERY, period_ms=1_000)),
        body=b"{}",
        created_at_ms=T0,
        modified_at_ms=T0,
        anchor_at_ms=T0,
        nominal_at_ms=T0,
        fire_at_ms=T0,
    )
    for fire_at_ms, purge_at_ms, expected in (
        (T0, None, {"DUE": 1}),
        (T0 + 7, T0, {"DUE": 1, "PURGE": 1}),
        (None, None, {}),
    ):
        tx = Tx(view)
        row = tx.job(5) or job
        row.fire_at_ms, row.purge_at_ms = fire_at_ms, purge_at_ms
        tx.put_job(row)
        tx.save()
        assert sizes(view) == expected
        assert view.get(Table.JOBS, rows.JOBS.key(5)) is not None
