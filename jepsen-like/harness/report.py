"""One HTML file that needs nothing else: the verdict, what failed and why, and pictures of the faults, the leaders,
how long calls took and how late runs were."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import zip_longest
from math import log10
from pathlib import Path
from typing import Any

from harness.checkers import Evidence, Finding
from harness.clock import SECOND

WIDTH, LEFT, ROW, PLOT = 1160, 190, 16, 150
COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#bbbbbb")
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 1200px; padding: 0 1em; color: #222; }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin-top: 2em }
table { border-collapse: collapse }
td, th { padding: .25em .8em; text-align: left; vertical-align: top; border-bottom: 1px solid #ddd }
.held { color: #17692a; font-weight: 600 } .broken { color: #b00020; font-weight: 600 }
pre { background: #f6f6f6; padding: .8em; overflow-x: auto; font-size: 13px }
svg text { font: 11px system-ui, sans-serif }
.num { text-align: right; font-variant-numeric: tabular-nums }
"""


def write(file: Path, title: str, facts: dict[str, str], findings: Sequence[Finding], evidence: Evidence) -> None:
    held = all(finding.held for finding in findings)
    mark, word = ("held", "everything held") if held else ("broken", "broken")
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title><style>{STYLE}</style>",
        f"<h1>{escape(title)}: <span class={mark}>{word}</span></h1>",
        "<table>" + "".join(f"<tr><td>{escape(k)}<td>{escape(v)}" for k, v in facts.items()) + "</table>",
        "<h2>Verdict</h2>",
        _verdict(findings),
        *(_why(finding) for finding in findings if not finding.held),
        "<h2>Faults and leaders</h2>",
        _faults(evidence),
        "<h2>How long calls took (seconds)</h2>",
        "<p>Grey: nobody knows what came of it. Red: refused.</p>",
        _plot(evidence, _calls(evidence)),
        "<h2>How late one-shots started (seconds)</h2>",
        _plot(evidence, _lateness(evidence)),
        "</html>",
    ]
    file.write_text("\n".join(parts))


def _verdict(findings: Sequence[Finding]) -> str:
    rows = ["<table><tr><th>rule<th>looked at<th>violations<th>"]
    for finding in findings:
        counts = ", ".join(f"{name}: {number:,}" for name, number in sorted(finding.counts.items()))
        mark = "held" if finding.held else "broken"
        rows.append(
            f"<tr><td>{escape(finding.rule)}<td class=num>{finding.looked_at:,}"
            f"<td class='num {mark}'>{len(finding.wrong):,}<td>{escape(counts)}"
        )
    return "".join(rows) + "</table>"


def _why(finding: Finding) -> str:
    shown = "\n".join(finding.wrong[:40])
    more = f"\n... and {len(finding.wrong) - 40:,} more" if len(finding.wrong) > 40 else ""
    return f"<h2>Broken: {escape(finding.rule)}</h2><pre>{escape(shown + more)}</pre>"


class Axis:
    """Time on the horizontal."""

    def __init__(self, evidence: Evidence) -> None:
        self.begin: int = evidence.record.noted("begin")[0]["at"]
        times = [op.ended or op.began for op in evidence.record.ops] + [n["at"] for n in evidence.record.notes]
        self.seconds: float = max(1.0, (max(times) - self.begin) / SECOND)

    def x(self, at: float) -> float:
        return LEFT + (at - self.begin) / SECOND / self.seconds * (WIDTH - LEFT - 10)

    def ticks(self, height: float) -> str:
        step = next(s for s in (5, 10, 30, 60, 120, 300, 600, 1800, 10**9) if self.seconds / s <= 14)
        marks = []
        for number in range(int(self.seconds // step) + 1):
            x = self.x(self.begin + number * step * SECOND)
            marks.append(
                f"<line x1={x:.1f} x2={x:.1f} y1=0 y2={height} stroke='#eee'/>"
                f"<text x={x:.1f} y={height + 12} fill='#777'>{number * step} s</text>"
            )
        return "".join(marks)


def _faults(evidence: Evidence) -> str:
    axis = Axis(evidence)
    names = sorted({note["name"] for note in evidence.record.noted("healed")})
    height = (len(names) + 1) * ROW + 4
    parts = [f"<svg width={WIDTH} height={height + 18}>", axis.ticks(height)]
    nodes = sorted({note["node"] for note in evidence.record.noted("leader") if note["node"]})
    changes = evidence.record.noted("leader")
    for change, following in zip_longest(changes, changes[1:]):
        if change["node"] is not None:
            end = axis.begin + axis.seconds * SECOND if following is None else following["at"]
            colour = COLOURS[nodes.index(change["node"]) % len(COLOURS)]
            x = axis.x(change["at"])
            parts.append(
                f"<rect x={x:.1f} y=2 width={max(1, axis.x(end) - x):.1f} height={ROW - 4} fill='{colour}'>"
                f"<title>{escape(change['node'])} leads</title></rect>"
            )
    parts.append(f"<text x=0 y={ROW - 4}>leader ({', '.join(nodes)})</text>")
    for row, name in enumerate(names, 1):
        parts.append(f"<text x=0 y={(row + 1) * ROW - 4}>{escape(name)}</text>")
        for note in evidence.record.noted("healed"):
            if note["name"] == name and note["nodes"] is not None:
                x = axis.x(note["began"])
                parts.append(
                    f"<rect x={x:.1f} y={row * ROW + 2} width={max(2, axis.x(note['at']) - x):.1f} height={ROW - 4}"
                    f" fill='#ee6677'><title>{escape(', '.join(note['nodes']))}</title></rect>"
                )
    return "".join(parts) + "</svg>"


Dot = tuple[float, float, str]  # when (ns), seconds, colour


def _calls(evidence: Evidence) -> list[Dot]:
    colours = {"ok": "#4477aa", "fail": "#ee6677", "unknown": "#999999"}
    return [
        (op.began, (op.ended - op.began) / SECOND, colours[op.kind])
        for op in evidence.record.ops
        if op.ended is not None and op.f != "bulk"
    ]


def _lateness(evidence: Evidence) -> list[Dot]:
    runs = evidence.lives.by_job()
    dots = []
    for op in evidence.record.of("create"):
        if op.ok and (found := runs.get(op.request["job"])):
            due = max(evidence.record.boot_of(op.request["at_ms"]), op.began)
            dots.append((float(due), max(0.0, (min(r.started for r in found) - due) / SECOND), "#4477aa"))
    return dots


def _plot(evidence: Evidence, dots: list[Dot]) -> str:
    """The height is logarithmic from 1 ms: most of it is small, and what is not matters."""
    axis = Axis(evidence)
    top = max([1.0, *(value for _, value, _ in dots)])
    span = log10(top) + 3

    def y(value: float) -> float:
        return PLOT - (log10(max(value, 0.001)) + 3) / span * PLOT

    parts = [f"<svg width={WIDTH} height={PLOT + 18}>", axis.ticks(PLOT)]
    for mark in (0.001, 0.01, 0.1, 1.0, 10.0, 60.0):
        if mark <= top:
            parts.append(
                f"<line x1={LEFT} x2={WIDTH} y1={y(mark):.1f} y2={y(mark):.1f} stroke='#eee'/>"
                f"<text x={LEFT - 50} y={y(mark) + 4:.1f} fill='#777'>{mark:g} s</text>"
            )
    parts += [f"<circle cx={axis.x(at):.1f} cy={y(value):.1f} r=1.6 fill='{colour}'/>" for at, value, colour in dots]
    return "".join(parts) + "</svg>"


def rows(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """For programs."""
    return [
        {"rule": f.rule, "looked_at": f.looked_at, "violations": len(f.wrong), "counts": dict(f.counts)}
        for f in findings
    ]
