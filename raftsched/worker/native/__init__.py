"""Small programs and libraries in C, built when the wheel is. Where there was no compiler they are missing, and whoever
uses one does without."""

from __future__ import annotations

import os


def path(name: str) -> str | None:
    """Returns where the native part of this name is; None: it was not built here."""
    found = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    return found if os.access(found, os.X_OK) else None
