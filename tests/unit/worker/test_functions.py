"""Which function a python run calls, and when its code is no longer the one on the disk."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftsched.worker.executors.functions import FEW, LOOK_EVERY_S, Changed, Functions, Refused
from tests.support.clock import ManualClock

LONG_AGO_NS = 10**18


class Code:
    """Modules below a directory that is on the import path."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = ManualClock(2 * LONG_AGO_NS // 1_000_000)
        self.functions = Functions([str(root)], self.clock)

    def write(self, name: str, text: str, mtime_ns: int = LONG_AGO_NS) -> None:
        path = self.root / name
        path.write_text(text)
        os.utime(path, ns=(mtime_ns, mtime_ns))

    def call(self, name: str) -> object:
        """As the service does it."""
        begun = self.clock.wall
        function = self.functions.known(name) or self.functions.load(name)
        found = function.call({})
        self.functions.note_new_modules(begun)
        return found


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Code]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield Code(tmp_path)
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_nothing_changed(code: Code) -> None:
    code.write("warm_a.py", "import warm_b\ndef f(): return warm_b.V\n")
    code.write("warm_b.py", "V = 1\n")
    assert [code.call("warm_a:f") for _ in range(3)] == [1, 1, 1]


@pytest.mark.parametrize("name", ["warm_a.py", "warm_b.py", "warm_c.py"])
def test_a_changed_file_is_noticed(code: Code, name: str) -> None:
    code.write("warm_a.py", "import warm_b\ndef f():\n    import warm_c\n    return warm_b.V\n")
    code.write("warm_b.py", "V = 1\n")
    code.write("warm_c.py", "")
    code.call("warm_a:f")
    code.write(name, "V = 2\n", LONG_AGO_NS + 1)
    with pytest.raises(Changed):
        code.call("warm_a:f")
    with pytest.raises(Changed):
        code.call("warm_d:f")  # whatever is asked for: it would be mixed with old code


def test_a_file_that_is_gone_or_replaced_is_noticed(code: Code) -> None:
    code.write("warm_a.py", "def f(): return 1\n")
    code.call("warm_a:f")
    code.write("other", "def f(): return 2\n")
    os.rename(code.root / "other", code.root / "warm_a.py")  # with the same size and time
    with pytest.raises(Changed):
        code.call("warm_a:f")
    (code.root / "warm_a.py").unlink()
    with pytest.raises(Changed):
        code.call("warm_a:f")


def test_what_was_written_while_it_was_imported_is_not_trusted(code: Code) -> None:
    code.write("warm_a.py", "def f(): return 1\n", code.clock.wall * 1_000_000)
    code.call("warm_a:f")
    with pytest.raises(Changed):
        code.call("warm_a:f")


def test_a_file_of_the_future_is_trusted(code: Code) -> None:
    code.write("warm_a.py", "def f(): return 1\n", (code.clock.wall + 60_000) * 1_000_000)
    assert [code.call("warm_a:f") for _ in range(2)] == [1, 1]


def test_where_there_are_many_they_are_looked_at_now_and_then(code: Code) -> None:
    names = [f"warm_{i}" for i in range(FEW)]
    for name in names:
        code.write(f"{name}.py", "")
    code.write("warm_a.py", f"import {', '.join(names)}\ndef f(): return 1\n")
    code.call("warm_a:f")
    code.clock.boot += 1_000
    code.call("warm_a:f")
    code.write("warm_0.py", "V = 2\n", LONG_AGO_NS + 1)
    code.call("warm_a:f")
    code.clock.boot += (FEW + 1) * LOOK_EVERY_S * 1000
    with pytest.raises(Changed):
        code.call("warm_a:f")


def test_code_elsewhere_is_watched_when_it_belongs_to_the_function(
    code: Code, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an installed package does."""
    root = tmp_path_factory.mktemp("installed")
    monkeypatch.syspath_prepend(str(root))
    package = root / "warm_package"
    package.mkdir()
    for name, text in (
        ("__init__", ""),
        ("a", "import warm_other\nfrom warm_package import b\ndef f(): return 1\n"),
        ("b", ""),
    ):
        (package / f"{name}.py").write_text(text)
    (root / "warm_other.py").write_text("")
    for path in root.rglob("*.py"):
        os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
    code.call("warm_package.a:f")
    os.utime(root / "warm_other.py", ns=(LONG_AGO_NS, LONG_AGO_NS + 1))
    code.call("warm_package.a:f")
    os.utime(package / "b.py", ns=(LONG_AGO_NS, LONG_AGO_NS + 1))
    with pytest.raises(Changed):
        code.call("warm_package.a:f")


def test_an_archive_is_watched_as_one_file(code: Code, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = code.root / "warm.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("warm_zipped.py", "def f(): return 1\n")
    os.utime(archive, ns=(LONG_AGO_NS, LONG_AGO_NS))
    monkeypatch.syspath_prepend(str(archive))
    assert [code.call("warm_zipped:f") for _ in range(2)] == [1, 1]
    os.utime(archive, ns=(LONG_AGO_NS, LONG_AGO_NS + 1))
    with pytest.raises(Changed):
        code.call("warm_zipped:f")


def test_names_of_nothing_are_refused(code: Code) -> None:
    code.write("warm_a.py", "x = 1\n")
    for name, why in (("warm_a", "names no function"), ("warm_a:y", "has no 'y'"), ("warm_a:x", "is a int, not")):
        with pytest.raises(Refused, match=why):
            code.call(name)


def test_the_directory_that_paths_start_from_may_be_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: Code
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    code.functions = Functions(["lib", str(tmp_path)], code.clock)
    code.write("warm_a.py", "import warm_b\ndef f(): return 1\n")
    code.write("warm_b.py", "")
    code.call("warm_a:f")
    code.write("warm_b.py", "", LONG_AGO_NS + 1)
    with pytest.raises(Changed):
        code.call("warm_a:f")


def test_with_rules_only_functions_of_allowed_modules_are_found(code: Code) -> None:
    code.write("shopmail.py", "import os\nfrom os import getpid\n\ndef send():\n    return 'sent'\n")
    rules = ("shopmail",)
    assert code.functions.load("shopmail:send", rules).call({}) == "sent"
    for name in (
        "shopmail:os.getpid",
        "shopmail:getpid",
        "shopmail:send.__globals__.copy",
        "shopmail:__loader__.set_data",
    ):
        with pytest.raises(Refused, match="python_allow names shopmail"):
            code.functions.load(name, rules)
    assert code.functions.load("shopmail:getpid", ("shopmail:getpid",)).call({}) == os.getpid()
