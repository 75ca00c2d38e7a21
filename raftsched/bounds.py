"""Bounds that several rooms hold to, the client and the command line among them: numbers, and the error beyond them.

Bounds of one room lie in that room. Apply holds the commands of a log to some of these: a smaller number there would
change what a log means.
"""

from __future__ import annotations

TIME_MAX_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z: the last that every format here can write
DURATION_MAX_MS = 36_525 * 86_400_000  # a hundred years: the longest that can be asked for
EVERY_MIN_MS = 1_000  # the shortest period of a job
COUNT_MAX = 1_000_000_000
SLOTS_MAX = 10_000  # of a node
DESCRIPTION_MAX = 1_024  # characters
OWNER_MAX = 128  # characters
URL_MAX = 2_048  # characters
SECRET_VALUE_MAX = 8 * 1024  # bytes


class OutOfRange(ValueError):
    """A text that can be read, and says what is beyond its bounds."""
