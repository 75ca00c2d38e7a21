"""deploy/homebrew: the formula is the one that ./scripts/make-formula writes, and what it asks of the lock is there."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from raftsched.cli.main import cli
from scripts import make_formula

TEXT = make_formula.FORMULA.read_text()


def test_it_is_made_of_the_lock() -> None:
    assert make_formula.formula(**make_formula.NOT_FILLED) == TEXT, "run ./scripts/make-formula"


def test_each_package_is_in_the_lock_with_hashes() -> None:
    """As the formula finds it there."""
    (listed,) = re.findall(r"PACKAGES = %w\[(.*?)\]", TEXT, re.DOTALL)
    names = listed.split()
    parts = re.split(r"^(?=[a-z0-9])", (make_formula.ROOT / "requirements.lock").read_text(), flags=re.MULTILINE)
    found = {match[0]: part for part in parts if (match := re.match(r"[a-z0-9._-]+", part))}
    assert {"aiohttp", "lmdb", "uvloop"} <= {*names}
    assert not {"pytest", "mkdocs", "hatchling"} & {*names}
    for name in names:
        assert "--hash=sha256:" in found[name], name


def test_the_commands_that_it_runs_are_there() -> None:
    commands = re.findall(r'bin/"raftsched", "(\w+)"', TEXT)
    assert {"dev", "keys"} == {*commands}
    for name in commands:
        assert cli.get_command(click.Context(cli), name) is not None, name


def test_a_release_fills_in_where_it_is(tmp_path: Path) -> None:
    sdist = tmp_path / "raftsched-1.tar.gz"
    sdist.write_bytes(b"abc")
    out = tmp_path / "raftsched.rb"
    url = "https://files.example/raftsched-1.tar.gz"
    make_formula.main(shlex.split(f"--url {url} --sdist {sdist} --project https://project.example --out {out}"))
    text = out.read_text()
    assert not [value for value in make_formula.NOT_FILLED.values() if value in text]
    assert f'url "{url}"\n  sha256 "ba7816bf' in text


def test_ruby_can_read_it() -> None:
    if shutil.which("ruby") is None:
        pytest.skip("there is no ruby here")
    done = subprocess.run(["ruby", "-c", make_formula.FORMULA], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
