"""Holds requirements.lock against PyPI's list of known vulnerabilities, by pip-audit.

What could not be asked about is never taken for clean: the last line says "not audited: N of N packages". Without a
network that is no failure, since tests have to pass there; with RAFTSCHED_REQUIRE_AUDIT=1 it is one, which is what a
machine that releases or gates is to say.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

LOCK = Path(__file__).parent.parent / "requirements.lock"
LIMIT_S = 180
# Identifier of a vulnerability -> why it does not concern raftsched, and until when that is to be believed.
EXPLAINED: dict[str, str] = {}


def verdict(
    dependencies: list[dict[str, Any]], explained: dict[str, str], locked: Collection[str], *, required: bool
) -> tuple[int, list[str]]:
    """Returns the exit code and lines: 1 when there is a vulnerability that nobody explained, or when a package of the
    lock was not answered for and all have to be. `locked`: the names in the lock."""
    asked = [d for d in dependencies if "skip_reason" not in d]
    found = [(d, v) for d in asked for v in d["vulns"]]
    open_ones = [(d, v) for d, v in found if not {v["id"], *v.get("aliases", ())} & explained.keys()]
    lines = [
        f"{d['name']} {d['version']}: {v['id']}, mended in {', '.join(v.get('fix_versions', ())) or 'no version yet'}"
        for d, v in open_ones
    ]
    if asked:
        lines.append(
            f"{len(asked)} packages audited: {len(open_ones)} known vulnerabilities, {len(found) - len(open_ones)}"
            " explained"
        )
    every = {*locked, *(d["name"] for d in dependencies)}
    left = len(every - {d["name"] for d in asked})
    code = int(bool(open_ones))
    if left or not every:
        why = "nothing answered for them" if asked else "PyPI answered for none; is there a network?"
        more, lines_left = not_audited(left, len(every), why, required=required)
        return code or more, [*lines, *lines_left]
    return code, lines


def not_audited(left: int, of: int, why: str, *, required: bool) -> tuple[int, list[str]]:
    """Returns the exit code and the line of an audit that did not happen, or not for all."""
    says = f"not audited: {left} of {of} packages: {why}"
    return (1, [f"{says} (RAFTSCHED_REQUIRE_AUDIT)"]) if required else (0, [f"SKIPPED, {says}"])


def locked() -> frozenset[str]:
    """Returns the names of the packages in the lock."""
    lines = [line for line in LOCK.read_text().splitlines() if "==" in line and not line.startswith((" ", "#"))]
    return frozenset(re.split(r"[=\[ ]", line)[0] for line in lines)


def main() -> int:
    """Returns the exit code: 0 clean or not audited (it says which), 1 a vulnerability or, where an audit is required,
    none, 2 pip-audit failed for another reason."""
    required = os.environ.get("RAFTSCHED_REQUIRE_AUDIT", "") not in {"", "0"}
    names = locked()
    count = len(names)
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "audit.json"
        command = [sys.executable, "-m", "pip_audit", "-r", str(LOCK), "--require-hashes", "--disable-pip"]
        command += ["--progress-spinner", "off", "-f", "json", "-o", str(out)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            code, lines = not_audited(count, count, f"no answer within {LIMIT_S} s", required=required)
        else:
            if out.exists() and (text := out.read_text()).strip():
                code, lines = verdict(json.loads(text)["dependencies"], EXPLAINED, names, required=required)
            elif any(word in done.stderr for word in ("ConnectionError", "Max retries", "Timeout", "NameResolution")):
                code, lines = not_audited(count, count, "PyPI cannot be reached", required=required)
            else:
                print(done.stderr[-2000:], file=sys.stderr)
                return 2
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main())
