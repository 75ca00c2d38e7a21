"""The interpreters of this machine, one of each minor version that raftsched is said to run on."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.support.modules import ROOT

NAMED = "Programming Language :: Python :: "


def versions() -> list[str]:
    """Returns the minor versions that the package's metadata names, as "3.11"."""
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["project"]
    said = [text.removeprefix(NAMED) for text in project["classifiers"] if text.startswith(f"{NAMED}3.")]
    return sorted(said, key=lambda version: int(version.partition(".")[2]))


def interpreter(version: str) -> Path | None:
    """Returns the path of an interpreter of this minor version; None: there is none here."""
    for path in _candidates(version):
        code = "import sys, venv; print(sys.executable); sys.exit(sys.version_info.releaselevel != 'final')"
        try:
            done = subprocess.run([path, "-I", "-c", code], capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:  # a shim may lead nowhere
            return Path(done.stdout.strip())
    return None


def _candidates(version: str) -> Iterator[str]:
    on_path = shutil.which(f"python{version}")
    if on_path is not None:
        yield on_path
    kept = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
    yield from (str(path / "bin" / "python") for path in sorted(kept.glob(f"{version}.*"), reverse=True))
