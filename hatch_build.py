"""Builds the native parts: small programs and libraries in C, with whatever C compiler is there.

hatchling calls it for each wheel, also for an editable installation; `python hatch_build.py` builds them in place. They
know nothing of Python's own interface, so one wheel serves all versions of it on one kind of machine. Without a
compiler, or where it fails, the wheel is Python alone and the package does without them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = Path("raftsched", "worker", "native")
FLAGS = ("-std=c11", "-Os", "-g0", "-s", "-Wall", "-Wextra", "-Wl,--build-id=none", "-Wl,-z,relro,-z,now")
# By file: what is tried, the first that works is taken. A source has the same name, with .c at its end.
BARE = ("-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector", "-fno-asynchronous-unwind-tables")
PROGRAM = ((*BARE, "-DWITHOUT_LIBRARY"), ("-static",), ())
LIBRARY = (("-shared", "-fPIC"),)
PARTS = {"confine": PROGRAM, "remains.so": LIBRARY}


def compiler() -> str | None:
    return shutil.which(os.environ.get("CC") or "cc") or shutil.which("gcc")


def build(root: Path, *more: str) -> list[Path]:
    """Builds the parts in place, each anew where it is not newer than its source. `more`: flags for the compiler.
    Returns those that are there then; of one that cannot be built, what an older source made is removed."""
    made = []
    for name, attempts in PARTS.items():
        file = root / PLACE / name
        source = file.with_suffix(".c")
        if not (file.exists() and file.stat().st_mtime_ns > source.stat().st_mtime_ns):
            file.unlink(missing_ok=True)
            _compile(source, file, attempts, more)
        if file.exists():
            made.append(file)
    return made


def _compile(source: Path, file: Path, attempts: tuple[tuple[str, ...], ...], more: tuple[str, ...]) -> None:
    cc = compiler()
    if cc is None:
        print(f"{file.name} is not built: there is no C compiler", file=sys.stderr)
        return
    beside = file.with_name(f".{file.name}.{os.getpid()}")  # whole, or not there
    said = ""
    for flags in attempts:
        # Names without directories: nothing of where it was built is in it.
        command = [cc, *FLAGS, *more, *flags, "-o", beside.name, source.name]
        try:
            done = subprocess.run(command, cwd=source.parent, capture_output=True, text=True, check=False)
        except OSError as exc:
            said = str(exc)
            continue
        said = done.stderr
        if done.returncode == 0:
            beside.chmod(0o755)
            beside.rename(file)
            return
    beside.unlink(missing_ok=True)
    print(f"{file.name} is not built: {said.strip()}", file=sys.stderr)


class NativeParts(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Puts what could be built into the wheel, which is then for this kind of machine alone."""
        made = build(Path(self.root))
        if made:
            build_data["artifacts"] += [f"/{file.relative_to(self.root).as_posix()}" for file in made]
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


if __name__ == "__main__":
    for part in build(Path(__file__).resolve().parent):
        print(part)
