"""The audit as it is kept: its newest notes, and whether it reaches back as far as `audit_keep` says."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from raftsched.api.auth.access import access_of
from raftsched.cluster_settings import Settings
from raftsched.core.rows import decode_record
from raftsched.core.subjects.access import RINGS, Record
from raftsched.core.tables import ReadView, Table

LOOK_MAX = 1_000  # notes looked at for one answer


def newest_notes(view: ReadView, ring: int) -> Iterator[Record]:
    """Yields the newest notes of a ring, the newest first, a bounded number of them."""
    found = view.scan(Table.AUDIT, bytes((ring,)), bytes((ring + 1,)), reverse=True)
    return (decode_record(raw) for _, raw in islice(found, LOOK_MAX))


def cut_short(view: ReadView, settings: Settings, now_ms: int) -> dict[str, int]:
    """Returns the age in milliseconds of the oldest note of each kind that `audit_max` cuts short: there are as many as
    may be, and the next one to go is younger than `audit_keep` says."""
    access = access_of(view)
    found = {}
    for ring, kind in enumerate(RINGS):
        _, base, notes = access.chain(ring)
        if not base or notes < settings.audit_max:
            continue  # none had to go, or none has to go now
        for _, raw in view.scan(Table.AUDIT, bytes((ring,)), bytes((ring + 1,))):
            age_ms = max(0, now_ms - decode_record(raw).at_ms)
            if age_ms < settings.audit_keep_ms:
                found[kind] = age_ms
            break
    return found
