"""What a node can call by name: found in a process that imports it, without harm to the node."""

from __future__ import annotations

import asyncio
import logging
import os
import tomllib
from pathlib import Path

import pytest

from raftsched.errors import StartupError
from raftsched.handlers import HANDLERS_MAX
from raftsched.worker.processes.environment import base_environment
from raftsched.worker.tasks.discovery import Found, discover

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "invoices"
HEAD = "import raftsched\n"


def found(path: Path, *modules: str) -> dict[str, str]:
    return all_found(path, *modules).calls


def all_found(path: Path, *modules: str) -> Found:
    return asyncio.run(discover(modules, [path], base_environment(os.environ)))


def module(path: Path, name: str, text: str) -> None:
    (path / f"{name}.py").write_text(HEAD + text)


def install(path: Path, points: dict[str, str], name: str = "invoices") -> None:
    """What an installer leaves behind of a package with these entry points."""
    info = path / f"{name}-1.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0.0\n")
    lines = "".join(f"{key} = {value}\n" for key, value in points.items())
    (info / "entry_points.txt").write_text(f"[raftsched.executors]\n{lines}")


def test_modules_that_come_first(tmp_path: Path) -> None:
    (tmp_path / "site_of_all.py").write_text("import builtins\nbuiltins.set_up_for_b = 'send'\n")
    module(tmp_path, "mine", "@raftsched.handler(set_up_for_b)\ndef a(): ...\n")
    environ = base_environment(os.environ)
    assert asyncio.run(discover(["mine"], [tmp_path], environ, first=["site_of_all"])).calls == {"send": "mine:a"}
    with pytest.raises(StartupError, match=r"python_first nowhere: it cannot be imported \(ModuleNotFoundError"):
        asyncio.run(discover(["mine"], [tmp_path], environ, first=["nowhere"]))


def test_what_a_module_registers(tmp_path: Path) -> None:
    module(tmp_path, "other", '@raftsched.handler("two")\ndef b(): ...\n')
    module(
        tmp_path,
        "mine",
        "import functools, other\n"
        "print('hello from the import')\n"
        "def logged(f):\n"
        "    @functools.wraps(f)\n"
        "    def g(): return f()\n"
        "    return g\n"
        '@raftsched.handler("one")\ndef a(): ...\n'
        '@logged\n@raftsched.handler("wrapped")\ndef c(): ...\n'
        'class Mail:\n    @staticmethod\n    @raftsched.handler("mail")\n    def send(): ...\n',
    )
    assert found(tmp_path, "mine", "other") == {
        "one": "mine:a",
        "two": "other:b",
        "wrapped": "mine:c",
        "mail": "mine:Mail.send",
    }


def test_how_many_runs_a_process_takes_of_a_function(tmp_path: Path) -> None:
    text = '@raftsched.handler("one", concurrency=20)\nasync def a(): ...\n'
    module(tmp_path, "mine", text + '@raftsched.handler("two")\nasync def b(): ...\n')
    install(tmp_path, {"three": "mine:a", "four": "mine:b"})
    there = all_found(tmp_path, "mine")
    assert there.calls == {"one": "mine:a", "two": "mine:b", "three": "mine:a", "four": "mine:b"}
    assert there.concurrent == {"mine:a": 20}


def test_nothing_to_look_for(tmp_path: Path) -> None:
    assert found(tmp_path) == {}


@pytest.mark.parametrize(
    "text, why",
    [
        ("1 / 0\n", r"cannot be imported \(ZeroDivisionError: division by zero; .*bad.py, line 2\)"),
        ("raise SystemExit(3)\n", "cannot be imported .SystemExit: 3"),
        ("import nowhere_at_all\n", "No module named 'nowhere_at_all'"),
        ("def a(): ...\n", "registers none; decorate functions with @raftsched.handler"),
        ('@raftsched.handler("A b")\ndef a(): ...\n', "1 to 128 characters"),
        ('@raftsched.handler("a")\ndef a(): ...\n@raftsched.handler("a")\ndef b(): ...\n', "has this name already"),
        ('@raftsched.handler("a")\ndef a():\n    yield\n', "bad:a is a generator function"),
        ('@raftsched.handler("a")\ndef a(): ...\ndef a(x): ...\n', "bad:a is something else by now"),
        ("import os\nos._exit(0)\n", "ended without an answer"),
        (
            f'for n in range({HANDLERS_MAX + 1}):\n    raftsched.handler(f"h{{n}}")(raftsched.ClientError)\n',
            f"{HANDLERS_MAX + 1} names are registered; {HANDLERS_MAX} is the limit",
        ),
    ],
)
def test_a_module_that_cannot_be_used_is_named_with_the_reason(tmp_path: Path, text: str, why: str) -> None:
    module(tmp_path, "bad", text)
    with pytest.raises(StartupError, match=why):
        found(tmp_path, "bad")


def test_installed_packages_are_found_by_their_entry_points(tmp_path: Path) -> None:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    (tmp_path / "invoices").symlink_to(EXAMPLE / "invoices")
    install(tmp_path, project["entry-points"]["raftsched.executors"])
    assert found(tmp_path) == {
        "send-invoice": "invoices.handlers:send_invoice",
        "remind-customer": "invoices.handlers:remind_customer",
        "count-words": "invoices.words:count",
    }


def test_a_broken_package_is_left_out_and_what_is_named_wins(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    module(tmp_path, "broken", '@raftsched.handler("half")\ndef a(): ...\nraise RuntimeError("boom")\n')
    module(tmp_path, "good", "def f(): ...\nnothing = 5\ndef g():\n    yield\n")
    module(tmp_path, "named", '@raftsched.handler("both")\ndef mine(): ...\n')
    install(
        tmp_path,
        {"x": "broken", "f": "good:f", "both": "good:f", "n": "good:nothing", "g": "good:g", "Bad": "good:f"},
        "p",
    )
    with caplog.at_level(logging.WARNING, "raftsched.node"):
        assert found(tmp_path, "named") == {"f": "good:f", "both": "named:mine"}
    said = caplog.text
    assert "RuntimeError: boom" in said
    assert "it is not a function" in said
    assert "it is a generator function" in said
    assert "1 to 128 characters" in said
