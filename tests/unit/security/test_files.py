"""A file is written whole or not at all, and what a killed writer leaves is removed by the next one."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from raftsched.security.files import replacing, write_private

KILLED = """
import os, sys
from pathlib import Path
from raftsched.security.files import replacing

with replacing(Path(sys.argv[1])) as out:
    out.write(b"half of it")
    out.flush()
    os.kill(os.getpid(), 9)
"""


def test_whole_for_its_owner_alone_and_nothing_beside(tmp_path: Path) -> None:
    file = tmp_path / "kept"
    write_private(file, b"one")
    write_private(file, b"two")
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"two", 0o600)
    with pytest.raises(TypeError), replacing(file) as out:
        out.write("no bytes")  # type: ignore[arg-type]
    assert file.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["kept"]


def test_what_a_killed_writer_leaves_is_removed_by_the_next(tmp_path: Path) -> None:
    file = tmp_path / "kept"
    write_private(file, b"one")
    others = {"kept", ".kept.txt", ".other.12345678.unfinished"}
    for name in others - {"kept"}:
        (tmp_path / name).touch()
    assert subprocess.run([sys.executable, "-c", KILLED, str(file)], check=False).returncode == -9
    assert len(os.listdir(tmp_path)) == len(others) + 1
    with replacing(file) as slow:  # another one that lives is left alone
        slow.write(b"two")
        write_private(file, b"three")
        assert len(os.listdir(tmp_path)) == len(others) + 1
    assert file.read_bytes() == b"two"
    assert set(os.listdir(tmp_path)) == others
