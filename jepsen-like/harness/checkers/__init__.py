"""Judges. Each looks at the history of all calls, at what the jobs wrote, and at what the nodes said when everything
was over; none knows how the cluster works."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from harness.beats import Lives
from harness.history import Record


@dataclass(slots=True)
class Evidence:
    """`final`: what each node said at the end, as {"jobs": rows, "instances": rows, "dead": rows}."""

    record: Record
    lives: Lives
    final: dict[str, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)

    def rows(self, kind: str) -> list[dict[str, Any]]:
        """Of one node; that all say the same is for `equal` to judge."""
        return next(iter(self.final.values()))[kind] if self.final else []


@dataclass(slots=True)
class Finding:
    """What one rule found: how much there was to look at, what was wrong, and figures that are no verdict."""

    rule: str
    looked_at: int = 0
    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def held(self) -> bool:
        return not self.wrong


def judge(evidence: Evidence) -> list[Finding]:
    """By all rules, in the order in which a reader wants to know."""
    from harness.checkers import answers, creates, equal, overlap, registers, windows

    rooms = (creates.RULES, windows.RULES, overlap.RULES, registers.RULES, answers.RULES, equal.RULES)
    return [rule(evidence) for room in rooms for rule in room]
