"""deploy/ is listed and explained, and the rules of the firewall are rules."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"


def test_each_folder_is_listed_and_explained() -> None:
    listed = (DEPLOY / "README.md").read_text()
    for folder in DEPLOY.iterdir():
        assert not folder.is_dir() or f"]({folder.name}" in listed, folder.name
    for page in re.findall(r"\]\(\.\./(docs/[\w-]+\.md)", listed):
        assert (ROOT / page).is_file(), page


def test_the_rules_of_the_firewall_are_rules() -> None:
    rules = DEPLOY / "virtual-machines" / "raftsched.nft"
    text = rules.read_text()
    for address in re.findall(r"10\.0\.0\.[1-3]:7501", (ROOT / "docs" / "virtual-machines.md").read_text()):
        assert address.partition(":")[0] in text
    command = shutil.which("nft")
    if command is None:
        pytest.skip("nft is not installed")
    done = subprocess.run([command, "--check", "--file", rules], capture_output=True, text=True, check=False)
    if "Operation not permitted" in done.stderr:
        pytest.skip("nft may not look here")
    assert done.returncode == 0, done.stderr
