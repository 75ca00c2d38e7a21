"""Users who cannot start the Python of their node."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from raftsched.core.rules.allowed import Allowed
from raftsched.worker.processes import interpreters
from raftsched.worker.processes.run_as import RunAs
from raftsched.worker.processes.users import User

USER = User("svc", 4711, 4711, (4711,), "/", "/bin/sh")


def answer(found: Any, monkeypatch: pytest.MonkeyPatch, *paths: Path) -> dict[str, str]:
    """Returns what is said where starting Python comes to this: an exception, or an exit code and stderr."""

    def started(argv: list[str], **how: Any) -> SimpleNamespace:
        assert (how["user"], how["group"], list(how["extra_groups"])) == (4711, 4711, [4711])
        assert argv[4:] == [str(path) for path in paths if path.is_dir()]
        if isinstance(found, Exception):
            raise found
        return SimpleNamespace(returncode=found[0], stderr=found[1])

    monkeypatch.setattr(subprocess, "run", started)
    return asyncio.run(interpreters.unfit([USER], paths, {"PATH": "/bin"}))


FATAL = b"Python path:\nModuleNotFoundError: No module named 'encodings'\n\nCurrent thread:\n  <no frame>\n"


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ((0, b""), None),
        (PermissionError(13, "Permission denied"), "it cannot start .*: Permission denied"),
        ((1, FATAL), "does not start as this user: ModuleNotFoundError: No module named 'encodings'"),
        ((3, b""), "it may read none of --pythonpath: /"),
        ((-9, b""), None),
        (BlockingIOError(11, "Resource temporarily unavailable"), None),
        (subprocess.TimeoutExpired("python", 10), None),
    ],
)
def test_what_becomes_of_a_try(found: Any, why: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = answer(found, monkeypatch, tmp_path, tmp_path / "absent")
    assert said.keys() == (set() if why is None else {"svc"})
    if why is not None:
        with pytest.raises(AssertionError, match=why):
            raise AssertionError(said["svc"])
        assert interpreters.warning(said).startswith("no python and call jobs run here as svc: ")


async def test_without_functions_or_other_users_nothing_is_tried() -> None:
    run_as = RunAs({"default": "svc"})
    run_as.users = {"svc": USER}
    assert await interpreters.tried(("http", "exec"), run_as, (), {}) == {}
    assert await interpreters.tried(("python", "call"), RunAs(), (), {}) == {}


@pytest.mark.parametrize(
    ("run_as", "allowed", "unfit", "found"),
    [
        ({"default": "x"}, {}, (), ()),
        ({"default": "x"}, {}, ("x",), None),
        ({"default": "x", "a": "y"}, {}, ("x",), (("a", ()), ("default", ("", "x")))),
        ({"default": "x", "a": "y"}, {}, ("x", "y"), None),
        ({"a": "x"}, {}, ("x",), (("a", ("", "x")), ("default", ()))),
        ({"default": "x"}, {"a": ["y"]}, ("y",), (("a", ("y",)), ("default", ()))),
        ({"default": "x"}, {"a": ["y"]}, ("x",), (("a", ("", "x")), ("default", ("", "x")))),
    ],
)
def test_whose_jobs_cannot(run_as: Any, allowed: Any, unfit: Any, found: Any) -> None:
    assert RunAs(run_as, allowed).without(unfit) == found


def test_many_users_hold_up_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    users = [User(f"u{number}", number, number, (), "/", "/bin/sh") for number in range(5_000, 5_100)]
    go_on = threading.Event()

    def hangs(_: str, user: User, *__: Any) -> str:
        if user.uid > 5_000:
            go_on.wait()
        return "it cannot"

    monkeypatch.setattr(interpreters, "_why_not", hangs)
    monkeypatch.setattr(interpreters, "ALL_S", 0.2)

    async def body() -> dict[str, str]:
        try:
            return await interpreters.unfit(users, (), {})
        finally:
            go_on.set()

    assert asyncio.run(body()) == {"u5000": "it cannot"}


@pytest.mark.parametrize("confined", [False, True])
def test_an_environment_that_nobody_else_may_enter(
    *, confined: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its interpreter is elsewhere. Forks need what is there alone, unless they load rules from the environment."""
    own = str(tmp_path / "venv" / "bin" / "python")
    asked: list[str] = []

    def started(argv: list[str], **_: Any) -> SimpleNamespace:
        asked.append(argv[0])
        return SimpleNamespace(returncode=0, stderr=b"")

    monkeypatch.setattr(sys, "executable", own)
    monkeypatch.setattr(subprocess, "run", started)
    assert asyncio.run(interpreters.unfit([USER], (), {}, confined=confined)) == {}
    assert (asked == [own]) is confined
    assert confined or Path(asked[0]).samefile(Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}"))


@pytest.mark.parametrize(
    ("allowed", "asks"),
    [
        (None, False),
        (Allowed(exec=("/bin/*",), http=("any",)), False),
        (Allowed(python=("jobs:*",)), True),
        (Allowed(cwd=("/srv",)), True),
    ],
)
def test_rules_that_forks_ask(allowed: Allowed | None, *, asks: bool) -> None:
    assert interpreters.asks_rules(allowed) is asks
