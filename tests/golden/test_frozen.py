"""Packages of released versions are those that were released, and are loaded beside this version's."""

from __future__ import annotations

import io
import sys
import tarfile
from importlib import import_module
from pathlib import Path

import pytest

from raftsched.core import levels
from tests.golden.frozen import LEFT_OUT, frozen, load
from tests.golden.releases import RELEASES, Release

each = pytest.mark.parametrize("release", frozen(), ids=lambda release: release.version)


def test_all_releases_are_kept() -> None:
    assert frozen() == list(RELEASES), "see README.md: python -m tests.golden.frozen VERSION"


@each
def test_a_package_is_that_of_its_commit(release: Release) -> None:
    whole = release.archive()
    if whole is None:
        pytest.skip(f"this checkout has not the commit of {release.version}, {release.commit}")
    with tarfile.open(fileobj=io.BytesIO(whole)) as released, tarfile.open(release.package) as kept:
        assert _files(kept) == {
            name: content for name, content in _files(released).items() if not name.startswith(LEFT_OUT)
        }


@each
def test_it_is_loaded_beside_this_version(release: Release) -> None:
    name = load(release)
    theirs = import_module(f"{name}.core.levels")
    assert theirs is not levels
    assert theirs.newest_level() == release.level
    assert import_module(name).__version__ == release.version
    assert import_module(f"{name}.raft.facade").Raft.__module__ == f"{name}.raft.facade"
    assert sys.modules["raftsched.core.levels"] is levels


@each
def test_its_source_can_be_unpacked(release: Release, tmp_path: Path) -> None:
    assert release.unpack_source(tmp_path) == tmp_path
    assert (tmp_path / "raftsched/__main__.py").exists()
    assert (tmp_path / "raftsched/ui/static/index.html").exists()


def _files(tar: tarfile.TarFile) -> dict[str, bytes]:
    return {one.name: tar.extractfile(one).read() for one in tar if one.isfile()}  # type: ignore[union-attr]
