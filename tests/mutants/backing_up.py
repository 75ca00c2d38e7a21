"""Rules of raftsched/backups and of the files that it keeps."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_BACKUPS = ("unit/backups",)

BACKING_UP = (
    Mutant(
        "retention_by_this_clock",
        "a clock that is ahead makes no backup old: the log's time and this machine's both have to say so",
        "backups/points.py",
        "until_ms = min(newest_ms, now_ms)\n",
        "until_ms = now_ms\n",
        _BACKUPS,
        None,
    ),
    Mutant(
        "retention_drops_the_base",
        "the backup stays from which the oldest kept point is made",
        "backups/points.py",
        "if full.at_ms <= since_ms and full.index < first]\n",
        "if full.at_ms <= since_ms and full.index < first] + [len(points.fulls) - 1]\n",
        _BACKUPS,
        None,
    ),
    Mutant(
        "retention_by_time_alone",
        "a clock that was behind for a while makes nothing old of what came before",
        "backups/points.py",
        "if full.at_ms <= since_ms and full.index < first]\n",
        "if full.at_ms <= since_ms]\n",
        _BACKUPS,
        None,
    ),
    Mutant(
        "gap_hidden",
        "a time of which nothing is kept is refused, and not taken for the state before it",
        "backups/points.py",
        "if stretch.last == index and stretch.to_ms < at_ms < following.from_ms:",
        "if False:",
        _BACKUPS,
        None,
    ),
    Mutant(
        "stranded_dropped",
        "what nothing leads to stays as long as its points would: what is missing may be found again",
        "backups/points.py",
        "if one.last <= base.index and one.last < first]\n",
        "if one.last <= base.index]\n",
        _BACKUPS,
        None,
    ),
    Mutant(
        "gap_before_a_full_backup",
        "the log up to a new full backup is kept, too",
        "backups/making.py",
        "if points.fulls and not gap and at < full.index:",
        "if False:",
        _BACKUPS,
        None,
    ),
    Mutant(
        "two_pasts",
        "a cluster that has lost entries is not mixed with what there was of it",
        "backups/making.py",
        "            if label.before_term != term:\n",
        "            if False:\n",
        _BACKUPS,
        None,
    ),
    Mutant(
        "renamed_backup",
        "a file is what its name says, or it is not taken",
        "backups/repository.py",
        "if (label.cluster_id, label.index, label.term) != (full.cluster, full.index, full.term):",
        "if False:",
        _BACKUPS,
        None,
    ),
    Mutant(
        "segment_not_checked",
        "a segment whose bytes have changed is refused",
        "store/segment.py",
        "        check_signed(name, label.key, label.mac, ours, keys)\n",
        "",
        _BACKUPS,
        None,
    ),
    Mutant(
        "states_not_compared",
        "two ways to one state must give the same rows",
        "backups/verifying.py",
        "if _digest(other, repository, earlier, map_bytes) != rows:",
        "if False:",
        _BACKUPS,
        None,
    ),
    Mutant(
        "put_in_halves",
        "an object is written beside, and has its name when it is whole",
        "objectstore/directory.py",
        "                beside.unlink(missing_ok=True)\n                raise\n",
        "                self._place(beside, self._root / key)\n                raise\n",
        ("unit/objectstore",),
        None,
    ),
)
