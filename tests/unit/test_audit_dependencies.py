"""The check of dependencies: a vulnerability fails it, and what was not asked about is not called clean."""

from __future__ import annotations

from typing import Any

from scripts.audit_dependencies import verdict

CLEAN: dict[str, Any] = {"name": "a", "version": "1", "vulns": []}
UNASKED: dict[str, Any] = {"name": "b", "skip_reason": "not found"}
BAD: dict[str, Any] = {
    "name": "c", "version": "2", "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-9"], "fix_versions": ["3"]}],
}  # fmt: skip


def test_a_vulnerability_fails() -> None:
    code, lines = verdict([CLEAN, BAD], {})
    assert code == 1
    assert lines[0] == "c 2: PYSEC-1, mended in 3"


def test_one_that_is_explained_does_not() -> None:
    assert verdict([CLEAN, BAD], {"CVE-9": "of a function that we do not call"})[0] == 0


def test_what_was_not_asked_about_is_said() -> None:
    assert verdict([UNASKED], {}) == (0, ["skipped: PyPI answered for none of 1 packages; is there a network?"])
    assert "1 could not be asked about" in verdict([CLEAN, UNASKED], {})[1][-1]
