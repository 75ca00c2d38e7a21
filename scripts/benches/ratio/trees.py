"""The versions that are compared: this checkout, and a base that is unpacked beside it."""

from __future__ import annotations

import compileall
import io
import os
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from scripts.benches.figures import note
from tests.support.cluster import ROOT, Cluster

PACKAGE = "raftsched"
NATIVE = "hatch_build.py"  # builds a checkout's native parts in place; a wheel has them
# What nodes of a benchmark are told, where their version knows it.
OPTIONAL = ("--grace", "--http-allow", "--run-as", "--jobs-as-node", "--insecure-raft", "--cluster-key-file")


@dataclass(frozen=True, slots=True)
class Tree:
    """A version of the package in a directory, and which of OPTIONAL it lacks. All run with this interpreter and its
    libraries."""

    name: str
    path: Path
    lacks: frozenset[str]

    @property
    def seals(self) -> bool:
        """Whether its nodes speak TLS to one another where they have a key: since that they ask for one."""
        return "--insecure-raft" not in self.lacks

    def environment(self) -> dict[str, str]:
        return environment(self.path)

    def cluster(self, *, sealed: bool, as_myself: bool = True) -> Cluster:
        """Returns three nodes that are not started yet. `sealed`: TLS between them."""
        cluster = Cluster(3, flags=() if sealed or not self.seals else ("--insecure-raft",), as_myself=as_myself)
        cluster.lacks = self.lacks if sealed else self.lacks | {"--cluster-key-file"}
        if self.path != ROOT:
            for node in cluster.nodes:
                node.source = self.path
        return cluster


def environment(path: Path) -> dict[str, str]:
    """Returns that of a process which imports the package from there. Sets and dicts of it are in the same order each
    time."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAFTSCHED_")}
    return {**kept, "PYTHONPATH": str(path), "PYTHONHASHSEED": "0"}


def this() -> Tree:
    """Returns the checkout, with what is not committed."""
    return _tree("this", ROOT)


def unpacked(base: str, directory: Path) -> Tree:
    """Returns the tree of a commit of this repository, a wheel's file, or a version on the package index. RuntimeError
    when it is none of them."""
    if base.endswith(".whl"):
        _unzip(Path(base), directory)
    elif (commit := _commit(base)) is not None:
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE, check=True)
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            files.extractall(directory, filter="data")
    else:
        _unzip(_downloaded(base, directory), directory)
    return _tree(base, directory)


def _tree(name: str, path: Path) -> Tree:
    if not (path / PACKAGE / "__init__.py").is_file():
        raise RuntimeError(f"{name} holds no package {PACKAGE}")
    if (path / NATIVE).is_file():
        subprocess.run([sys.executable, NATIVE], cwd=path, env=environment(path), stdout=sys.stderr, check=True)
    compileall.compile_dir(path / PACKAGE, quiet=2)  # else the first node would do it
    told = subprocess.run(
        [sys.executable, "-m", PACKAGE, "node", "--help"], env=environment(path), cwd=path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if told.returncode:
        raise RuntimeError(f"{name} does not run with these libraries:\n{told.stderr[-600:]}")
    known = {word for line in told.stdout.splitlines() for word in line.split()[:1]}
    return Tree(name, path, frozenset(OPTIONAL) - known)


def _commit(name: str) -> str | None:
    """Returns the commit that is called so; None when there is none."""
    for revision in (name, f"v{name}"):
        asked = ["git", "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"]
        found = subprocess.run(asked, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
        if found.returncode == 0:
            return found.stdout.strip()
    return None


def _unzip(wheel: Path, directory: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as files:
            files.extractall(directory)
    except (OSError, zipfile.BadZipFile) as error:
        raise RuntimeError(f"{wheel} is no wheel: {error}") from error


def _downloaded(version: str, directory: Path) -> Path:
    note(f"{version} is no commit here: asking the package index ...")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    asked = subprocess.run([*command, "--dest", directory, f"{PACKAGE}=={version}"], check=False)
    wheels = list(directory.glob("*.whl"))
    if asked.returncode or not wheels:
        raise RuntimeError(f"{version} is no commit, no wheel and no released version")
    return wheels[0]
