"""The checks of `doctor` that read the last lines of a node's log, for troubles that are known.

What jobs print may be among the lines (`--output-ship stdout`). It is left out before anybody looks: it says nothing of
the node, and is not to leave the machine.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from raftsched.doctor import Finding
from raftsched.system.regular_files import open_regular

LINES = 500
BYTES = 256 << 10
JOURNAL_S = 5.0
UNIT = "raftsched"
PIECES = 64  # of one line: journals and containers cut long ones
_SHOWN = 160  # characters of a line

# How a line begins that has output of a job (receivers/standard_output.py), perhaps after a time, or within a string.
_OUTPUT = re.compile(r'\{(\\*)"type\\*": ?\\*"output\\*"')
# A line of standard output as containers keep it (CRI, Docker); a node's own log goes to standard error.
_PRINTED = re.compile(r'^\S+ stdout [FP] |"stream": ?"stdout"')
_OUTPUT_MAX = 1 << 20  # characters of such a line, with all that JSON escapes in it

# What a line holds -> what to do about it. Lines of the node, and of systemd about it.
KNOWN: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), do)
    for pattern, do in (
        (r"too old for this cluster", "start the version of the other nodes, or a later one, on this data directory"),
        (
            r"must not take part with it",
            "docs/runbook.md#disks-that-are-lost-or-go-back: start with an empty directory",
        ),
        (r"is in use by another node process", "a node runs there already: end it, or say another --data"),
        (r"the port is in use", "see who has the port (ss -ltnp), or say another"),
        (r"cannot listen there", "the machine has to have the address of --http and --raft"),
        (r"data directory .* cannot be used|cannot be made private", "give it to the node's user: chown -R USER DIR"),
        (r"speaks protocol", "stop all nodes, and start all with one version: docs/upgrading.md"),
        (r"went back to an earlier state", "docs/runbook.md#disks-that-are-lost-or-go-back"),
        (r"[Nn]o space left on device|disk-full", "make room on the disk, or lower output_keep"),
        (r"Too many open files", "LimitNOFILE=65536 in the unit, or ulimit -Hn"),
        (r"MemoryError|Cannot allocate memory", "fewer slots, limits.memory in jobs, or more memory"),
        (
            r"certificate .*(has expired|has ended)|certificate has expired",
            "a new certificate: raftsched certs node ID",
        ),
        (
            r"wrong-key|other cluster key|another cluster key",
            "the node needs the key file of the others: raftsched keys check",
        ),
        (r"Watchdog timeout", "the event loop stood still: look at memory, and at the stacks in the journal"),
    )
)
KILLED = re.compile(r"oom-kill|OOM killer|[Oo]ut of memory: Killed|status=9/KILL")


def read_lines(file: Path | None) -> list[str] | None:
    """Returns what `last_lines` does. Raises a usage error for a file that cannot be read."""
    try:
        return last_lines(file)
    except OSError as error:
        raise click.UsageError(f"--log: {file} cannot be read: {(error.strerror or str(error)).lower()}") from None


def last_lines(file: Path | None) -> list[str] | None:
    """Returns the last lines of a log file; without one, of the journal of the unit. None: there are none to be had.
    Raises OSError."""
    if file is None:
        return _journal()
    with open_regular(file) as log:
        log.seek(0, 2)
        begin = max(0, log.tell() - BYTES)
        log.seek(begin)
        lines = _lines(log.read(BYTES))
    return without_output(lines[1:] if begin else lines)[-LINES:]  # the first one is the rest of one that was cut


def without_output(lines: Iterable[str]) -> list[str]:
    """Returns the lines without those that have output of jobs in them, and the pieces of such as were cut."""
    kept = []
    begun = ""  # a line of output whose end is still to come
    for line in lines:
        found = _OUTPUT.search(line)
        if found is not None:
            begun = "" if found[1] else line[found.start() :]
        elif begun:
            begun += line
        elif _PRINTED.search(line) is None:
            kept.append(line)
        if len(begun) > _OUTPUT_MAX or _is_object(begun):
            begun = ""
    return kept


def _is_object(text: str) -> bool:
    try:
        json.JSONDecoder(strict=False).raw_decode(text)
    except ValueError:
        return False
    return True


def _lines(raw: bytes) -> list[str]:
    """Returns the lines. Only "\\n" ends one: str.splitlines cuts at others too, that are within lines of output."""
    return raw.decode("utf-8", "replace").removesuffix("\n").split("\n") if raw else []


def _journal() -> list[str] | None:
    most = LINES + PIECES
    command = ["journalctl", "--unit", UNIT, "--lines", str(most), "--output", "cat", "--no-pager", "--quiet"]
    try:
        found = subprocess.run(  # a list of arguments, none of them from elsewhere  # nosec B603
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=JOURNAL_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if found.returncode or not found.stdout:
        return None
    lines = _lines(found.stdout)
    cut = PIECES if len(lines) >= most else 0  # the first ones may be pieces of one that began before them
    return without_output(lines[cut:])[-LINES:]


def look_at_log(lines: Sequence[str] | None) -> Iterator[Finding]:
    """Gives what is known of the lines; nothing where there are none."""
    if lines is None:
        return
    killed = [line for line in lines if KILLED.search(line)]
    if killed:
        do = "limits.memory in jobs, --memory-max, fewer slots, or more memory; OOMPolicy=continue in the unit"
        yield Finding("killed", "warn", f"{len(killed)} of the last lines say so: {_short(killed[-1])}", do)
    else:
        yield Finding("killed", "ok", f"none of the last {len(lines)} lines of the log says so")
    found: dict[str, str] = {}
    for line in lines:
        for pattern, do in KNOWN:
            if pattern.search(line):
                found.pop(do, None)
                found[do] = _short(line)  # the newest, last
    for do, line in found.items():
        yield Finding("log-lines", "warn", line, do)
    if not found:
        yield Finding("log-lines", "ok", f"no known trouble in the last {len(lines)} lines")


def _short(line: str) -> str:
    line = line.strip()
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."
