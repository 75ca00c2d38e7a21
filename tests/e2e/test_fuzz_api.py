"""A bounded share of scripts/fuzz-api: another part of the operations each time, through another node, with and without
tokens. Most of what is generated goes to one process (tests/integration/api/test_generated_requests.py). The seed is
fresh, and printed with what fails; FUZZ_SECONDS=... takes longer."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = int(os.environ.get("FUZZ_SECONDS", "8"))
SAMPLE = 8  # operations
WAYS = (
    ["--through", "leader"],
    ["--through", "follower"],
    ["--kill-leader"],
    ["--through", "leader", "--role", "admin"],
    ["--through", "follower", "--role", "viewer"],
)
FUZZ = Path(__file__).resolve().parents[2] / "scripts" / "fuzz_api.py"

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(SECONDS + 300)]


def test_generated_requests_are_answered_as_described() -> None:
    seed = secrets.randbits(32)
    way = WAYS[seed % len(WAYS)]
    command = [sys.executable, str(FUZZ), *way, "--seconds", str(SECONDS), "--sample", str(SAMPLE), "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    assert "nothing was found" in done.stdout
