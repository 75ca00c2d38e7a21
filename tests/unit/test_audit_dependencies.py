"""The check of dependencies: a vulnerability fails it, and what was not asked about is not called clean."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from scripts.audit_dependencies import locked, main, verdict

CLEAN: dict[str, Any] = {"name": "a", "version": "1", "vulns": []}
UNASKED: dict[str, Any] = {"name": "b", "skip_reason": "not found"}
BAD: dict[str, Any] = {
    "name": "c", "version": "2", "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-9"], "fix_versions": ["3"]}],
}  # fmt: skip


def test_a_vulnerability_fails() -> None:
    code, lines = verdict([CLEAN, BAD], {}, "ac", required=False)
    assert code == 1
    assert lines[0] == "c 2: PYSEC-1, mended in 3"


def test_one_that_is_explained_does_not() -> None:
    assert verdict([CLEAN, BAD], {"CVE-9": "of a function that we do not call"}, "ac", required=True)[0] == 0


@pytest.mark.parametrize(
    ("dependencies", "locked", "says"),
    [
        ([], "", "0 of 0 packages: PyPI answered for none; is there a network?"),
        ([], "ab", "2 of 2 packages: PyPI answered for none; is there a network?"),
        ([UNASKED], "b", "1 of 1 packages: PyPI answered for none; is there a network?"),
        ([CLEAN, UNASKED], "ab", "1 of 2 packages: nothing answered for them"),
        ([CLEAN], "abd", "2 of 3 packages: nothing answered for them"),  # the answer leaves them out
    ],
)
def test_what_was_not_asked_about_is_not_clean(dependencies: list[dict[str, Any]], locked: str, says: str) -> None:
    code, lines = verdict(dependencies, {}, locked, required=False)
    assert (code, lines[-1]) == (0, f"SKIPPED, not audited: {says}")  # the suite's summary shows such lines
    code, lines = verdict(dependencies, {}, locked, required=True)
    assert (code, lines[-1]) == (1, f"not audited: {says} (RAFTSCHED_REQUIRE_AUDIT)")


def test_a_vulnerability_is_told_beside_what_was_not_asked_about() -> None:
    code, lines = verdict([BAD, UNASKED], {}, "bc", required=False)
    assert (code, lines[0], len(lines)) == (1, "c 2: PYSEC-1, mended in 3", 3)


@pytest.mark.parametrize("required", ["", "1"])
def test_what_does_not_answer_at_all_is_not_clean(
    required: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def late(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("pip_audit", 1)

    monkeypatch.setattr(subprocess, "run", late)
    monkeypatch.setenv("RAFTSCHED_REQUIRE_AUDIT", required)
    assert main() == (1 if required else 0)
    assert f"not audited: {len(locked())} of {len(locked())} packages: no answer within" in capsys.readouterr().out
    assert len(locked()) > 50
