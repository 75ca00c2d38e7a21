"""Rules of raftsched/schedule and of templates: what a job says is what comes of it."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_SCHEDULE = ("unit/schedule/test_windows.py",)
_TEMPLATES = ("unit/test_templates.py",)

DEFINING = (
    Mutant(
        "moved_from_now_on",
        "what fell into excluded time before a leader looks is moved to its end all the same",
        "schedule/triggers.py",
        "found = end * 1000 if _gathers(trigger, held, end, anchor_ms, hash_id) else None",
        "found = None",
        _SCHEDULE,
        None,
    ),
    Mutant(
        "hours_end_the_first_time",
        "excluded hours last until clocks show their end for the last time",
        "schedule/windows.py",
        "last_shown(self._place, midnight + one.end)",
        "first_shown(self._place, midnight + one.end)",
        _SCHEDULE,
        None,
    ),
    Mutant(
        "template_is_code",
        "what an interpreter is given to run has no templates",
        "templates.py",
        "code_next = code_next or option",
        "code_next = False",
        _TEMPLATES,
        None,
    ),
    Mutant(
        "address_leads_elsewhere",
        "a value does not change which part of an address is which",
        "templates.py",
        'return quote(value, safe="")',
        "return quote(value)",
        _TEMPLATES,
        None,
    ),
)
