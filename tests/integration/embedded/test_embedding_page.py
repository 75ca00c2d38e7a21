"""The programs of docs/embedding.md, as written: one with a node inside, and a test with a cluster."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import raftsched
from raftsched import handlers
from tests.support.patience import patient
from tests.support.ports import free_ports

ROOT = Path(raftsched.__file__).parent.parent
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks() -> list[str]:
    return _BLOCK.findall((ROOT / "docs" / "embedding.md").read_text())


def block(beginning: str) -> str:
    (found,) = [text for text in blocks() if text.startswith(beginning)]
    return str(found)


def test_the_program_with_a_node_inside(tmp_path: Path) -> None:
    (http,) = free_ports(1)
    program = block("# shop/app.py")
    (written,) = re.findall(r'"127\.0\.0\.1:(\d+)"', program)
    assert int(written) not in (*range(7401, 7404), *range(7501, 7504)), "beside 'raftsched dev' it runs, too"
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("")
    (tmp_path / "shop" / "tasks.py").write_text(block("# shop/tasks.py"))
    (tmp_path / "shop" / "app.py").write_text(program.replace(f'"127.0.0.1:{written}"', f'"127.0.0.1:{http}"'))
    env = {**{k: v for k, v in os.environ.items() if not k.startswith("RAFTSCHED")}, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-m", "shop.app"]
    for _ in range(2):  # a program is started more than once
        done = subprocess.run(
            command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=patient(120), check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == "{'sent': 7}\nthe report of last month\n"


def test_the_test_with_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "test_theirs.py").write_text(block("def test_it_runs"))
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "RAFTSCHED"))}
    env |= {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "raftsched.testing.plugin", str(tmp_path)]
    done = subprocess.run(
        command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=patient(120), check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_the_runs_without_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "registered", {})
    exec(block("import raftsched\nimport raftsched.testing"), {"__name__": "theirs"})
