"""Makes what the packages carry beside the source: native parts, documentation for `/ui/docs/`, man pages, the commit.

hatchling calls it for each wheel and sdist; `python hatch_build.py` builds the native parts in place, `python
hatch_build.py docs` the documentation. The sdist has all but the native parts, and a wheel that is built from it takes
them over. Each is left out where it cannot be made, and the package does without it:

- Native parts are small programs and libraries in C, made with whatever C compiler is there. They know nothing of
  Python's own interface, so one wheel serves all versions of it on one kind of machine. An editable installation has
  them, too.
- The documentation (`scripts/website/built_in.py`) and the man pages (`raftsched man`) need a checkout, what
  requirements.lock names, and seconds.
- The commit is RAFTSCHED_COMMIT, or that of the checkout. `raftsched --version` says it.

RAFTSCHED_PROJECT_URL, when it is set, is the address of the repository: the metadata of the packages name it.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

MANUAL = Path("manual")  # share/man of the wheel; a name that .gitignore has is left out of the wheel, too
DOCS = Path("raftsched", "ui", "docs.json.br")
COMMIT = Path("raftsched", "commit.txt")
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


def build_docs(root: Path) -> Path | None:
    """Builds the documentation in place. Returns its file: where it cannot be built, that of an sdist, or None."""
    file = root / DOCS
    return file if _made(root, file, "-m", "scripts.website.built_in") else None


def build_manual(root: Path) -> Path | None:
    """Writes the man pages. Returns their directory: where they cannot be made, that of an sdist, or None."""
    folder = root / MANUAL
    return folder if _made(root, folder, "-m", "raftsched", "man", inside="man1") else None


def _made(root: Path, place: Path, *arguments: str, inside: str = "") -> bool:
    """Returns whether a file or folder is there. A checkout makes it anew, by a program of it that is told where."""
    if (root / "scripts" / "website").is_dir():
        beside = place.with_name(f".{place.name}.{os.getpid()}")
        beside.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-B", *arguments, str(beside / inside)]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        for old in (place, *([beside] if done.returncode else [])):
            shutil.rmtree(old) if old.is_dir() else old.unlink(missing_ok=True)
        if done.returncode == 0:
            beside.rename(place)
        else:
            last = (done.stderr.strip().splitlines() or ["?"])[-1]
            print(f"{place.relative_to(root)} is not built, the package is without: {last}", file=sys.stderr)
    return place.exists()


def write_commit(root: Path) -> Path | None:
    """Writes the commit that this is a checkout of. Returns the file: that of an sdist, or None where nobody knows."""
    said = os.environ.get("RAFTSCHED_COMMIT") or _version_module(root).commit_of_checkout(root)
    file = root / COMMIT
    if said:
        file.write_text(f"{said}\n")
    return file if file.exists() else None


def _version_module(root: Path) -> Any:
    spec = importlib.util.spec_from_file_location("raftsched_version", root / "raftsched" / "version.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Parts(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Puts what could be made into the package. With native parts a wheel is for this kind of machine alone."""
        root = Path(self.root)
        made: list[Path] = []
        if self.target_name == "wheel":
            made = build(root)
            if made:
                build_data["pure_python"] = False
                build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
        if version != "editable":  # which looks for both where they are
            made += [file for file in (build_docs(root), write_commit(root)) if file]
            manual = build_manual(root)
            if manual:
                if self.target_name == "wheel":
                    build_data["shared_data"][str(manual)] = "share/man"
                else:
                    build_data["force_include"][str(manual)] = MANUAL.as_posix()
        build_data["artifacts"] += [f"/{file.relative_to(root).as_posix()}" for file in made]


class Addresses(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        """Adds where the project is, for a release: the source says no address that may move."""
        metadata["urls"] = addresses(os.environ.get("RAFTSCHED_PROJECT_URL", ""))


def addresses(repository: str) -> dict[str, str]:
    """Returns the `Project-URL`s of a repository on a code host; none where no address is given."""
    home = repository.rstrip("/")
    if not home:
        return {}
    return {
        "Homepage": home,
        "Repository": home,
        "Documentation": f"{home}/blob/HEAD/docs/index.md",
        "Changelog": f"{home}/blob/HEAD/CHANGELOG.md",
        "Issues": f"{home}/issues",
    }


if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    if sys.argv[1:] == ["docs"]:
        made = [file for file in (build_docs(here),) if file]
    else:
        made = build(here)
    for file in made:
        print(file)
    if sys.argv[1:] == ["docs"] and not made:
        sys.exit(1)
