"""Rules of raftsched/outputs, by which a second copy of output is there and is what the first one was."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_COPYING = ("unit/outputs/test_copying.py",)
_STORING = ("unit/outputs/test_storing.py",)
_PRUNING = ("unit/outputs/test_pruning.py",)
_API = ("integration/api/runs/test_output_copies.py",)

COPYING = (
    Mutant(
        "copied_before_it_is_flushed",
        "only what is on the disk for good is sent: what a loss of power takes back is written otherwise",
        "worker/output.py",
        "        os.fdatasync(at.fd)\n        self._segments[at.number].synced = at.end\n",
        "        self._segments[at.number].synced = at.end\n        os.fdatasync(at.fd)\n",
        _COPYING,
        None,
    ),
    Mutant(
        "copy_on_a_lost_disk_counts",
        "a copy on a disk that is not there any more is made again",
        "outputs/sent.py",
        "part.end <= end and members.get(part.node) == part.store",
        "part.end <= end and part.node in members",
        _COPYING,
        None,
    ),
    Mutant(
        "copies_with_gaps",
        "a piece that does not begin where the copy ends is refused",
        "outputs/copies.py",
        "            if not 0 <= at <= size:\n",
        "            if at < 0:\n",
        _COPYING,
        None,
    ),
    Mutant(
        "damaged_output_is_copied",
        "what is damaged is not sent",
        "outputs/stretches.py",
        "body.digest() == HEADER.unpack(head[: HEADER.size])[5]",
        "True",
        _COPYING,
        None,
    ),
    Mutant(
        "search_skips_what_there_was_no_time_for",
        "a search goes on where a node had no more time",
        "api/runs/searching.py",
        "                part.reached = None if before is None else before.hex()\n",
        "",
        ("integration/api/runs/test_searching.py",),
        None,
    ),
    Mutant(
        "anybody_sends_copies",
        "only nodes send copies of output",
        "api/auth/access.py",
        "    elif declared.peers and _peer_keys(ctx):\n",
        "    elif False:\n",
        _API,
        None,
    ),
    Mutant(
        "a_node_sends_the_copies_of_others",
        "a node sends its own output, and no other's",
        "api/runs/output_copies.py",
        '    if caller().peer and caller().name != f"node {node}":\n',
        "    if False:\n",
        _API,
        None,
    ),
    Mutant(
        "stored_output_is_not_checked",
        "output from an object store is held against the digests of the record and of the log",
        "outputs/stored.py",
        "            end = checked(file.fileno(), replace(ref, offset=0), token)\n",
        "            end = HEADER_SIZE + size\n",
        _STORING,
        None,
    ),
    Mutant(
        "stored_output_of_any_size",
        "an object makes nobody fetch more than the log says",
        "outputs/stored.py",
        "size is None or size > _body_max(ref)",
        "size is None",
        _STORING,
        None,
    ),
    Mutant(
        "stored_before_it_is_put",
        "output has a second copy when the store has taken it",
        "outputs/storing.py",
        "            self._note_failed(error)\n            return False\n",
        "            self._note_put(segment, stretch)\n            return False\n",
        _STORING,
        None,
    ),
    Mutant(
        "copy_at_another_store_counts",
        "what was put at another place is put again",
        "outputs/storing.py",
        "hashlib.sha256(store.where.encode()).digest()[:STORE_BYTES]",
        "bytes(STORE_BYTES)",
        _STORING,
        None,
    ),
    Mutant(
        "stored_output_goes_without_a_leader",
        "what is stored is deleted only by ages that a leader has just confirmed",
        "outputs/pruning.py",
        "        await self._confirm()\n",
        "",
        _PRUNING,
        None,
    ),
    Mutant(
        "the_leader_deletes_what_members_put",
        "each member sees to its own objects",
        "outputs/pruning.py",
        "place is not None and place.node not in without:\n",
        "place is not None:\n",
        _PRUNING,
        None,
    ),
    Mutant(
        "objects_of_other_clusters_go",
        "what another cluster put there stays",
        "outputs/objects.py",
        '    if found is None or found["cluster"] != cluster:\n',
        "    if found is None:\n",
        _STORING,
        None,
    ),
)
