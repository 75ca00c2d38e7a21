"""The house's walls: who may import whom, who may read a clock, how long a module may be."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.support.modules import MODULES, ROOT, each, name_of, nodes, parsed

LINES_MAX = 500  # beyond it a module says in LONG why it is one subject
LONG: dict[str, str] = {
    "core/model.py": "the rows of jobs and of their runs, which name each other's parts",
    "leader/dispatch/dispatcher.py": "one walk over READY, and the counts that it and its answers keep together",
    "store/store.py": "the one door to log and tables: what is true of both, at a start, a swap and an end",
}

# room -> the rooms it may import. Modules at the top that are no rooms are listed in LEAVES.
ROOMS: dict[str, set[str]] = {
    "core": set(),
    "schedule": {"core"},
    "crontabs": {"schedule"},
    "store": {"core", "security"},
    "raft": {"core", "store", "config", "security"},
    "tracing": {"core"},
    "leader": {"core", "store", "raft", "schedule"},
    "output": {"core", "config", "objectstore"},
    "notices": {"core", "surface"},
    "worker": {"core", "store", "raft", "config", "security", "tracing", "output", "notices"},
    "remote": {"core", "store", "raft", "config", "security", "worker", "output", "client", "tracing", "surface"},
    "surface": set(),
    "api": {
        "core",
        "surface",
        "store",
        "raft",
        "schedule",
        "crontabs",
        "remote",
        "output",
        "notices",
        "config",
        "security",
        "ui",
        "doctor",
        "tracing",
    },
    "ui": set(),
    "doctor": set(),
    "client": {"surface"},
    "importers": {"schedule", "crontabs"},
    "cli": {
        *("client", "doctor", "schedule", "crontabs", "importers", "embedded", "config", "security"),
        "surface",
    },
    "embedded": {"client", "config", "remote", "surface", "tracing"},
    "testing": {"client", "embedded", "security", "worker"},
    # layers of frameworks on the SDK
    "apscheduler": {"client", "embedded", "importers"},
    "celery": {"client", "config", "embedded", "importers"},
    "django": {"client", "cli", "config", "embedded", "testing"},
    "starlette": {"client", "embedded", "importers"},
    "config": {"client", "core", "security", "surface"},
    "security": set(),
    "objectstore": set(),
    "backups": {"core", "store", "raft", "leader", "objectstore", "security"},
    "system": set(),
    # the composition root
    "node": {
        *("core", "store", "raft", "leader", "worker", "output", "objectstore", "remote", "api", "config"),
        "security",
        "surface",
        "tracing",
    },
}
LEAVES = {
    *("bounds", "cluster_settings", "error_texts", "errors", "handlers", "hosts", "lost_majority", "metrics", "names"),
    *("namespace_limits", "quantities", "run", "samples", "system", "templates", "unfinished", "version", "webhooks"),
}
LEAVES_OF = {
    "core": {"bounds", "cluster_settings", "namespace_limits"},
    "schedule": {"errors", "bounds"},
    "crontabs": set(),
    "system": set(),
    "surface": {"bounds", "cluster_settings", "errors", "handlers", "hosts", "names", "namespace_limits", "quantities"},
    "client": {"errors", "handlers", "names", "bounds", "quantities", "system", "version"},
    "importers": {"bounds", "names", "quantities", "system"},
    "cli": {
        *("bounds", "error_texts", "errors", "lost_majority", "names", "namespace_limits", "quantities", "samples"),
        *("system", "unfinished", "version"),
    },
    "ui": set(),
    "doctor": {"lost_majority", "quantities", "system"},
}
# Files directly in a folder with rooms of its own: more of them, and nobody sees the plan.
DIRECTLY_MAX = 12
# Who starts a node imports it when it is started, not before.
NODE_STARTERS = {
    "cli/dev/dev_command.py",
    "cli/dev/processes.py",
    "cli/main.py",
    "embedded/node.py",
    "embedded/process.py",
    "testing/temporary_nodes.py",
}

# What works without a node reads the store itself, and says so by importing it late.
OFFLINE = {
    "cli/cluster/backup.py": {"backups", "store"},
    "cli/doctor/configured.py": {"objectstore"},
    "cli/doctor/directory.py": {"store"},
    "cli/backup/place.py": {"backups", "objectstore", "store"},
    "cli/backup/listing.py": {"backups"},
    "cli/backup/run.py": {"backups"},
    "cli/backup/source.py": {"backups"},
    "cli/backup/verify.py": {"backups"},
    "cli/backup/restore.py": {"backups", "store"},
    "cli/backup/show.py": {"backups", "store", "core", "api"},
}

# apply is private to core: its rows are in core/rows.py, its pure rules beside their subjects
APPLY_USERS = {
    "store/tables.py": {"Applier"},  # applies the entries of the log
    "backups/restore.py": {"Tx"},  # changes the rows of a store that no node has open
    "backups/settling.py": {"Tx", "restored"},  # the same
}

# core computes with what commands carry, and with nothing else
BANNED_IN_CORE = {
    *("time", "random", "uuid", "os", "datetime", "secrets"),
    *("socket", "threading", "asyncio", "pathlib", "io"),
}
TIME_READERS = {
    *("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"),
    *("clock_gettime", "clock_gettime_ns", "process_time", "thread_time", "localtime", "gmtime"),
}


def room_of(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return parts[0] if len(parts) > 1 else ""


@cache
def imports(path: Path, *, lazy: bool) -> set[str]:
    """Full names of what is imported, inside functions only when `lazy`, for type checking never."""
    found: set[str] = set()

    def walk(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                found.update(alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, "imports are absolute"
                module = child.module or ""
                found.add(module)
                if module == "raftsched":
                    found.update(f"raftsched.{alias.name}" for alias in child.names)
            elif (isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not lazy) or (
                isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
            ):
                continue
            else:
                walk(child)

    walk(parsed(path))
    return found


@each(MODULES)
@pytest.mark.slow
def test_imports_go_one_way(path: Path) -> None:
    room = room_of(path)
    if not room:
        return  # the composition root, and the leaves below
    allowed = ROOMS[room] | {room}
    ordinary = LEAVES - {"samples"}
    leaves = LEAVES_OF.get(room, ordinary)
    for name in sorted(imports(path, lazy=True)):
        top, _, rest = name.partition(".")
        if top != "raftsched" or not rest:
            continue
        target = rest.split(".")[0]
        if (target == "node" and name_of(path) in NODE_STARTERS) or target in OFFLINE.get(name_of(path), ()):
            assert name not in imports(path, lazy=False), f"{name} has to be imported when it is needed"
            continue
        assert target in allowed or target in leaves, f"{name_of(path)} must not import {name}"


@each([p for p in MODULES if not room_of(p)])
def test_leaves_import_no_rooms_but_the_heart(path: Path) -> None:
    if path.stem not in LEAVES:
        return
    for name in imports(path, lazy=True):
        if name.startswith("raftsched."):
            assert name.split(".")[1] in {"core", *LEAVES}, f"{path.stem} must not import {name}"


@each([p for p in MODULES if room_of(p) != "core"])
def test_nobody_imports_apply(path: Path) -> None:
    taken = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            assert not any(alias.name.startswith("raftsched.core.apply") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("raftsched.core.apply"):
            taken.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "raftsched.core":
            assert "apply" not in {alias.name for alias in node.names}
    assert taken <= APPLY_USERS.get(name_of(path), set()), f"{name_of(path)} must not import {taken} of core.apply"


@each([p for p in MODULES if room_of(p) == "core"])
def test_core_is_pure(path: Path) -> None:
    for name in imports(path, lazy=True):
        assert name.split(".")[0] not in BANNED_IN_CORE, f"{name_of(path)} imports {name}"
    for node in nodes(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"open", "print", "input", "hash", "id", "eval", "exec"}
        # the order of a set of bytes differs from process to process
        if isinstance(node, ast.For | ast.comprehension):
            assert not isinstance(node.iter, ast.Set | ast.SetComp), "walking a set has no order"


@each(MODULES)
def test_only_the_clock_reads_time(path: Path) -> None:
    for node in nodes(path):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            read = f"{node.value.id}.{node.attr}"
            if node.value.id == "time" and node.attr in TIME_READERS:
                assert name_of(path) == "system/clock.py", f"{name_of(path)} reads {read}"
            if node.value.id in {"datetime", "date"}:
                assert node.attr not in {"now", "utcnow", "today"}, f"{name_of(path)} reads {read}"
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            taken = {alias.name for alias in node.names} & TIME_READERS
            assert not taken or name_of(path) == "system/clock.py", f"{name_of(path)} reads {taken}"


@each(MODULES)
def test_one_room_knows_the_raft_library_and_nobody_pickles(path: Path) -> None:
    for name in imports(path, lazy=True):
        top = name.split(".")[0]
        assert top not in {"pickle", "cPickle", "dill", "marshal", "shelve"}, f"{name_of(path)} imports {name}"
        assert top != "pysyncobj" or room_of(path) == "raft", f"{name_of(path)} imports {name}"


@each(MODULES)
def test_modules_fit_in_a_head(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= LINES_MAX or name_of(path) in LONG, (
        f"{name_of(path)} has {lines} lines: split it if it has two subjects; if it is one, say in LONG why"
    )


def test_reasons_are_given_for_long_modules_only() -> None:
    assert not {name for name in LONG if len((ROOT / name).read_text().splitlines()) <= LINES_MAX}


@each(MODULES)
def test_every_module_says_what_it_is(path: Path) -> None:
    tree = parsed(path)
    assert ast.get_docstring(tree) or not tree.body, f"{name_of(path)} has no docstring"


def test_every_room_is_known() -> None:
    rooms = {room_of(path) for path in MODULES} - {""}
    assert rooms <= ROOMS.keys(), f"say in ROOMS what {rooms - ROOMS.keys()} may import"


@pytest.mark.parametrize("room", ["api", "cli"])
def test_large_rooms_show_their_plan(room: str) -> None:
    assert len(list((ROOT / room).glob("*.py"))) <= DIRECTLY_MAX
