"""Builds the packages of one commit: wheel, sdist, a bill of materials and the checksums of all three.

The same commit gives the same bytes, in any directory, at any time and for any user: what is built is an export of the
commit and not the work tree, every time in it is the commit's own, and requirements.lock names the builder.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts import bill_of_materials

ROOT = Path(__file__).resolve().parent.parent
SUMS = "SHA256SUMS"  # as sha256sum writes and checks it


class BuildError(Exception):
    """There are no packages; the text says why."""


def git(*arguments: str, root: Path = ROOT) -> bytes:
    """Returns what git prints. Raises BuildError."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"git {arguments[0]}: {done.stderr.decode().strip()}")
    return done.stdout


def export(commit: str, directory: Path) -> None:
    """Puts the files of the commit into the directory, and nothing that only lies in the work tree."""
    with tarfile.open(fileobj=io.BytesIO(git("archive", "--format=tar", commit))) as tar:
        tar.extractall(directory, filter="data")


def packages(source: Path, out: Path, epoch: int, *targets: str, commit: str = "") -> list[Path]:
    """Builds these targets of hatchling ("sdist", "wheel") from a directory, and returns the files. `commit`: what the
    directory is an export of; an sdist knows it."""
    before = set(out.glob("*"))
    env = {"PATH": os.environ.get("PATH", ""), "SOURCE_DATE_EPOCH": str(epoch), "LC_ALL": "C.UTF-8"}
    env |= {name: os.environ[name] for name in ("RAFTSCHED_PROJECT_URL",) if name in os.environ}
    if commit:
        env["RAFTSCHED_COMMIT"] = commit
    command = [sys.executable, "-P", "-m", "hatchling", "build", "-d", str(out)]
    for target in targets:
        command += ["-t", target]
    done = subprocess.run(command, cwd=source, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"hatchling: {(done.stderr or done.stdout).strip()}")
    return sorted(set(out.glob("*")) - before)


def from_sdist(sdist: Path, out: Path, epoch: int) -> Path:
    """Returns the wheel that is built from an sdist."""
    with tempfile.TemporaryDirectory() as directory:
        with tarfile.open(sdist) as tar:
            tar.extractall(directory, filter="data")
        (source,) = Path(directory).iterdir()
        (wheel,) = packages(source, out, epoch, "wheel")
        return wheel


def lacking(wheel: Path, source: Path) -> list[str]:
    """Returns what is wrong with the files of a wheel: those of the package, what hatch_build.py makes, units, licence,
    and no others."""
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    release = "-".join(wheel.name.split("-")[:2])
    about = ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
    sources = ("DESIGN.md", "*.c")
    files = (path for path in (source / "raftsched").rglob("*") if path.is_file() and not any(map(path.match, sources)))
    wanted = {path.relative_to(source).as_posix() for path in files} | {
        "raftsched/ui/docs.json.br",
        "raftsched/commit.txt",
    }
    wanted |= {f"{release}.dist-info/{name}" for name in about}
    units = (path.name for path in (source / "deploy" / "systemd").iterdir())
    wanted |= {f"{release}.data/data/share/raftsched/systemd/{name}" for name in units}
    manual = (path.name for path in (source / "manual" / "man1").iterdir())
    wanted |= {f"{release}.data/data/share/man/man1/{name}" for name in manual}
    return [f"lacks {name}" for name in sorted(wanted - names)] + [f"carries {name}" for name in sorted(names - wanted)]


def check(files: list[Path]) -> None:
    """Raises BuildError when an index would refuse the packages, or could not show what they say of themselves."""
    command = [sys.executable, "-m", "twine", "--no-color", "check", "--strict", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"twine check: {done.stdout.strip()}")


def build(commit: str, out: Path) -> list[Path]:
    """Builds, checks, and puts the files into `out`, where they replace those of the same names. Returns them."""
    commit = git("rev-parse", "--verify", f"{commit}^{{commit}}").decode().strip()
    epoch = int(git("show", "-s", "--format=%ct", commit))
    with tempfile.TemporaryDirectory(prefix="raftsched-build-") as name:
        source, made = Path(name, "source"), Path(name, "made")
        made.mkdir()
        export(commit, source)
        wheel, sdist = sorted(
            packages(source, made, epoch, "sdist", "wheel", commit=commit), key=lambda path: path.suffix != ".whl"
        )
        wrong = lacking(wheel, source)
        if wrong:
            raise BuildError(f"{wheel.name} {'; '.join(wrong)}")
        check([sdist, wheel])
        bill = made / f"{sdist.name.removesuffix('.tar.gz')}.cdx.json"
        bill.write_text(bill_of_materials.of(source, wheel, epoch), encoding="utf-8")
        files = [wheel, sdist, bill]
        sums = made / SUMS
        sums.write_text("".join(f"{digest(file)}  {file.name}\n" for file in files))
        out.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copyfile(file, out / file.name)) for file in [*files, sums]]


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def main(arguments: list[str]) -> int:
    """Exit code: 0 built, 1 not, and why."""
    parser = argparse.ArgumentParser(description="Builds wheel, sdist, bill of materials and checksums of a commit.")
    parser.add_argument("--commit", default="HEAD", help="a commit or a tag [HEAD]")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where the files go [dist]")
    asked = parser.parse_args(arguments)
    try:
        files = build(asked.commit, asked.out)
        changed = len(git("status", "--porcelain", "--untracked-files=no").splitlines())
    except (BuildError, bill_of_materials.NotLocked) as error:
        print(f"build: {error}", file=sys.stderr)
        return 1
    for file in files:
        print(f"{digest(file)}  {file}")
    if changed and asked.commit == "HEAD":
        print(f"{changed} changed files are not in it: they are not committed", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
