"""Ratios of processor time: what is compared with what, and how it is told."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from scripts.benches.bars import BARS
from scripts.benches.ratio import compare, trees
from scripts.benches.ratio.trees import ROOT, Tree
from scripts.benches.ratio.work import PARTS
from scripts.benches.table import name

ALL = frozenset[str]()
OLD = frozenset(trees.OPTIONAL) - {"--cluster-key-file"}


def told(**fields: Any) -> dict[str, Any]:
    line = {"bench": compare.BENCH, "base": "0.1", "sealed_links": True, "python": "3.11.7", "of": "exec run, one-shot"}
    return {**line, **compare.ratio([(2_500.0, 5_000.0), (3_000.0, 5_000.0), (2_000.0, 5_000.0)]), **fields}


def test_the_ratio_is_the_median_of_the_pairs_not_the_ratio_of_the_medians() -> None:
    found = compare.ratio([(100, 100), (300, 200), (200, 400)])
    assert (found["ratio"], found["ratio_least"], found["ratio_most"]) == (1.0, 0.5, 1.5)
    assert (found["ours_us"], found["theirs_us"], found["pairs"]) == (200, 200, 3)


def test_the_table_has_both_medians_the_spread_and_the_bar() -> None:
    rows = compare.markdown([told(), told(base="70aca22")]).splitlines()
    assert rows[0] == "| processor time of all processes | this | 0.1 | ratio | of 3 pairs | bar |"
    assert rows[2] == "| exec run, one-shot | 2.50 ms | 5.00 ms | 0.50 | 0.40 to 0.60 |  |"
    assert rows[3].endswith("| 0.40 to 0.60 | at most 0.45: not met |")
    assert "TLS between nodes; Python 3.11.7." in rows
    assert "no TLS between nodes" in compare.markdown([told(sealed_links=False)])
    assert compare.markdown([{"bench": "create"}]) == ""


def test_the_bars_of_ratios_are_of_figures_that_are_measured() -> None:
    named = {name(told(of=part.figure, base="70aca22")) for part in PARTS}
    assert {figure for figure, _ in BARS if figure.startswith("ratio, ")} <= named


def test_nodes_of_both_trees_have_tls_or_neither_has() -> None:
    new, old = Tree("new", ROOT, ALL), Tree("old", Path("/old"), OLD)
    assert new.seals
    assert not old.seals
    for sealed, tree, key, open_ in ((True, new, 1, 0), (False, new, 0, 1), (False, old, 0, 0)):
        cluster = tree.cluster(sealed=sealed)
        cluster.stop()  # none was started; its directory is taken away
        words = cluster.nodes[0].command()
        assert words.count("--cluster-key-file") == key
        assert words.count("--insecure-raft") == open_
        assert ("--grace" in words) == (tree is new)
        assert any(word.startswith(("--run-as", "--jobs-as-node")) for word in words) == (tree is new)
        assert cluster.nodes[0].source == (None if tree is new else Path("/old"))


def test_a_wheel_is_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "some.whl", "w") as files:
        files.writestr("raftsched/__init__.py", "")
        files.writestr("raftsched/__main__.py", "print('  --grace TIME  or so')\nprint('  --run-as USER')\n")
    tree = trees.unpacked(str(tmp_path / "some.whl"), tmp_path / "base")
    assert tree.lacks == frozenset(trees.OPTIONAL) - {"--grace", "--run-as"}


@pytest.mark.parametrize(
    ("files", "why"), [({}, "holds no package"), ({"raftsched/__init__.py": "1/0"}, "not run with")]
)
def test_what_is_no_version_is_told(tmp_path: Path, files: dict[str, str], why: str) -> None:
    with zipfile.ZipFile(tmp_path / "some.whl", "w") as wheel:
        for file, text in files.items():
            wheel.writestr(file, text)
    with pytest.raises(RuntimeError, match=why):
        trees.unpacked(str(tmp_path / "some.whl"), tmp_path / "base")


def test_a_base_is_needed_for_what_is_compared() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "bench.py"), "ratio", "--parts", "create"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr.strip()) == (1, "scripts/bench: create: against which BASE?")
