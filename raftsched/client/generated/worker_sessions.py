"""Made from surface/worker_sessions.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from typing import Literal

Outcome = Literal["succeeded", "failed", "timed_out", "killed", "not_begun", "lost"]
Verdict = Literal["succeed", "retry", "fail", "cancel", "snooze"]
