"""Made from surface/workflows.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from typing import Literal

WorkflowStateName = Literal["running", "succeeded", "failed", "killed"]
