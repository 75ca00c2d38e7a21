"""docs/tutorials: each page, pasted from top to bottom into an empty directory."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.support.examples import ROOT
from tests.support.pasted import desk, raftsched_commands

pytestmark = pytest.mark.e2e

FOLDER = ROOT / "docs/tutorials"
SHOWN = {  # page -> what is printed on the way, in this order
    "from-a-crontab": ["3 would be imported", "created: ops/backup", "SUCCEEDED", "backup of"],
    "from-celery-beat": ["2 would be imported", "sending the invoices of yesterday"],
    "from-apscheduler": ["2 would be imported", "the report of last night", "sending invoice 7", "sending invoice 8"],
    "fastapi": ['{"job":"', "nightly-report", "the report of last night"],
    "django": ["Applying billing", "invoices were sent"],
    "three-machines": ["3 voting", "hello from n", "3 voting"],
}
NEEDS = {"from-apscheduler": ("apscheduler", "sqlalchemy"), "fastapi": ("fastapi", "uvicorn"), "django": ("django",)}


def test_every_page_is_pasted() -> None:
    pages = {path.stem for path in FOLDER.glob("*.md")} - {"index"}
    assert pages == {*SHOWN}
    index = (FOLDER / "index.md").read_text()
    assert all(f"({page}.md)" in index for page in pages)


@pytest.mark.parametrize("page", SHOWN)
def test_it_pastes_from_top_to_bottom(page: str, tmp_path: Path) -> None:
    for module in NEEDS.get(page, ()):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed beside raftsched: pip install {' '.join(NEEDS[page])}")
    with desk(tmp_path / "empty") as terminals:
        terminals.put_commands(raftsched_commands())
        printed = terminals.paste((FOLDER / f"{page}.md").read_text())
    pattern = ".*?".join(map(re.escape, SHOWN[page]))
    assert re.search(pattern, printed, re.DOTALL), printed
