"""The released versions: which commit each was made of, and the newest level that it knows."""

from __future__ import annotations

import io
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tests.golden.goldenfile import HERE

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Release:
    version: str
    commit: str
    level: int

    @property
    def data(self) -> Path:
        """A data directory of this version, packed; see record_data.py."""
        return HERE / f"data-{self.version}.tar.xz"

    def unpack_source(self, directory: Path) -> Path | None:
        """Puts the package as it was released below the directory, and returns where it is; None: this checkout has
        not the commit (it may be a shallow clone, or no clone)."""
        command = ["git", "-C", str(ROOT), "archive", self.commit, "raftsched"]
        packed = subprocess.run(command, capture_output=True, check=False)
        if packed.returncode != 0:
            return None
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as tar:
            tar.extractall(directory, filter="data")
        return directory


# From old to new. Lines are only ever added.
RELEASES = (
    Release("0.1.0", "f1fd5eefd662e96f436e74383f6daa30020c247e", 4),
    Release("0.2.0", "4cc27058eb63999233c3a90a3b769a9b8a41f5c7", 5),
)
