"""Changes bytes of LMDB's pages in a backup, makes its checksum anew, and restores it, again and again.

A process of its own, for LMDB may end it: `python -m tests.unit.store.hostile_backups BACKUP DIRECTORY SEED COUNT`,
or with a store in the place of the backup. Prints how many were taken and refused, and raises what is no refusal.
"""

from __future__ import annotations

import hashlib
import shutil
import struct
import sys
from pathlib import Path
from random import Random

from raftsched.backups.restore import restore
from raftsched.errors import StartupError
from raftsched.store.backup import TRAILER, NotABackup, verified_contents, verify
from raftsched.store.examination import examine

_PAGE = 4096
_SUM = 65  # bytes of the last line


def with_checksum(body: bytes, trailer: bytes) -> bytes:
    """Returns a backup whose checksum is right, which needs no key."""
    whole = body + trailer[:-_SUM]
    return whole + hashlib.sha256(whole).hexdigest().encode() + b"\n"


def changed(body: bytes, rng: Random) -> bytes:
    """Returns pages with some bytes changed, where they hurt: in heads, pointers, rows and meta pages."""
    out = bytearray(body)
    kind = rng.choice(["head", "pointers", "anywhere", "meta"])
    for _ in range(rng.choice([1, 1, 2, 4])):
        page = rng.randrange(0, 2) if kind == "meta" else rng.randrange(2, len(body) // _PAGE)
        at = {"head": lambda: rng.randrange(16), "pointers": lambda: 16 + rng.randrange(64)}.get(
            kind, lambda: 16 + rng.randrange(140) if kind == "meta" else rng.randrange(_PAGE)
        )()
        out[page * _PAGE + at] = rng.choice([0, 255, 1, 128, rng.randrange(256)])
    return bytes(out)


def leading_away(body: bytes) -> bytes:
    """Returns pages whose list of tables would be behind the end of the file."""
    out = bytearray(body)
    for meta in (0, _PAGE):
        out[meta + 128 : meta + 136] = struct.pack("<Q", len(body) // _PAGE + 50)
        out[meta + 136 : meta + 144] = struct.pack("<Q", len(body) // _PAGE + 100)
    return bytes(out)


def stores(source: Path, directory: Path, seed: int, count: int) -> None:
    """Changes pages of the log or of the tables of a store that nobody has open, and looks at it as doctor does."""
    files, damaged, store = sorted(source.glob("*/data.mdb")), 0, directory / "hostile-store"
    for number in range(count):
        print(f"seed {seed}, store {number}", flush=True)
        rng = Random(f"{seed} {number}")
        shutil.copytree(source, store)
        file = store / rng.choice(files).relative_to(source)
        file.write_bytes(changed(file.read_bytes(), rng) if number else leading_away(file.read_bytes()))
        found = examine(store)
        assert found is not None
        damaged += bool(found.damaged or found.unknown)
        shutil.rmtree(store)
    print(f"{damaged} damaged of {count}")


def main(source: Path, directory: Path, seed: int, count: int) -> None:
    raw, taken, refused = source.read_bytes(), 0, 0
    for number in range(count):
        print(f"seed {seed}, file {number}", flush=True)
        file, data = directory / "hostile", directory / "data"
        body, rng = raw[:-TRAILER], Random(f"{seed} {number}")
        file.write_bytes(with_checksum(changed(body, rng) if number else leading_away(body), raw[-TRAILER:]))
        try:
            verify(file)
            verified_contents(file)
            restore(file, data, "n1", "127.0.0.1:1", rng=Random(1), now_ms=1_800_000_000_000)
        except (NotABackup, StartupError, OSError):
            refused += 1
            assert not data.exists()
        else:
            taken += 1
            shutil.rmtree(data)
    print(f"{taken} taken, {refused} refused")


if __name__ == "__main__":
    what = stores if Path(sys.argv[1]).is_dir() else main
    what(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
