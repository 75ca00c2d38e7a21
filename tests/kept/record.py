"""Records anew what a user has: `python -m tests.kept.record`, or with the names of some files only.

It prints what differs from what was kept before: each line of that belongs into the CHANGELOG, or is a fault."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.kept import answers, commands, description, sdk

FOLDER = Path(__file__).resolve().parent / "data"
SHOWN = 200  # lines of a difference
ABOUT = re.compile(r"### |\$ |(class|record|fields|module|def) |  \"")  # lines that say what those below are about
KEPT: dict[str, Callable[[], str]] = {
    "openapi.json": description.text,
    "sdk.txt": sdk.text,
    "help.txt": commands.text,
    **answers.TEXTS,
}


def difference(name: str, now: str) -> list[str]:
    """Returns the lines in which a file differs from what is so now, each place with what it is about; none: it does
    not."""
    path = FOLDER / name
    before = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = f"{name} (kept)", f"{name} (now)"
    lines = (
        list(difflib.unified_diff(before, now.splitlines(), *names, lineterm="")) if before != now.splitlines() else []
    )
    for number, line in enumerate(lines):
        if found := re.match(r"@@ -(\d+)", line):
            above = reversed(before[: int(found[1]) + 2])
            lines[number] = f"{line} {next((one for one in above if ABOUT.match(one)), '')}"
    return lines


def shown(lines: list[str]) -> Iterator[str]:
    """Yields the first lines, and how many there are besides."""
    yield from lines[:SHOWN]
    if len(lines) > SHOWN:
        yield f"... and {len(lines) - SHOWN:,} lines more"


def main(names: list[str]) -> None:
    for name in names or KEPT:
        now = KEPT[name]()
        print("\n".join(shown(difference(name, now))) or f"{name}: as it was")
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(now, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
