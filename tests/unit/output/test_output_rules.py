"""What a node keeps of output is what the tables say, and no more than its own options allow."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from raftsched.bounds import DAY_MS, HOUR_MS
from raftsched.cluster_settings import Settings
from raftsched.core import commands as c
from raftsched.core.actions import NamespaceChanged, SettingsChanged
from raftsched.core.rules.kept_output import Kept, kept_of
from raftsched.core.subjects.namespace import DeleteNamespace, PutNamespace
from raftsched.core.tables import ReadView, Table
from raftsched.output.format.segments import owner_of
from raftsched.output.keeping.output_rules import APART, OutputRules
from tests.support.memory_view import MemoryView, World

KIB, MIB = 1 << 10, 1 << 20


class Tables(World):
    def __init__(self) -> None:
        super().__init__(MemoryView())
        self.reads = 0

    @contextlib.contextmanager
    def read(self) -> Iterator[ReadView]:
        self.reads += 1
        yield self.view

    def say(self, name: str, **limits: int) -> None:
        self.ok(PutNamespace(name, b"{}", **limits))


def test_what_the_tables_say_now() -> None:
    tables = Tables()
    share_of = OutputRules(tables.read).share_of
    assert (share_of("billing"), share_of("")) == (None, None)
    tables.say("billing", output_bytes=5 * MIB)
    assert (share_of("billing"), share_of("other")) == (5 * MIB, None)
    tables.say("billing", output_keep_ms=DAY_MS)
    assert share_of("billing") == APART
    tables.say("billing", output_keep_ms=DAY_MS, output_bytes=5 * MIB)
    assert share_of("billing") == 5 * MIB
    tables.say("billing")
    assert share_of("billing") is None


def test_an_end_is_told_also_where_the_tables_are_closed() -> None:
    def read() -> contextlib.AbstractContextManager[ReadView]:
        raise RuntimeError("the store is closed")

    assert OutputRules(read).share_of("billing") is None


def test_a_namespace_speaks_in_place_of_the_settings() -> None:
    tables = Tables()
    assert kept_of(tables.view, "") == kept_of(tables.view, "billing") == Kept(MIB, None, 7 * DAY_MS, None)
    tables.say("billing", output_max_bytes=64 * KIB)
    tables.say("audit", output_keep_ms=90 * DAY_MS)
    tables.ok(c.PutSettings(Settings(output_max_bytes=8 * KIB, output_keep_ms=HOUR_MS)))
    assert kept_of(tables.view, "billing") == Kept(64 * KIB, "billing", HOUR_MS, None)
    assert kept_of(tables.view, "audit") == Kept(8 * KIB, None, 90 * DAY_MS, "audit")
    tables.ok(DeleteNamespace("audit"))
    assert kept_of(tables.view, "audit") == kept_of(tables.view, "other") == Kept(8 * KIB, None, HOUR_MS, None)


def test_a_change_is_told_to_those_who_remember() -> None:
    tables = Tables()
    rules = OutputRules(tables.read)
    assert [rules.max_of(tables.view, name) for name in ("billing", "other")] == [MIB, MIB]
    tables.say("billing", output_max_bytes=64 * KIB)
    assert tables.actions[-1:] == [NamespaceChanged("billing")]
    assert rules.max_of(tables.view, "billing") == MIB, "it is remembered"
    rules.forget()
    assert [rules.max_of(tables.view, name) for name in ("billing", "other")] == [64 * KIB, MIB]
    tables.ok(c.PutSettings(Settings(output_max_bytes=8 * KIB)))
    assert tables.actions[-1:] == [SettingsChanged(Settings(output_max_bytes=8 * KIB))]
    tables.ok(DeleteNamespace("billing"))
    assert tables.actions[-1:] == [NamespaceChanged("billing")]
    rules.forget()
    assert rules.max_of(tables.view, "billing") == 8 * KIB


def test_a_node_keeps_no_more_and_no_longer_than_its_options_say() -> None:
    tables = Tables()
    tables.say("billing", output_max_bytes=4 * KIB, output_keep_ms=HOUR_MS)
    tables.say("audit", output_max_bytes=64 * MIB, output_keep_ms=90 * DAY_MS)
    rules = OutputRules(tables.read, most_bytes=64 * KIB, keep_most_ms=DAY_MS)
    assert [rules.max_of(tables.view, name) for name in ("billing", "audit", "")] == [4 * KIB, 64 * KIB, 64 * KIB]
    billing, audit = owner_of("billing"), owner_of("audit")
    assert rules.ages([billing, audit]) == (DAY_MS, {billing: HOUR_MS, audit: DAY_MS})


def test_ages_are_those_of_the_namespaces_whose_segments_there_are() -> None:
    tables = Tables()
    tables.say("billing", output_keep_ms=HOUR_MS)
    tables.say("sized", output_bytes=MIB)
    billing, sized, gone, late = map(owner_of, ("billing", "sized", "gone", "late"))
    rules = OutputRules(tables.read)
    assert rules.ages([]) == (7 * DAY_MS, {})
    assert rules.ages([billing, sized, gone, late]) == (7 * DAY_MS, {billing: HOUR_MS})
    tables.say("billing", output_keep_ms=2 * HOUR_MS)
    tables.say("late", output_keep_ms=DAY_MS)
    assert rules.share_of("late") == APART  # it has output now
    assert rules.ages([billing, sized, gone, late])[1] == {billing: 2 * HOUR_MS, late: DAY_MS}


def test_a_namespace_that_another_thread_does_not_see_yet_is_not_taken_for_none() -> None:
    tables, published = Tables(), Tables()
    late = owner_of("late")
    seen = published

    def read() -> contextlib.AbstractContextManager[ReadView]:
        return seen.read()

    rules = OutputRules(read)
    tables.say("late", output_keep_ms=HOUR_MS)
    rules.forget()
    assert rules.ages_elsewhere([late])[1] == {}, "of what was published it is true"
    seen = tables
    assert rules.ages_elsewhere([late])[1] == {late: HOUR_MS}


def test_that_there_is_no_such_namespace_is_remembered_until_something_changes() -> None:
    tables = Tables()
    rules = OutputRules(tables.read)
    scans: list[Table] = []
    scan = tables.view.scan

    def counted(table: Table, *args: bytes, **options: bool) -> Iterator[tuple[bytes, bytes]]:
        scans.append(table)
        return scan(table, *args, **options)  # type: ignore[arg-type]

    tables.view.scan = counted  # type: ignore[method-assign, assignment]
    for _ in range(3):
        assert rules.copies([owner_of("gone")])[1] == {}
    assert scans == [Table.NAMESPACES]
    tables.say("gone", output_copies=2)
    assert rules.copies([owner_of("gone")])[1] == {owner_of("gone"): 2}


def test_the_share_of_a_run_that_has_started_is_known_whatever_another_thread_sees() -> None:
    """The end is written in a thread, which may not see the namespace yet."""
    tables, published = Tables(), Tables()
    rules = OutputRules(published.read)
    tables.say("fresh", output_copies=2)
    assert rules.max_of(tables.view, "fresh") == MIB
    assert rules.share_of("fresh") == APART
    tables.say("fresh")
    rules.forget()
    rules.max_of(tables.view, "fresh")
    assert rules.share_of("fresh") is None


def test_where_copies_are_wanted() -> None:
    tables = Tables()
    rules = OutputRules(tables.read)
    billing, audit = owner_of("billing"), owner_of("audit")
    assert rules.copies({"", billing, audit}) == (1, {})
    tables.say("billing", output_copies=2)
    tables.say("audit", output_keep_ms=DAY_MS)
    assert (rules.share_of("billing"), rules.share_of("audit")) == (APART, APART), "in segments of their own"
    assert rules.copies({"", billing, audit}) == (1, {billing: 2})
    tables.ok(c.PutSettings(Settings(output_copies=2)))
    tables.say("billing", output_copies=1)
    assert rules.copies({"", billing, audit}) == (2, {billing: 1})
    tables.say("billing")
    assert rules.copies({billing}) == (2, {})


def test_the_share_of_copies_is_that_of_their_namespace() -> None:
    tables = Tables()
    rules = OutputRules(tables.read)
    owner = owner_of("billing")
    assert rules.share_of_owner(owner) is None, "it came from a node that knows more"
    tables.say("billing", output_bytes=5 * MIB)
    rules.forget()
    assert rules.share_of_owner(owner) == 5 * MIB
    assert rules.share_of_owner("") is None
