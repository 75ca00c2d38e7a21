"""Reads the lines of JSON in which a program reports of itself, from a descriptor that its keeper reads.

    {"progress": 40, "text": "copying"}
    {"state": {"row": 7}}
    {"outcome": "snooze 10m", "reason": "the mirror is down"}

The program has it as descriptor 3, and as the file that RAFTSCHED_REPORT_FILE names. It is a pipe: whoever is user of
the run can write it, in any directory and any control group, and nobody else; nothing has to be cleaned up.
"""

from __future__ import annotations

from typing import Any

import msgspec

from raftsched.quantities import parse_duration
from raftsched.run import CANCEL, FAIL, SNOOZE, SNOOZE_MAX_MS, SNOOZE_MIN_MS, STATE_MAX, TEXT_MAX
from raftsched.system.nesting import json_nests_deeper
from raftsched.worker.processes.wire import SelfReport

FD = 3  # of the program
LINE_MAX = 8 * 1024  # bytes
EVERY_MS = 1_000  # between two reports of one run to its node
_NOTES_MAX = 5  # lines that are complained of
_WORDS = {"succeed": 1, "retry": 2, "fail": FAIL, "cancel": CANCEL, "snooze": SNOOZE}
_FIELDS = frozenset(("progress", "text", "state", "outcome", "reason"))


class ReportLines:
    """Reads the lines of one run. `verdict`, `delay_ms`, `reason`: the last outcome among them."""

    def __init__(self) -> None:
        self.verdict = 0
        self.delay_ms: int | None = None
        self.reason = ""
        self.next_at = 0  # boot ms: when the node may hear more
        self._held = b""
        self._skips = False  # in a line that is too long
        self._latest = SelfReport()
        self._news = False
        self._wrong = 0

    @property
    def news(self) -> bool:
        """Returns whether there is something that the node has not heard of."""
        return self._news

    @property
    def latest(self) -> SelfReport | None:
        """Returns the last of all that it said; None: it said nothing."""
        self._news = False
        return None if self._latest == SelfReport() else self._latest

    def all(self, ended_by_itself: bool) -> SelfReport | None:
        """Returns the last of all that it said, with its outcome where that counts; None: it said nothing."""
        said = self.latest
        if not self.verdict or not ended_by_itself:
            return said
        said = said or SelfReport()
        return SelfReport(said.percent, said.text, said.kept, self.verdict, self.delay_ms)

    def feed(self, data: bytes) -> list[str]:
        """Takes what was read. Returns what is wrong with lines, for people."""
        *lines, rest = (self._held + data).split(b"\n")
        found = []
        for line in lines:
            if not self._skips and line.strip():
                found.append(self._line(line) if len(line) <= LINE_MAX else _too_long())
            self._skips = False
        if len(rest) > LINE_MAX:
            if not self._skips:
                found.append(_too_long())
            self._skips, rest = True, b""
        self._held = rest
        wrong = [text for text in found if text]
        self._wrong += len(wrong)
        return wrong[: max(0, _NOTES_MAX - self._wrong + len(wrong))]

    def _line(self, line: bytes) -> str:
        """Returns what is wrong; empty: nothing."""
        try:
            if json_nests_deeper(line):
                return "a line of its report nests too deeply"
            said = msgspec.json.decode(line)
        except (ValueError, RecursionError):
            return 'a line of its report is not JSON; write lines such as {"progress": 40}'
        if not isinstance(said, dict) or not said or not _FIELDS.issuperset(said):
            return f"a line of its report is not an object with some of {', '.join(sorted(_FIELDS))}"
        return self._progress(said) or self._state(said) or self._outcome(said)

    def _progress(self, said: dict[str, Any]) -> str:
        if "progress" not in said and "text" not in said:
            return ""
        percent, text = said.get("progress"), said.get("text", "")
        if percent is not None and (isinstance(percent, bool) or not isinstance(percent, int | float)):
            return '"progress" in its report is not a number'
        if percent is not None and not 0 <= percent <= 100:
            return f'"progress" in its report is {percent}; it goes from 0 to 100'
        if not isinstance(text, str):
            return '"text" in its report is not a text'
        self._latest = SelfReport(None if percent is None else int(percent), text[:TEXT_MAX], self._latest.kept)
        self._news = True
        return ""

    def _state(self, said: dict[str, Any]) -> str:
        if "state" not in said:
            return ""
        kept = msgspec.json.encode(said["state"])
        if len(kept) > STATE_MAX:
            return f'"state" in its report takes {len(kept):,} bytes; {STATE_MAX:,} is the limit'
        self._latest = SelfReport(self._latest.percent, self._latest.text, kept)
        self._news = True
        return ""

    def _outcome(self, said: dict[str, Any]) -> str:
        text, reason = said.get("outcome", ""), said.get("reason", "")
        if not isinstance(text, str) or not isinstance(reason, str):
            return '"outcome" and "reason" in its report are texts'
        if not text:
            return ""
        word, _, rest = text.partition(" ")
        verdict, delay_ms = _WORDS.get(word), None
        if verdict is None or bool(rest) is not (verdict == SNOOZE):
            return f'"outcome" in its report is "{text[:40]}"; use succeed, retry, fail, cancel or snooze 10m'
        if verdict == SNOOZE:
            try:
                delay_ms = parse_duration(rest)
            except ValueError as exc:
                return f'"outcome" in its report: "{rest[:40]}" {exc}'
            if not SNOOZE_MIN_MS <= delay_ms <= SNOOZE_MAX_MS:
                return f'"outcome" in its report is "{text[:40]}"; a snooze lasts 1s to 30d'
        self.verdict, self.delay_ms, self.reason = verdict, delay_ms, reason
        return ""


def _too_long() -> str:
    return f"a line of its report has more than {LINE_MAX:,} bytes"
