"""Names the version of this package. A module of its own, so that whoever says it imports nothing else."""

from __future__ import annotations

__version__ = "0.3.0.dev0"
