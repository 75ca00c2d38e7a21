"""README.md, pasted from top to bottom into a copy of what a clone has, with nothing else around it.

Only `.venv` is not made anew: it is a link to the one that runs this test. Else this would be a test of pip.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.examples import ROOT
from tests.support.pasted import desk

pytestmark = pytest.mark.e2e

PAGE = (ROOT / "README.md").read_text()
MAX_BYTES = 9000


def _clone(place: Path) -> None:
    """Copies the files that are tracked, and what pip makes of C."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    native = (path for path in (ROOT / "raftsched/worker/native").iterdir() if path.is_file())
    for name in {*filter(None, tracked.decode().split("\0")), *(str(path.relative_to(ROOT)) for path in native)}:
        if (ROOT / name).exists():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name, follow_symlinks=False)


def test_it_pastes_from_top_to_bottom(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("this needs a repository, to know which files a clone has")
    if not (ROOT / ".venv/bin/activate").exists() or Path(sys.prefix) != ROOT / ".venv":
        pytest.skip("this needs the .venv of the scripts")
    place = tmp_path / "clone"
    place.mkdir()
    _clone(place)
    (place / ".venv").symlink_to(ROOT / ".venv")
    with desk(place) as terminals:
        printed = terminals.paste(PAGE)
    for shown in ("2026-11: 210 invoices", "'./report.sh'", "leads now", "requeued: 1", "SUCCEEDED"):
        assert shown in printed, printed


def test_it_is_short_and_shows_the_page_first() -> None:
    assert len(PAGE.encode()) <= MAX_BYTES
    assert PAGE.index("![") < PAGE.index("\n## ")
