"""When all is over, every node says the same."""

from __future__ import annotations

from typing import Any

from harness.checkers import Evidence, Finding


def agreed(evidence: Evidence) -> Finding:
    finding = Finding("all nodes say the same in the end", len(evidence.final))
    if not evidence.final:
        finding.wrong.append("no node could be read")
        return finding
    (first, said), *others = evidence.final.items()
    for kind, rows in said.items():
        finding.counts[kind] = len(rows)
        ours = {row["id"]: row for row in rows}
        for other, theirs in others:
            found = {row["id"]: row for row in theirs[kind]}
            for key in sorted(ours.keys() | found.keys()):
                if ours.get(key) != found.get(key):
                    finding.wrong.append(f"{kind} {key}: {_differs(first, ours.get(key), other, found.get(key))}")
    return finding


def _differs(one: str, mine: dict[str, Any] | None, other: str, theirs: dict[str, Any] | None) -> str:
    if mine is None or theirs is None:
        return f"only {one if theirs is None else other} has it"
    fields = [name for name in sorted(mine.keys() | theirs.keys()) if mine.get(name) != theirs.get(name)]
    return "; ".join(f"{name} is {mine.get(name)!r} at {one}, {theirs.get(name)!r} at {other}" for name in fields[:3])


RULES = (agreed,)
