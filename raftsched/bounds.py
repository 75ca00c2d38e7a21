"""Bounds that several rooms hold to, the client and the command line among them: numbers, and the error beyond them.

Bounds of one room lie in that room. Apply holds the commands of a log to some of these: a smaller number there would
change what a log means.
"""

from __future__ import annotations

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
TIME_MAX_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z: the last that every format here can write
DURATION_MAX_MS = 36_525 * DAY_MS  # a hundred years: the longest that can be asked for
STORED_DURATION_MAX_MS = 40_000 * DAY_MS  # logs may hold more than can be asked for
EVERY_MIN_MS = 1_000  # the shortest period of a job
COUNT_MAX = 1_000_000_000
SLOTS_MAX = 10_000  # of a node
DESCRIPTION_MAX = 1_024  # characters
OWNER_MAX = 128  # characters
URL_MAX = 2_048  # characters
OUTPUT_PIECE_MAX = 1024 * 1024  # bytes of output that one node sends another at once
SECRET_VALUE_MAX = 8 * 1024  # bytes
# Least and most, of namespaces and of the cluster. Half of what is kept of an attempt may be in memory while it runs.
OUTPUT_MAX_BYTES = (4 << 10, 256 << 20)
OUTPUT_KEEP_MS = (3_600_000, 3_650 * 86_400_000)
OUTPUT_COPIES = (1, 2)
PRIORITY_MAX = 9
LABELS_MAX = 32
LABEL_KEY_MAX = 128  # characters
LABEL_VALUE_MAX = 256  # characters
TRIGGERS_MAX = 16  # of one job
CONDITIONS_MAX = 8  # of one job
CONDITION_MAX = 2_048  # characters of a path or an address
UPSTREAM_MAX = 100  # jobs that one job follows
OUTCOMES_MAX = 32  # entries of a job's `outcomes`
NOTIFY_MAX = 8  # webhooks that one job names
SHARDS_MAX = 1_000  # of one run
KEY_TEMPLATE_MAX = 128  # bytes
RATE_COUNT_MAX = 1_000_000
PROGRESS_TEXT_MAX = 200  # characters
ERROR_MAX = 4_096  # characters of an attempt's error
OUTPUT_MAX = 1024 * 1024  # bytes of output that are kept where nobody says how many
BOOT_ID_MAX = 128  # bytes of what a remote worker calls its boot
WEIGHT_MAX = 1_000  # of a slot
SERVED_MAX = 100  # queues, and namespaces, that one remote worker is limited to
WORKER_HANDLERS_MAX = 1_000  # of one remote worker
POLL_MAX_MS = 30_000  # a remote worker's poll waits no longer
TOKEN_NAMESPACES_MAX = 100  # of one token; as many grants it may have
CALENDAR_MAX = 64 * 1024  # bytes of its content
WEBHOOK_HEADERS_MAX = 20
WEBHOOK_HEADER_MAX = 1_024  # characters of a header's value
WEBHOOK_RETRIES_MAX = 20
WEBHOOK_RUNNING_MAX = 100  # deliveries at one time
WEBHOOK_MESSAGES_MAX = 10_000  # in the time that `at_most` names
RECIPIENTS_MAX = 20  # of a mail
BULK_IDS_MAX = 10_000  # jobs named one by one


class OutOfRange(ValueError):
    """A text that can be read, and says what is beyond its bounds."""
