"""Holds requirements.lock against PyPI's list of known vulnerabilities, by pip-audit.

What could not be asked about is never taken for clean: without the network the check says that it was skipped.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LOCK = Path(__file__).parent.parent / "requirements.lock"
LIMIT_S = 180
# Identifier of a vulnerability -> why it does not concern raftsched, and until when that is to be believed.
EXPLAINED: dict[str, str] = {}


def verdict(dependencies: list[dict[str, Any]], explained: dict[str, str]) -> tuple[int, list[str]]:
    """(exit code, lines): 1 when there is a vulnerability that nobody explained."""
    asked = [d for d in dependencies if "skip_reason" not in d]
    found = [(d, v) for d in asked for v in d["vulns"]]
    open_ones = [(d, v) for d, v in found if not {v["id"], *v.get("aliases", ())} & explained.keys()]
    lines = [
        f"{d['name']} {d['version']}: {v['id']}, mended in {', '.join(v.get('fix_versions', ())) or 'no version yet'}"
        for d, v in open_ones
    ]
    if not asked:
        return 0, [f"skipped: PyPI answered for none of {len(dependencies)} packages; is there a network?"]
    left = len(dependencies) - len(asked)
    more = f", and {left} could not be asked about" if left else ""
    lines.append(
        f"{len(asked)} packages: {len(open_ones)} known vulnerabilities, {len(found) - len(open_ones)} explained{more}"
    )
    return int(bool(open_ones)), lines


def main() -> int:
    """Exit code: 0 clean or skipped (it says which), 1 a vulnerability, 2 pip-audit failed for another reason."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "audit.json"
        command = [sys.executable, "-m", "pip_audit", "-r", str(LOCK), "--require-hashes", "--disable-pip"]
        command += ["--progress-spinner", "off", "-f", "json", "-o", str(out)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            print(f"skipped: no answer within {LIMIT_S} s")
            return 0
        if not out.exists() or not out.read_text().strip():
            if any(word in done.stderr for word in ("ConnectionError", "Max retries", "Timeout", "NameResolution")):
                print("skipped: PyPI cannot be reached")
                return 0
            print(done.stderr[-2000:], file=sys.stderr)
            return 2
        code, lines = verdict(json.loads(out.read_text())["dependencies"], EXPLAINED)
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main())
