"""Rules of raftsched/importers by which no file does harm, and nothing runs that is not meant to."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_IMPORTERS = ("unit/importers",)

IMPORTING = (
    Mutant(
        "xml_with_entities",
        "XML that declares an entity is refused",
        "importers/quartz/data_file.py",
        "        self.parser.EntityDeclHandler = self._entity\n",
        "",
        _IMPORTERS,
        None,
    ),
    Mutant(
        "lacking_and_scheduled",
        "a job that lacks something comes in suspended",
        "importers/foreign.py",
        '            entry.job["suspended"] = True\n',
        "            pass\n",
        _IMPORTERS,
        None,
    ),
    Mutant(
        "either_of_two_days",
        "a day of the month and a weekday have to match both",
        "importers/wall_fields.py",
        "        if fields.from_end or (len(fields.weekdays) < 7 and len(fields.days) < 31):\n",
        "        if fields.from_end:\n",
        _IMPORTERS,
        None,
    ),
    Mutant(
        "past_and_run_at_once",
        "what was due once and is past is not imported",
        "importers/wall_fields.py",
        "    if at_ms <= now_ms:\n",
        "    if False:\n",
        _IMPORTERS,
        None,
    ),
)
