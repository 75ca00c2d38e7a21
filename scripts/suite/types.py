"""Checks the types of the package, and of the programs of docs/sdk.md: mypy reads the package once for both.

python -m scripts.suite.types
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.suite.bundles import ROOT
from tests.support.examples import programs


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        files = [Path(directory, f"sdk_line_{block.line}.py") for block in programs()]
        for file, block in zip(files, programs(), strict=True):
            file.write_text(block.text)
        return subprocess.call([sys.executable, "-m", "mypy", ROOT / "raftsched", *files], cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main())
