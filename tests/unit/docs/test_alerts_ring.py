"""deploy/prometheus: promtool reads the rules, and each alert rings and is quiet in a test."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.support.prometheus import promtool

HERE = Path(__file__).parents[3] / "deploy" / "prometheus"


def test_promtool_reads_the_rules() -> None:
    code, said = promtool("check", "rules", "recording.yml", "alerts.yml", cwd=HERE)
    assert code == 0, said


@pytest.mark.slow
def test_each_alert_rings() -> None:
    code, said = promtool("test", "rules", "alerts.test.yml", cwd=HERE)
    assert code == 0, said


@pytest.mark.slow
def test_an_alert_that_does_not_ring_is_noticed(tmp_path: Path) -> None:
    for file in HERE.glob("*.yml"):
        text = file.read_text()
        if file.name == "alerts.yml":
            changed = text.replace("raftsched_raft_has_leader) == 0", "raftsched_raft_has_leader) == 7")
            assert changed != text
            text = changed
        (tmp_path / file.name).write_text(text)
    tests = yaml.safe_load((HERE / "alerts.test.yml").read_text())["tests"]
    about_it = [test for test in tests if "RaftschedNoLeader" in test["name"]]  # all of them would take long
    (tmp_path / "alerts.test.yml").write_text(
        yaml.safe_dump({"rule_files": ["recording.yml", "alerts.yml"], "tests": about_it})
    )
    code, said = promtool("test", "rules", "alerts.test.yml", cwd=tmp_path)
    assert code != 0
    assert "RaftschedNoLeader" in said
