"""Finds the tests that a change needs: by what they import, and by the table of subjects."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from scripts.suite.bundles import ROOT, files_of_tests
from scripts.suite.subjects import DESIGN, EVERYTHING, NOTHING, SUBJECTS

CODE = ("raftsched", "tests", "scripts")
_WHOLE_NODES = "tests/e2e/"  # these tests are found by the table


class NoBase(Exception):
    """There is no such commit to compare with."""


def changed_files(base: str | None, root: Path = ROOT) -> list[str]:
    """Returns what differs from `base`, with what is not committed; None: from where this branch left origin's main, or
    from the last commit. Raises NoBase."""
    if base is None:
        left = _git(root, "merge-base", "HEAD", "origin/HEAD")
        base = left.strip() if left is not None else "HEAD"
    differing = _git(root, "diff", "--name-only", "--no-renames", base, "--")
    if differing is None:
        raise NoBase(f"git knows no commit {base!r}; name one, such as HEAD~3")
    untracked = _git(root, "ls-files", "--others", "--exclude-standard") or ""
    return sorted({*differing.splitlines(), *untracked.splitlines()})


def _git(root: Path, *words: str) -> str | None:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def select(changed: Iterable[str], root: Path = ROOT) -> list[str] | None:
    """Returns the test files to run, or None where a change concerns all of them."""
    chosen: set[str] = set()
    changed = [path for path in changed if path not in NOTHING]
    if any(path in EVERYTHING for path in changed):
        return None
    graph = importers(root)
    for path in changed:
        by_table = [test for subject in SUBJECTS if _concerns(subject.paths, path) for test in subject.tests]
        by_import = dependents(path, graph)
        if not by_table and path not in graph and not (path.startswith("tests/") and path.endswith(".py")):
            return None  # nobody knows what it is for
        chosen |= set(files_of_tests(place for place in by_table if (root / place).exists())) | by_import
    return sorted(file for file in chosen if (root / file).exists())


def _concerns(paths: tuple[str, ...], path: str) -> bool:
    if path.endswith(f"/{DESIGN}"):
        return DESIGN in paths
    return any(path == one or (one.endswith("/") and path.startswith(one)) for one in paths)


def dependents(path: str, graph: Mapping[str, set[str]]) -> set[str]:
    """Returns the test files that import this module, themselves or by others. Where the module is the product's, those
    of whole nodes are left to the table."""
    through_product = path.startswith("raftsched/")
    seen, waiting = {path}, [path]
    while waiting:
        for importer in graph.get(waiting.pop(), ()):
            if importer not in seen:
                seen.add(importer)
                waiting.append(importer)
    return {
        file
        for file in seen
        if Path(file).name.startswith("test_") and not (through_product and file.startswith(_WHOLE_NODES))
    }


def importers(root: Path = ROOT) -> dict[str, set[str]]:
    """Returns for each module of the repository the modules that import it, also late or for its types."""
    found: dict[str, set[str]] = {}
    for module, imported in imports(root).items():
        found.setdefault(module, set())
        for name in imported:
            found.setdefault(name, set()).add(module)
    return found


def imports(root: Path = ROOT, tops: Iterable[str] = CODE) -> dict[str, set[str]]:
    """Returns for each module of these folders the modules of them that it imports, also late or for its types."""
    modules = {_module(file.relative_to(root)): file for top in tops for file in (root / top).rglob("*.py")}
    graph: dict[str, set[str]] = {}
    door = _door(root / "raftsched/__init__.py") if "raftsched" in tops else {}
    for file in modules.values():
        found = {modules[name] for name in _imported(file, door) if name in modules} - {file}
        graph[str(file.relative_to(root))] = {str(one.relative_to(root)) for one in found}
    graph.pop("raftsched/__init__.py", None)  # it imports what it names when that is asked for
    for file in (root / "tests").rglob("conftest.py"):  # the tests beside it and below use it
        for test in file.parent.rglob("test_*.py"):
            graph[str(test.relative_to(root))].add(str(file.relative_to(root)))
    return graph


def _module(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _door(file: Path) -> dict[str, str]:
    """Returns the module of each name that the package offers."""
    imported = [node for node in ast.walk(ast.parse(file.read_bytes())) if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module for node in imported if node.module is not None for alias in node.names}


def _imported(file: Path, door: Mapping[str, str]) -> set[str]:
    """Returns the names of modules that this one imports; a name that is no module is left to the caller."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            if node.module == "raftsched":
                found |= {door.get(alias.name, "") for alias in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "raftsched":
            found.add(door.get(node.attr, ""))
    return found
