"""The examples of docs/runs.md: a heading that says what one wants, what one pastes for it, and what one sees then.

An example is a heading of the fourth level with a block of commands. The paragraph after it begins with "You see:",
and says in code spans what is printed, in this order; `...` stands for what differs each time. `exit code N` there is
that of the last command, 0 unless it is said.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.examples import SHELL, Block, commands
from tests.support.patience import patient, wait_until
from tests.support.ports import free_ports

SEE = "You see:"
_LOOK_S = 0.2
_CODE = re.compile(r"`([^`]+)`")
_EXIT = re.compile(r"exit code (\d+)")
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_READS = re.compile(  # these change nothing, so that they can be asked again
    r"curl -s http\S+$|raftsched (preview|\w+ (list|get|next|explain|output|keys|deliveries|graph|show))\b"
)


class BadRow(ValueError):
    """A row that cannot be tried, or that says nothing to hold it to."""


@dataclass(frozen=True)
class Row:
    line: int
    wanted: str
    commands: tuple[str, ...]
    seen: tuple[str, ...]
    exit_code: int

    def __str__(self) -> str:
        return f"line {self.line}: {self.wanted}"


def rows(page: str) -> list[Row]:
    """All examples of a page. Raises BadRow."""
    within = [(match.start(), match.end()) for match in _FENCE.finditer(page)]
    headings = [m for m in _HEADING.finditer(page) if not any(start < m.start() < end for start, end in within)]
    ends = [*(heading.start() for heading in headings[1:]), len(page)]
    return [
        _row(page.count("\n", 0, heading.start()) + 1, heading[2], page[heading.end() : end])
        for heading, end in zip(headings, ends, strict=True)
        if len(heading[1]) == 4
    ]


def _row(line: int, wanted: str, section: str) -> Row:
    fences = list(_FENCE.finditer(section))
    if len(fences) != 1 or fences[0][1] not in SHELL:
        raise BadRow(f"line {line} ({wanted}) has to have one block, of commands to paste")
    outcome = section[fences[0].end() :].strip()
    if not outcome.startswith(SEE) or "\n\n" in outcome:
        raise BadRow(f"line {line} ({wanted}) has to have one paragraph after its block, which begins with {SEE!r}")
    seen = _CODE.findall(" ".join(outcome.split()))
    if not seen:
        raise BadRow(f"line {line} ({wanted}) says nothing that could be checked: put what is printed into `...`")
    code = _EXIT.search(_CODE.sub("", outcome))
    lines = commands(Block("", 0, fences[0][1], fences[0][2]))
    return Row(line, wanted.replace("`", ""), tuple(lines), tuple(seen), int(code[1]) if code else 0)


def missing(row: Row, printed: str) -> str | None:
    """The first of the pieces that is not printed after those before it; None when all are. Each lies on one line."""
    lines = [" ".join(line.split()) for line in printed.split("\n")]
    text, place = "\n".join(lines), 0
    for piece in row.seen:
        words = re.escape(" ".join(piece.split())).replace(re.escape("..."), ".*?")
        found = re.compile(rf"(?<!\w){words}(?!\w)").search(text, place)
        if found is None:
            return piece
        place = found.end()
    return None


@dataclass(frozen=True)
class Outcome:
    printed: str
    exit_code: int


class Terminal:
    """Where rows are pasted: a directory, and an environment in which the commands are found."""

    def __init__(self, directory: Path, environment: Mapping[str, str], addresses: Mapping[str, str]) -> None:
        """`addresses`: those of the page, and those that stand for them here."""
        self._directory = directory
        self._environment = dict(environment)
        self._addresses = addresses

    def paste(self, row: Row) -> Outcome:
        """One command after the other. A last one that only shows something is asked again until it shows all."""
        printed = ""
        for command in row.commands[:-1]:
            done = self._run(command)
            printed += done.printed
            if done.exit_code != 0:
                return Outcome(printed, done.exit_code)
        last, seen = row.commands[-1], Outcome(printed, 0)

        def shown() -> bool:
            nonlocal seen
            done = self._run(last)
            seen = Outcome(printed + done.printed, done.exit_code)
            return failure(row, seen) is None or not _READS.match(last)

        wait_until(shown, lambda: str(failure(row, seen)), every=_LOOK_S)
        return seen

    def _run(self, command: str) -> Outcome:
        for stated, real in self._addresses.items():
            command = command.replace(stated, real)
        seconds = patient(60)
        try:
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=self._directory, env=self._environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Outcome(f"{command}: it has not ended after {seconds:g} s\n", 124)  # as timeout(1) has it
        return Outcome(done.stdout, done.returncode)


def failure(row: Row, seen: Outcome) -> str | None:
    """What is not as the row says; None when all is."""
    if seen.exit_code != row.exit_code:
        return f"{row}: exit code {seen.exit_code}, not {row.exit_code}; printed:\n{seen.printed}"
    piece = missing(row, seen.printed)
    return None if piece is None else f"{row}: {piece!r} is not there, or not in this order; printed:\n{seen.printed}"


@contextmanager
def listening(program: Path) -> Iterator[tuple[int, int]]:
    """Runs the page's server, which takes its ports from PORT and MAIL_PORT. Gives them once it answers."""
    port, mails = free_ports(2)
    command = [sys.executable, str(program)]
    environment = {**os.environ, "PORT": str(port), "MAIL_PORT": str(mails)}
    log = program.with_suffix(".log")
    with log.open("wb") as file, subprocess.Popen(command, env=environment, stderr=file) as process:
        try:

            def answers() -> bool:
                assert process.poll() is None, f"{program} ended:\n{log.read_text()}"
                socket.create_connection(("127.0.0.1", port)).close()
                return True

            wait_until(answers, f"{program} to answer", passing=(ConnectionRefusedError,))
            yield port, mails
        finally:
            process.kill()
