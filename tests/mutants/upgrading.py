"""Rules of upgrades: the level of the cluster (core.levels)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_CORE = ("unit/core/test_cluster_level.py",)
_LEADER = ("unit/leader/test_level.py",)
_RAFT = ("integration/raft/test_cluster.py",)

UPGRADING = (
    Mutant(
        "level_rises_though_held",
        "an operator can hold the level",
        "core/apply/cluster/membership.py",
        "    if tx.meta.settings.upgrade_hold:\n",
        "    if False:\n",
        _CORE,
        None,
    ),
    Mutant(
        "level_goes_down",
        "the level only rises",
        "core/apply/cluster/membership.py",
        "    if c.level <= tx.meta.level:\n",
        "    if c.level == tx.meta.level:\n",
        _CORE,
        None,
    ),
    Mutant(
        "too_old_goes_on",
        "a version that does not know the cluster's level stops",
        "core/apply/cluster/membership.py",
        "    check_level(c.level)\n    before, tx.meta.level =",
        "    before, tx.meta.level =",
        _CORE,
        None,
    ),
    Mutant(
        "audit_of_a_later_level",
        "notes are as all members write them",
        "core/apply/cluster/audit_rows.py",
        "        by_subject = self._meta.level >= AUDIT_BY_SUBJECT\n",
        "        by_subject = True\n",
        ("unit/core/test_access.py",),
        None,
    ),
    Mutant(
        "field_too_early",
        "a field that not all members know is not proposed",
        "core/levels.py",
        "            if given != (field.default if factory is msgspec.NODEFAULT else factory()):\n",
        "            if False:\n",
        _CORE,
        None,
    ),
    Mutant(
        "level_before_all_know",
        "the level rises when all members know a later one",
        "leader/level.py",
        "level = min((known.get(node, 0) for node in others), default=newest_level())",
        "level = max((known.get(node, 0) for node in others), default=newest_level())",
        _LEADER,
        None,
    ),
    Mutant(
        "word_of_a_node_that_is_down",
        "a node that is down keeps the level where it is, for it may come back with the version before",
        "leader/liveness/vitals.py",
        "for node, level in self._levels.items() if now_ms - self._heard[node] < FRESH_MS}",
        "for node, level in self._levels.items()}",
        _LEADER,
        None,
    ),
    Mutant(
        "proposed_too_early",
        "nobody proposes what is of a later level than the cluster's",
        "raft/replica.py",
        "        return None if any(is_later(raw, self.level) for raw in commands) else commands\n",
        "        return commands\n",
        _RAFT,
        None,
    ),
    Mutant(
        "too_old_opens",
        "a version that does not know the level of a data directory does not start on it",
        "store/store.py",
        "                check_level(read_meta(view).level)\n",
        "                read_meta(view)\n",
        _RAFT,
        None,
    ),
)
