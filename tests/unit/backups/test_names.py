"""Names say what they name, and nothing else is taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftsched.backups.names import Full, Segment, parse
from raftsched.objectstore.store import require_key

C = "0123456789abcdef" * 2
INDEX = st.integers(1, 10**15)
TIME = st.integers(0, 253_402_300_799_999)  # the last millisecond of 9999


@given(INDEX, st.integers(0, 2**62), TIME, st.integers(0, 2**50))
def test_a_backup_is_found_again(index: int, term: int, at_ms: int, size: int) -> None:
    full = Full(C, index, term, at_ms, size)
    require_key(full.key)
    assert parse(full.key, size) == full


@given(INDEX, st.integers(0, 10**12), st.integers(0, 2**62), TIME, TIME)
def test_a_segment_is_found_again(first: int, more: int, term: int, from_ms: int, to_ms: int) -> None:
    segment = Segment(C, first, first + more, term, from_ms, to_ms, 7)
    require_key(segment.key)
    assert parse(segment.key, 7) == segment


def test_names_are_in_the_order_of_the_log() -> None:
    keys = [Segment(C, first, first + 9, 3, 0, 0).key for first in (1, 10, 100, 10**12)]
    assert keys == sorted(keys)


@pytest.mark.parametrize(
    "key",
    [
        "",
        f"{C}/other",
        f"{C}/full-0000000000000007-1-20260102T030405006Z.backup.part",
        f"{C}/full-0000000000000007-1-20261302T030405006Z.backup",
        f"{C}/full-7-1-20260102T030405006Z.backup",
        "short/full-0000000000000007-1-20260102T030405006Z.backup",
        f"{C}/log-0000000000000007-0000000000000006-1-20260102T030405006Z-20260102T030405006Z.segment",
        f"{C}/log-0000000000000007-0000000000000008-1-20260102T030405006Z.segment",
    ],
)
def test_other_names_are_left_alone(key: str) -> None:
    assert parse(key, 1) is None
