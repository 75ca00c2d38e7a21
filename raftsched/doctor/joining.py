"""Makes one finding of those with one cause, and puts what is not well first."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from raftsched.doctor.checks import STATES, Finding

_NODE = "\0"  # in a text: its node


def joined(findings: Iterable[Finding]) -> list[Finding]:
    """Returns one finding for those of a check that are about a node each and differ in the node and in figures."""
    found: dict[object, list[Finding]] = {}
    for number, finding in enumerate(findings):
        one_node = finding.state != "ok" and len(finding.nodes) == 1
        key = (finding.check, finding.state, finding.see, _apart(finding, finding.do)) if one_node else number
        found.setdefault(key, []).append(finding)
    return [_one(alike) if len(alike) > 1 else alike[0] for alike in found.values()]


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Returns what fails, then what is to be looked at, then what is well."""
    return sorted(findings, key=lambda finding: -STATES.index(finding.state))


def _one(alike: list[Finding]) -> Finding:
    nodes = tuple(dict.fromkeys(finding.nodes[0] for finding in alike))
    first = alike[0]
    texts = {_apart(finding, finding.detail) for finding in alike}
    detail = "; ".join(dict.fromkeys(finding.detail for finding in alike))
    if len(texts) == 1:
        detail = texts.pop().replace(_NODE, ", ".join(nodes))
    others = [node for node in nodes if node != first.nodes[0]]
    do = first.do
    if others and _NODE in _apart(first, do):  # it may be a command, which takes one node
        do += f"; the same for {', '.join(others)}"
    return replace(first, detail=detail, do=do, nodes=nodes)


def _apart(finding: Finding, text: str) -> str:
    """Returns the text without its node."""
    return re.sub(rf"(?<![\w.-]){re.escape(finding.nodes[0])}(?![\w-])", _NODE, text)
