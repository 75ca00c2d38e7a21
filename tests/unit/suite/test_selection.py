"""Which tests a change needs, and which parts ran with what is here."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from scripts.suite import parts, selection
from scripts.suite.bundles import ROOT, files_of_tests
from scripts.suite.parts import PARTS
from scripts.suite.subjects import DESIGN, EVERYTHING, NOTHING, SUBJECTS, table


def small(root: Path) -> Path:
    """Returns a repository of a product of two modules, and tests of each."""
    files = {
        "raftsched/__init__.py": "from raftsched.low import x\n",
        "raftsched/low.py": "x = 1\n",
        "raftsched/high.py": "def f():\n    from raftsched import low\n    return low.x\n",
        "raftsched/apart.py": "import raftsched\n",
        "raftsched/asks.py": "import raftsched\nprint(raftsched.x)\n",
        "tests/support/bed.py": "import raftsched.high\n",
        "tests/unit/test_low.py": "from raftsched.low import x\n",
        "tests/unit/test_by_bed.py": "from tests.support.bed import *\n",
        "tests/unit/test_apart.py": "import raftsched.apart\n",
        "tests/unit/test_asks.py": "import raftsched.asks\n",
        "tests/unit/test_door.py": "from raftsched import x\n",
        "tests/unit/deep/conftest.py": "import raftsched.high\n",
        "tests/unit/deep/test_fixture.py": "",
        "tests/e2e/test_whole.py": "from tests.support import bed\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture(scope="module", autouse=True)
def _graph_of_the_repository() -> Iterator[None]:
    """Reads all modules once: that takes seconds."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(selection, "importers", cache(selection.importers))
        yield


def chosen(path: str, root: Path) -> set[str]:
    return {Path(file).stem for file in selection.dependents(path, selection.importers(root))}


def test_imports_lead_to_the_tests(tmp_path: Path) -> None:
    root = small(tmp_path)
    assert chosen("raftsched/low.py", root) == {
        *("test_low", "test_by_bed", "test_fixture"),  # late imports count
        *("test_asks", "test_door"),  # and what the package's door is asked for
    }
    assert chosen("raftsched/apart.py", root) == {"test_apart"}
    assert chosen("tests/support/bed.py", root) == {"test_by_bed", "test_whole"}
    assert chosen("tests/unit/test_low.py", root) == {"test_low"}


@pytest.mark.slow
def test_the_table_leads_to_tests_of_whole_nodes() -> None:
    files = selection.select(["raftsched/output/receivers/syslog.py"])
    assert files is not None
    assert {"tests/e2e/test_shipping.py", "tests/unit/output/test_syslog.py"} <= set(files)
    assert "tests/e2e/test_queues.py" not in files


def test_a_design_is_a_document_of_whatever_room() -> None:
    files = selection.select(["raftsched/output/DESIGN.md"])
    assert files == selection.select(["docs/decisions.md"])


@pytest.mark.parametrize("path", ["tests/conftest.py", "something/new.txt"])
def test_what_concerns_everything_or_nobody_knows_runs_all(path: str) -> None:
    assert selection.select([path]) is None


def test_what_concerns_no_test_runs_none() -> None:
    assert selection.select(["LICENSE"]) == []


def test_what_was_changed_is_told_with_what_is_not_committed(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        who = ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text("1")
    git("add", ".")
    git("commit", "-qm", "first")
    (tmp_path / "a").write_text("2")
    git("commit", "-qam", "second")
    (tmp_path / "b").write_text("2")
    (tmp_path / "new").write_text("1")
    assert selection.changed_files(None, tmp_path) == ["b", "new"]  # no origin: since the last commit
    assert selection.changed_files("HEAD~1", tmp_path) == ["a", "b", "new"]
    with pytest.raises(selection.NoBase, match="no commit 'elsewhere'"):
        selection.changed_files("elsewhere", tmp_path)


def test_what_the_table_names_is_there() -> None:
    named = [place for subject in SUBJECTS for place in (*subject.paths, *subject.tests)]
    named += [*EVERYTHING, *NOTHING, *(place for part in PARTS for place in (*part.tests, *part.subjects))]
    gone = [place for place in named if place != DESIGN and not (ROOT / place).exists()]
    assert not gone


def test_the_table_of_the_contributors_is_this_one() -> None:
    assert table() in (ROOT / "CONTRIBUTING.md").read_text()


def test_every_room_of_the_product_has_a_line() -> None:
    rooms = {f"raftsched/{path.name}/" for path in (ROOT / "raftsched").iterdir() if (path / "__init__.py").exists()}
    assert not rooms - {path for subject in SUBJECTS for path in subject.paths}


def test_a_part_runs_again_once_something_it_is_about_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = small(tmp_path)
    part = parts.Part("whole", ("tests/e2e/test_whole.py",), ("raftsched/low.py",))
    monkeypatch.setattr(parts, "PARTS", (part,))
    monkeypatch.setattr(parts, "ALWAYS", ("lock",))
    (root / "lock").write_text("1")
    assert parts.unchanged(root) == []
    parts.keep(root)
    assert parts.unchanged(root) == [part]
    for name, counts in (
        ("raftsched/high.py", False),
        ("lock", True),
        ("raftsched/low.py", True),
        ("tests/support/bed.py", True),
        ("tests/e2e/test_whole.py", True),
    ):
        (root / name).write_text(f"{(root / name).read_text()}\n")
        assert (parts.unchanged(root) == []) == counts, name
        parts.keep(root)


def test_parts_are_a_small_share_of_the_tests() -> None:
    of_parts = files_of_tests(test for part in PARTS for test in part.tests)
    assert len(of_parts) < len(files_of_tests(["tests"])) / 20
