"""Packages of other versions, to be imported beside this version's own in one process.

`python -m tests.golden.frozen VERSION` keeps the package of a released version, from the commit in `releases.py`.

The modules of each version name each other as `raftsched`. `offer` makes them importable under another name, and these
imports are rewritten when a module is loaded. All else of them stays as it is: also names in texts, as those of
loggers, and those that `raftsched/__init__.py` looks up late.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import io
import logging
import re
import sys
import tarfile
from collections.abc import Mapping, Sequence
from functools import cache
from types import ModuleType

from tests.golden.releases import RELEASES, Release

OWN = "raftsched"
LEFT_OUT = ("raftsched/ui/static/", "raftsched/testing/")  # no node needs them to take part in a cluster
_IMPORT = re.compile(rb"^([ \t]*(?:from|import) )raftsched\b", re.MULTILINE)
_WHOLE = re.compile(rb"^([ \t]*import )raftsched[ \t]*$", re.MULTILINE)


class Package(importlib.abc.MetaPathFinder, importlib.abc.ExecutionLoader):
    """Finds and loads the modules of one version. `sources`: by paths that begin with `raftsched/`."""

    def __init__(self, name: str, sources: Mapping[str, bytes]) -> None:
        self.name = name
        self._sources = sources

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] != self.name or self._path(fullname) is None:
            return None
        return importlib.util.spec_from_loader(fullname, self)

    def is_package(self, fullname: str) -> bool:
        return self.get_filename(fullname).endswith("/__init__.py")

    def get_filename(self, fullname: str) -> str:
        path = self._path(fullname)
        if path is None:
            raise ImportError(f"there is no {fullname}", name=fullname)
        return f"<{self.name}>/{path}"

    def get_source(self, fullname: str) -> str:
        source = self._sources[self.get_filename(fullname).partition("/")[2]]
        name = self.name.encode()
        return _IMPORT.sub(rb"\1" + name, _WHOLE.sub(rb"\1" + name + b" as raftsched", source)).decode()

    def _path(self, fullname: str) -> str | None:
        base = "/".join([OWN, *fullname.split(".")[1:]])
        return next((path for path in (f"{base}/__init__.py", f"{base}.py") if path in self._sources), None)


def offer(name: str, sources: Mapping[str, bytes]) -> None:
    """Makes a version's modules importable under this name. What they log goes where this version's goes."""
    sys.meta_path.append(Package(name, sources))
    logging.getLogger(name).parent = logging.getLogger(OWN)


@cache
def load(release: Release) -> str:
    """Makes the package of a release importable, and returns its name."""
    name = f"{OWN}_{release.version.replace('.', '_')}"
    with tarfile.open(release.package) as tar:
        offer(name, {one.name: _read(tar, one) for one in tar if one.name.endswith(".py")})
    return name


def frozen() -> list[Release]:
    """Returns the releases whose packages are kept, from old to new."""
    return [release for release in RELEASES if release.package.exists()]


def _read(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    assert file is not None
    return file.read()


def main() -> int:
    (release,) = (one for one in RELEASES if one.version == sys.argv[1])
    if release.package.exists():
        print(f"{release.package} is there; such files are never made anew", file=sys.stderr)
        return 1
    packed = release.archive()
    if packed is None:
        print(f"this checkout has not the commit {release.commit}", file=sys.stderr)
        return 1
    with tarfile.open(fileobj=io.BytesIO(packed)) as whole, tarfile.open(release.package, "w:xz", preset=9) as tar:
        for member in sorted(whole.getmembers(), key=lambda one: one.name):
            if member.isfile() and not member.name.startswith(LEFT_OUT):
                content = _read(whole, member)
                bare = tarfile.TarInfo(member.name)  # of no time and nobody: the same files make the same archive
                bare.size = len(content)
                tar.addfile(bare, io.BytesIO(content))
    print(f"{release.package}: {release.package.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
