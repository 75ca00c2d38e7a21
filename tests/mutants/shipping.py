"""Rules of raftsched/shipping, by which each line reaches the receiver, and none that may be taken back."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_TESTS = ("unit/output/test_shipping.py",)

SHIPPING = (
    Mutant(
        "shipped_before_it_is_flushed",
        "only what is on the disk for good is shipped: what a loss of power takes back was never printed",
        "output/keeping/store.py",
        "        os.fdatasync(at.fd)\n        self._table.segments[at.number].synced = at.end\n",
        "        self._table.segments[at.number].synced = at.end\n        os.fdatasync(at.fd)\n",
        _TESTS,
        None,
    ),
    Mutant(
        "mark_moves_before_it_is_taken",
        "the mark moves only after the receiver took it",
        "output/receivers/shipper.py",
        "        await self._receiver.take(piece.lines)\n",
        "        self._unshipped.taken(piece)\n        await self._receiver.take(piece.lines)\n",
        _TESTS,
        None,
    ),
    Mutant(
        "other_namespaces_are_shipped",
        "only the namespaces that are named are shipped",
        "output/receivers/unshipped.py",
        "        return self._namespaces is None or owner.namespace in self._namespaces\n",
        "        return True\n",
        _TESTS,
        None,
    ),
    Mutant(
        "damaged_output_is_shipped",
        "what is damaged is not shipped",
        "output/receivers/unshipped.py",
        "    return span is not None and span.whole\n",
        "    return True\n",
        _TESTS,
        None,
    ),
    Mutant(
        "taken_is_what_the_system_took",
        "by TCP a line counts when the other machine has acknowledged it",
        "output/receivers/syslog.py",
        "        while unacknowledged(sock):\n",
        "        while False:\n",
        ("unit/output/test_syslog.py",),
        None,
    ),
    Mutant(
        "shipped_into_a_file_of_the_node",
        "a node whose standard output is closed does not ship to what has its number then",
        "output/receivers/opening.py",
        "            if sys.__stdout__ is None:",
        "            if False:",
        ("unit/output/test_standard_output.py",),
        None,
    ),
    Mutant(
        "no_turns",
        "a namespace that prints much does not hold up the lines of others",
        "output/receivers/unshipped.py",
        "            if batch.cost >= end or batch.full:\n",
        "            if batch.full:\n",
        _TESTS,
        None,
    ),
    Mutant(
        "lines_cost_nothing",
        "many short lines cost what many bytes cost",
        "output/receivers/unshipped.py",
        "            self.cost += len(packed.data) + LINE_COST\n",
        "            self.cost += len(packed.data)\n",
        _TESTS,
        None,
    ),
    Mutant(
        "mark_of_who_is_ahead",
        "all before the mark of a segment was taken, of each namespace",
        "output/receivers/unshipped.py",
        "        return next(iter(self.pending), self.at)\n",
        "        return self.at\n",
        _TESTS,
        None,
    ),
    Mutant(
        "shipped_again_with_other_times",
        "what is sent again has the time that it had",
        "output/receivers/marks.py",
        "        return self.of.get(namespace) or Mark(self.at, self.lines, self.floor)\n",
        "        return self.of.get(namespace) or Mark(self.at, self.lines, self.last_ns)\n",
        _TESTS,
        None,
    ),
)
