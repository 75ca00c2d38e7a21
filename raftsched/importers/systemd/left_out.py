"""The settings of a unit that have no counterpart in a job: each is named, whatever its value. Names and sections that
begin with X- are none of systemd's, which ignores them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from raftsched.importers.foreign import Notes
from raftsched.importers.systemd.units import Unit

_USUAL_AFTER = re.compile(r"\S+\.(?:target|mount|slice)|(?:systemd-\S+|dbus|NetworkManager\S*)\.(?:service|socket)")
_ORDER = ("After", "Requires", "Wants", "BindsTo", "Requisite", "Conflicts", "PartOf", "Before")
_OF_STARTS = ("StartLimitBurst", "StartLimitIntervalSec")  # part of Restart=
_SAID_BY_BEING_THERE = ("WantedBy", "RequiredBy", "UpheldBy")  # a job is scheduled, a timer where it is enabled


def leave_rest(unit: Unit, main: str, known: Collection[str], notes: Notes) -> None:
    """Names what is left out of a unit. `main`: the section of its kind; `known`: what of that is not left out."""
    left = [name for name in unit.settings.get(main, {}) if name not in known]
    left += _of_unit(unit, notes)
    left += [name for name in unit.settings.get("Install", {}) if name not in _SAID_BY_BEING_THERE]
    name_all(left, notes)
    for section in unit.settings:
        if section not in (main, "Unit", "Install") and not section.startswith("X-"):
            notes.say(f"the section [{section}] has no counterpart here; it is left out")


def name_all(left: Iterable[str], notes: Notes) -> None:
    names = [name for name in left if not name.startswith("X-")]
    if names:
        has, are = ("has", "it is") if len(names) == 1 else ("have", "they are")
        notes.say(f"{', '.join(names)} {has} no counterpart here; {are} left out")


def _of_unit(unit: Unit, notes: Notes) -> list[str]:
    """Notes what needs words of [Unit], and returns the names of the rest."""
    rest = []
    for name in unit.settings.get("Unit", {}):
        value = unit.last("Unit", name)
        if name.startswith(("Condition", "Assert")):
            notes.ask(f"{name}={value} is not checked; see the conditions of jobs (docs/conditions.md)")
        elif name in ("OnFailure", "OnSuccess"):
            notes.ask(f"{name}={value} is left out; notify tells a webhook of how runs end (docs/webhooks.md)")
        elif name in _ORDER and any(not _USUAL_AFTER.fullmatch(one) for one in value.split()):
            others = [one for one in value.split() if not _USUAL_AFTER.fullmatch(one)]
            notes.say(f"{name}={' '.join(others)} is left out: units do not wait for each other here")
        elif name != "Description" and (name not in _OF_STARTS or not unit.restarts):
            rest.append(name)
    return rest
