"""Samples of the Prometheus text format, as far as they are looked at here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

Samples = Mapping[str, float]  # the samples of one node by series, labels and all; none where it refuses its metrics

DAYS_LEFT = "raftsched_tls_certificate_days_left"
RAFT_DAYS_LEFT = "raftsched_raft_certificate_days_left"
FREE, STORE = "raftsched_disk_free_bytes", "raftsched_store_bytes"
STORE_FREE = "raftsched_store_free_bytes"
UNPLACEABLE, DEAD = "raftsched_instances_unplaceable", "raftsched_dead_letters"
LOG_ENTRIES = "raftsched_raft_log_entries"
LOG_INDEX, LOG_TERM = "raftsched_raft_log_index", "raftsched_raft_log_term"
LATELY = "raftsched_lately"
STRETCH = "raftsched_loop_longest_stretch_seconds"
NODE = "raftsched_node_info"
SYNCHRONISED = "raftsched_clock_synchronised"
MEMORY, AVAILABLE = "raftsched_memory_bytes", "raftsched_memory_available_bytes"
SWAPPED, STALLED = "raftsched_swapped_bytes", "raftsched_memory_stalled_ratio"
FILES = "raftsched_open_files_max"
OLDEST, QUEUE_PAUSED = "raftsched_queue_oldest_wait_seconds", "raftsched_queue_paused"
FAILURES, ACTIVE = "raftsched_webhook_failures_in_a_row", "raftsched_webhook_active"
FAILING = "raftsched_webhook_failing_seconds"
UNSENT, GONE = "raftsched_webhook_oldest_wait_seconds", "raftsched_webhook_gone"
UNCOMMITTED, OVERDUE = "raftsched_raft_uncommitted_seconds", "raftsched_due_overdue_seconds"
BACKUP, UNCOPIED = "raftsched_backup_log_time_seconds", "raftsched_output_uncopied_seconds"
BACKUP_INDEX = "raftsched_backup_log_index"
OUTPUT_STORE = "raftsched_output_store_failing"
UNSHIPPED = "raftsched_output_unshipped_seconds"
SLOTS, RUNNING = "raftsched_executor_slots", "raftsched_executor_running"

_LOOKED_AT = frozenset({
    *(DAYS_LEFT, RAFT_DAYS_LEFT, FREE, STORE, STORE_FREE, UNPLACEABLE, DEAD, LOG_ENTRIES, LATELY, NODE, SYNCHRONISED),
    *(MEMORY, AVAILABLE, SWAPPED, STALLED, FILES, OLDEST, QUEUE_PAUSED, FAILURES, ACTIVE, SLOTS, RUNNING),
    *(FAILING, UNSENT, GONE, UNCOMMITTED, OVERDUE, BACKUP, BACKUP_INDEX, UNCOPIED, OUTPUT_STORE, UNSHIPPED, STRETCH),
})  # fmt: skip
_SAMPLE = re.compile(r"([a-z_]+)(\{.*\})? ([0-9.e+-]+)", re.ASCII)
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', re.ASCII)
_ESCAPED = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


def samples_of(text: str) -> dict[str, float]:
    """Returns the samples that are looked at here, by their series, of the Prometheus text format."""
    found = {}
    for line in text.splitlines():
        if line.partition(" ")[0].partition("{")[0] in _LOOKED_AT:
            match = _SAMPLE.fullmatch(line)
            if match is not None:
                found[match[1] + (match[2] or "")] = float(match[3])
    return found


def labelled(samples: Samples, name: str) -> Iterator[tuple[dict[str, str], float]]:
    """Gives labels and value of each series of this name."""
    for series, value in samples.items():
        if series.partition("{")[0] == name:
            yield {label: _plain(text) for label, text in _LABEL.findall(series)}, value


def lately(samples: Samples, of: str, name: str = "") -> float:
    """Returns how often something happened within the last 15 minutes; `name`: of what."""
    return samples.get(f'{LATELY}{{name="{name}",of="{of}"}}', 0.0)


def _plain(text: str) -> str:
    return re.sub(r"\\[\\\"n]", lambda match: _ESCAPED[match[0]], text)
