"""Names the version of this package. A module of its own, so that whoever says it imports nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__version__ = "0.3.0.dev0"
_SHOWN = 12  # digits of a commit


def described() -> str:
    """Returns the version with the commit that it was built of, or is a checkout of, where that is known."""
    from pathlib import Path

    here = Path(__file__).parent
    commit = commit_of_checkout(here.parent) or _read(here / "commit.txt")  # hatch_build.py writes it into the packages
    return f"{__version__} ({commit[:_SHOWN]})" if commit else __version__


def commit_of_checkout(root: Path) -> str:
    """Returns the commit that is checked out in this directory, as git keeps it in files; "" where it is none."""
    place = root / ".git"
    if not (root / "hatch_build.py").exists():
        return ""  # somebody else's, with the package in it
    if place.is_file():  # a worktree: the file says where its own directory is
        place = root / _read(place).removeprefix("gitdir:").strip()
    head = _read(place / "HEAD")
    if not head.startswith("ref: "):
        return head
    name = head.removeprefix("ref: ")
    shared = place / (_read(place / "commondir") or ".")
    packed = (line.partition(" ") for line in _read(shared / "packed-refs").splitlines())
    return _read(shared / name) or next((commit for commit, _, ref in packed if ref == name), "")


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
