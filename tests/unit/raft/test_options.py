"""Which options go together."""

from __future__ import annotations

import pytest

from raftsched.config.flags import FLAGS
from raftsched.raft.options import KIB, RaftOptions, elections

SMALL = {"append_max_bytes": 32 * KIB, "entry_max_bytes": 16 * KIB, "snapshot_chunk_bytes": 16 * KIB}


@pytest.mark.parametrize("append_bytes", [16 * KIB, 32 * KIB])
def test_a_message_of_several_entries_fits_a_frame(append_bytes: int) -> None:
    RaftOptions(**SMALL, append_bytes=append_bytes, frame_max_bytes=64 * KIB)


def test_one_that_does_not_is_refused() -> None:
    """A leader that had gathered such a message would have stopped."""
    with pytest.raises(ValueError, match="append_bytes must be at most half of frame_max_bytes"):
        RaftOptions(**SMALL, append_bytes=33 * KIB, frame_max_bytes=64 * KIB)


LEAST_MS, MOST_MS = FLAGS["election_timeout"].bounds


@pytest.mark.parametrize("timeout_ms", [LEAST_MS, 3_700, 4_000, MOST_MS])
def test_no_silence_shorter_than_the_election_timeout_begins_an_election(timeout_ms: int) -> None:
    """Nor by the end of a connection on which nothing was heard."""
    options = RaftOptions(**elections(timeout_ms))
    assert options.election_min_ms == timeout_ms
    assert options.dead_peer_ms + options.election_lost_min_ms >= timeout_ms
    assert options.dead_peer_ms >= RaftOptions.dead_peer_ms
