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

    @property
    def package(self) -> Path:
        """Its Python modules, packed; see frozen.py."""
        return HERE / f"package-{self.version}.tar.xz"

    def archive(self) -> bytes | None:
        """Returns the package as it was released, as a tar file; None: this checkout has not the commit (it may be a
        shallow clone, or no clone)."""
        command = ["git", "-C", str(ROOT), "archive", self.commit, "raftsched"]
        packed = subprocess.run(command, capture_output=True, check=False)
        return packed.stdout if packed.returncode == 0 else None

    def unpack_source(self, directory: Path) -> Path | None:
        """Puts the package below the directory, without its page where it is kept here, and returns where it is; None:
        it is neither kept here nor in this checkout."""
        packed = self.package.read_bytes() if self.package.exists() else self.archive()
        if packed is None:
            return None
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            tar.extractall(directory, filter="data")
        page = directory / "raftsched/ui/static"
        if not page.exists():
            page.mkdir()
            for name in ("index.html", "locked.html", "app.js"):
                (page / name).touch()
        return directory


# From old to new. Lines are only ever added.
RELEASES = (
    Release("0.1.0", "f1fd5eefd662e96f436e74383f6daa30020c247e", 4),
    Release("0.2.0", "4cc27058eb63999233c3a90a3b769a9b8a41f5c7", 5),
    Release("0.3.0", "64c4230ecd4dcf6a94af5363e285b202ed4b9f34", 6),
)
