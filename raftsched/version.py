"""Names the version of this package. A module of its own, so that whoever says it imports nothing else."""

from __future__ import annotations

import os

__version__ = "0.4.0.dev0"
_SHOWN = 12  # digits of a commit


def described() -> str:
    """Returns the version with the commit that it was built of, or is a checkout of, where that is known."""
    here = os.path.dirname(os.path.abspath(__file__))
    # hatch_build.py writes the file into the packages
    commit = commit_of_checkout(os.path.dirname(here)) or _read(here, "commit.txt")
    return f"{__version__} ({commit[:_SHOWN]})" if commit else __version__


def commit_of_checkout(root: str | os.PathLike[str]) -> str:
    """Returns the commit that is checked out in this directory, as git keeps it in files; "" where it is none."""
    root = os.fspath(root)
    place = os.path.join(root, ".git")
    if not os.path.exists(os.path.join(root, "hatch_build.py")):
        return ""  # somebody else's, with the package in it
    if os.path.isfile(place):  # a worktree: the file says where its own directory is
        place = os.path.join(root, _read(place).removeprefix("gitdir:").strip())
    head = _read(place, "HEAD")
    if not head.startswith("ref: "):
        return head
    name = head.removeprefix("ref: ")
    shared = os.path.join(place, _read(place, "commondir") or ".")
    packed = (line.partition(" ") for line in _read(shared, "packed-refs").splitlines())
    return _read(shared, name) or next((commit for commit, _, ref in packed if ref == name), "")


def _read(*parts: str) -> str:
    try:
        with open(os.path.join(*parts), encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""
