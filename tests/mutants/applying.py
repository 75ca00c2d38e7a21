"""Rules of raftsched/core and raftsched/leader by which nothing is done twice, or by the wrong one."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_CORE = ("unit/core",)
_LEADER = ("unit/leader",)

APPLYING = (
    Mutant(
        "dedupe_off",
        "a batch that comes again is not applied again",
        "core/origins.py",
        "    if bits & bit:\n        return False\n",
        "",
        _CORE,
        "network",
    ),
    Mutant(
        "dedupe_floor_off",
        "nor one that is older than all that is remembered singly",
        "core/origins.py",
        "    if seq <= row.floor:\n        return False\n",
        "    if seq <= row.floor:\n        return True\n",
        _CORE,
        "network",
    ),
    Mutant(
        "old_leadership_opens",
        "an older leadership does not become the newest again",
        "core/apply/cluster.py",
        "    if c.epoch <= tx.meta.epoch:\n",
        "    if False:\n",
        _CORE,
        None,
    ),
    Mutant(
        "end_of_old_leadership",
        "the end of a session is the newest leadership's to say",
        "core/apply/cluster.py",
        "    if c.epoch != tx.meta.epoch:\n",
        "    if False:\n",
        _CORE,
        None,
    ),
    Mutant(
        "session_of_another_boot",
        "only the same boot replaces an open session",
        "core/apply/cluster.py",
        "if earlier.boot_id != c.boot_id:",
        "if False:",
        _CORE,
        None,
    ),
    Mutant(
        "session_replaced_twice",
        "a session replaces the newest one",
        "core/apply/cluster.py",
        "    newest = tx.node_session(c.node)\n    if newest != c.replaces:\n",
        "    newest = tx.node_session(c.node)\n    if False:\n",
        _CORE,
        None,
    ),
    Mutant(
        "fire_of_another_time",
        "a fire is for the revision and the time that the job has",
        "core/apply/firing.py",
        "if job.revision != c.revision or job.nominal_at_ms != c.nominal_at_ms or not _plausible(c):",
        "if not _plausible(c):",
        _CORE,
        None,
    ),
    Mutant(
        "lease_without_quorum_age",
        "a lease is shorter by the age of the round that a majority answered",
        "leader/leases.py",
        "grant = lease.ttl_ms - (now_ms - quorum_ms)",
        "grant = lease.ttl_ms",
        _LEADER,
        None,
    ),
    Mutant(
        "no_margin",
        "a session is over a margin later than its lease",
        "leader/leases.py",
        "Lease(session.id, session.node, ttl, now_ms + ttl + ttl // 4)",
        "Lease(session.id, session.node, ttl, now_ms + ttl)",
        _LEADER,
        None,
    ),
    Mutant(
        "granted_after_the_end",
        "a session whose end was proposed is granted nothing",
        "leader/leases.py",
        "if lease is None or lease.node != node or lease.declared or quorum_ms is None:",
        "if lease is None or lease.node != node or quorum_ms is None:",
        _LEADER,
        None,
    ),
)
