"""Made from surface/output.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from typing import Literal

StreamName = Literal["stdout", "stderr"]
