"""Made from surface/worker_sessions.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

OPEN = "/v1/worker-sessions"
POLL = "/v1/worker-sessions/{session}/poll"
BIND = "/v1/worker-sessions/{session}/token"
CLOSE = "/v1/worker-sessions/{session}/close"
OUTPUT = "/v1/worker-sessions/{session}/runs/{token}/output"

OUTCOME = ("succeeded", "failed", "timed_out", "killed", "not_begun", "lost")
VERDICT = ("succeed", "retry", "fail", "cancel", "snooze")
