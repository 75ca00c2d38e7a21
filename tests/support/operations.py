"""What Python code costs, without a clock."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any


def operations(steps: Iterable[object]) -> list[int]:
    """Goes through the steps. Returns how many operations of the interpreter each took, and the end after the last."""
    found, count = [], 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for _ in steps:
            found.append(count)
            count = 0
    finally:
        sys.settrace(before)
    return [*found, count]
