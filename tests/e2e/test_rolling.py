"""Bounded shares of scripts/rolling: nodes are upgraded under six jobs a second, taken back, and upgraded for good."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from raftsched.core.levels import newest_level
from tests.golden.releases import RELEASES, Release
from tests.support.amounts import some

pytestmark = pytest.mark.e2e

ROLLING = Path(__file__).resolve().parents[2] / "scripts" / "rolling.py"


# The last release; and where it knows all levels of this version, the last one from which the level rises.
FROM = dict.fromkeys((RELEASES[-1], [release for release in RELEASES if release.level < newest_level()][-1]))
HOW: tuple[tuple[str, ...], ...] = ((), ("--kill",))
WAYS: list[object] = [
    pytest.param(release, how, id="".join((release.version, *how))) for release in FROM for how in HOW
]


@pytest.mark.parametrize("release, how", some(WAYS))
def test_an_upgrade_from_a_release_and_the_way_back_cost_no_run_an_attempt(
    release: Release, how: tuple[str, ...], tmp_path: Path
) -> None:
    """Nor does any due time go missing where each node is killed, and once more while it starts."""
    if release.unpack_source(tmp_path) is None:
        pytest.skip(f"this checkout has not the commit of {release.version}, {release.commit}: it is shallow")
    done = rolled("--upgrade", "--from", release.version, "--run", "1", *how)
    assert ("killed 18," if how else "restarts 9,") in done


def test_an_upgrade_to_a_version_that_knows_more_costs_no_run_an_attempt() -> None:
    assert "restarts 3," in rolled("--upgrade", "--straight", "--run", "1")


def rolled(*arguments: str) -> str:
    """Returns what it printed."""
    command = [sys.executable, str(ROLLING), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "handed back after they began 0" in done.stdout, done.stdout
    return done.stdout
