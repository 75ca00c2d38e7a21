"""Results of runs that were dropped, because nobody could keep them."""

from __future__ import annotations

from raftsched.core.model import Attempt

DROPPED = "the result was dropped"  # so begin the words of a worker about it, in the error of an attempt
WHY_MAX = 200  # characters of them


def why_dropped(attempt: Attempt) -> str | None:
    """Returns the words of its worker, if that dropped the attempt's result; None: there is one, or there was none."""
    said = attempt.error
    at = -1 if said is None or attempt.result is not None else said.find(DROPPED)
    return None if said is None or at < 0 else said[at:].partition("\n")[0][:WHY_MAX]
