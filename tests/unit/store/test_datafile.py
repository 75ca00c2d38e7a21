"""A data file that was cut off is told from a whole one before it is mapped: reading it would end the process."""

from __future__ import annotations

from pathlib import Path

import pytest

from raftsched.errors import StartupError
from raftsched.store import LogEntry, Store, Turn
from raftsched.store.datafile import is_whole


def test_whole_after_every_turn_and_never_when_cut(tmp_path: Path) -> None:
    store = Store.open(tmp_path, sync=False)
    data = tmp_path / "data.mdb"
    for index in range(1, 60):
        store.run_turn(Turn(append=[LogEntry(index, 1, b"x" * 9_000)]))
        assert is_whole(data)
    store.close()
    raw = data.read_bytes()
    for size in (1, 100, 4_095, 4_096, 5_000, 8_192, len(raw) // 2, len(raw) - 4_096, len(raw) - 1):
        data.write_bytes(raw[:size])
        assert not is_whole(data), size
        with pytest.raises(StartupError, match="cut off"):
            Store.open(tmp_path)
    data.write_bytes(raw)
    store = Store.open(tmp_path)
    assert store.log_bounds() == (1, 59)
    store.close()
