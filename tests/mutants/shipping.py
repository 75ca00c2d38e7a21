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
        "            if batch.lines:\n                await self._deliver(batch)\n",
        "            self._marks.move(batch.after)\n            if batch.lines:\n"
        "                await self._deliver(batch)\n",
        _TESTS,
        None,
    ),
    Mutant(
        "other_namespaces_are_shipped",
        "only the namespaces that are named are shipped",
        "output/receivers/batches.py",
        "        return self._namespaces is None or owner.namespace in self._namespaces\n",
        "        return True\n",
        _TESTS,
        None,
    ),
    Mutant(
        "damaged_output_is_shipped",
        "what is damaged is not shipped",
        "output/receivers/batches.py",
        "    return body.digest() == record.sha256\n",
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
)
