"""The version tells a release from what comes after it, and is what the changelog's newest heading says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import hatch_build
from raftsched.version import __version__, commit_of_checkout
from tests.golden.releases import RELEASES, ROOT

HEADING = re.compile(r"^## (\d+\.\d+\.\d+) \((.+)\)$", re.MULTILINE)


def test_the_version_is_the_newest_of_the_changelog() -> None:
    """`.dev0` (PEP 440) until it is released, so that no build between two releases says that it is one of them."""
    newest, when = next(found.groups() for found in HEADING.finditer((ROOT / "CHANGELOG.md").read_text()))
    assert __version__ == (f"{newest}.dev0" if when == "unreleased" else newest)
    assert when != "unreleased" or newest not in {release.version for release in RELEASES}


def git(where: Path, *arguments: str) -> str:
    mail = ("-c", "user.name=a", "-c", "user.email=a@a.example", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", *mail, *arguments], cwd=where, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
def test_the_commit_of_a_checkout_is_read_as_git_keeps_it(tmp_path: Path) -> None:
    root = tmp_path / "source"
    root.mkdir()
    git(root, "init", "-q")
    assert commit_of_checkout(root) == ""
    (root / "hatch_build.py").touch()
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    commit = git(root, "rev-parse", "HEAD")
    assert commit_of_checkout(root) == commit
    git(root, "pack-refs", "--all")
    assert commit_of_checkout(root) == commit
    git(root, "worktree", "add", "-q", "-b", "other", "../beside")
    git(tmp_path / "beside", "commit", "-q", "--allow-empty", "-m", "two")
    assert commit_of_checkout(tmp_path / "beside") == git(tmp_path / "beside", "rev-parse", "HEAD") != commit
    git(root, "checkout", "-q", "--detach")
    assert commit_of_checkout(root) == commit
    (root / "hatch_build.py").unlink()
    assert commit_of_checkout(root) == "", "the package lies in somebody else's repository"


def test_metadata_name_the_project_only_where_it_is_said() -> None:
    assert hatch_build.addresses("") == {}
    said = hatch_build.addresses("https://code.example/a/raftsched/")
    assert said["Repository"] == "https://code.example/a/raftsched"
    assert all(url.startswith("https://code.example/a/raftsched") for url in said.values())
    for name in ("Documentation", "Changelog"):
        assert (ROOT / said[name].partition("/blob/HEAD/")[2]).is_file()
