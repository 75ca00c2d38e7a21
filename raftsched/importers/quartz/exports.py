"""Files of Quartz: its XML, or a query over its tables (docs/moving.md has it) as CSV or JSON, a row for a trigger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from raftsched.importers.foreign import Reading, Unmapped
from raftsched.importers.quartz.data_file import ROOT, Element, read_xml
from raftsched.importers.quartz.jobs import DEFAULT_GROUP, Job, Jobs, Trigger, number, time_ms
from raftsched.importers.records import read_records

if TYPE_CHECKING:
    from raftsched.importers.how import How

_KINDS = {"cron": "cron", "simple": "simple", "calendar-interval": "calendar"}
_TYPES = {"CRON": "cron", "SIMPLE": "simple", "CAL_INT": "calendar"}
_JOB_KNOWN = frozenset(
    ["name", "group", "description", "job-class", "durability", "recover", "job-data-map", "job-listener-ref"]
)
_OF_TRIGGER = frozenset(
    ["name", "group", "description", "job-name", "job-group", "priority", "calendar-name", "job-data-map", "start-time",
     "start-time-seconds-in-future", "end-time", "misfire-instruction"]
)  # fmt: skip
_CHILDREN: Mapping[str, frozenset[str]] = {  # element -> those that it may have; of others nothing is read
    ROOT: frozenset(["pre-processing-commands", "processing-directives", "schedule"]),
    "schedule": frozenset(["job", "trigger"]),
    "job": _JOB_KNOWN,
    "job-data-map": frozenset(["entry"]),
    "entry": frozenset(["key", "value"]),
    "trigger": frozenset(_KINDS),
    "cron": _OF_TRIGGER | {"cron-expression", "time-zone"},
    "simple": _OF_TRIGGER | {"repeat-count", "repeat-interval"},
    "calendar-interval": _OF_TRIGGER | {"repeat-interval", "repeat-interval-unit"},
}
_RECOVERED = {"recover": "true"}  # runs that a node loses are run again by retry and lost (docs/guarantees.md)
_LEFT_WHOLE = ("pre-processing-commands", "processing-directives")  # about Quartz' own jobs
_COLUMNS = frozenset(  # of the query in docs/moving.md, and those beside that say nothing of a job
    ["job_name", "job_group", "job_class_name", "is_nonconcurrent", "job_description", "description", "trigger_name",
     "trigger_group", "trigger_type", "trigger_state", "start_time", "end_time", "priority", "misfire_instr",
     "calendar_name", "cron_expression", "time_zone_id", "repeat_count", "repeat_interval", "times_triggered",
     "str_prop_1", "str_prop_2", "int_prop_1", "job_data", "sched_name", "next_fire_time", "prev_fire_time",
     "is_durable", "is_update_data"]
)  # fmt: skip
_OVER = ("COMPLETE", "ERROR", "DELETED")


def read_quartz(data: bytes, source: str, how: How) -> Reading:
    """Raises a usage error for what is neither of them."""
    if data.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<") or data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _of_xml(read_xml(data, source), source, how)
    return _of_tables(data, source, how)


def _of_xml(root: Element, source: str, how: How) -> Reading:
    jobs = Jobs(source, how)
    found: dict[tuple[str, str], tuple[Job, int]] = {}
    triggers: list[tuple[Element, Element]] = []
    for schedule in root.all("schedule"):
        for element in schedule.all("job"):
            job = _job(element)
            found[job.group, job.name] = job, element.line
        triggers += [(outer, kind) for outer in schedule.all("trigger") for kind in outer.children]
    for element in _not_read(root):
        jobs.reading.notes.append((f"line {element.line}", f"{element.name} has no counterpart; it is left out"))
    for name in _LEFT_WHOLE:
        if (about := root.first(name)) is not None and about.children:
            what = ", ".join(dict.fromkeys(child.name for child in about.children))
            jobs.reading.notes.append((f"line {about.line}", f"{name} ({what}) are about Quartz' own jobs; left out"))
    keys = [(kind.text("job-group") or DEFAULT_GROUP, kind.text("job-name")) for _, kind in triggers]
    counts = Counter(keys)
    for key, (outer, element) in zip(keys, triggers, strict=True):
        place = f"line {outer.line}"
        label = f"{key[1]} {element.text('name')}".strip()
        if element.name not in _KINDS:
            why = f"a trigger {element.name[:40]!r} is not known; known are {', '.join(_KINDS)}"
            jobs.reading.refused.append((place, label, why))
            continue
        if key not in found:
            jobs.reading.refused.append((place, label, f"its job {key[1]!r} of group {key[0]!r} is not in this file"))
            continue
        try:
            trigger = _xml_trigger(element, place, how)
        except Unmapped as error:
            jobs.reading.refused.append((place, label, str(error)))
            continue
        jobs.add(found[key][0], trigger, several=counts[key] > 1, place=place)
    for key, (job, line) in found.items():
        if not counts[key]:
            jobs.add(job, None, several=False, place=f"line {line}")
    return jobs.reading


def _not_read(element: Element) -> Iterator[Element]:
    """Yields the elements of which nothing is read, and the attributes, as if they were such."""
    if element.name in _LEFT_WHOLE:
        known = frozenset(child.name for child in element.children)
    else:
        known = _CHILDREN.get(element.name, frozenset())
    for name in element.attributes:
        yield Element(name, element.line)
    for child in element.children:
        if child.name not in known or child.name == "job-listener-ref" or child.text() == _RECOVERED.get(child.name):
            if element.name != "trigger":  # an unknown kind of trigger is refused
                yield child
        else:
            yield from _not_read(child)


def _job(element: Element) -> Job:
    return Job(
        name=element.text("name"),
        group=element.text("group") or DEFAULT_GROUP,
        job_class=element.text("job-class"),
        description=element.text("description"),
        durable=element.text("durability") == "true",
        recover=element.text("recover") == "true",
        data=_data(element),
    )


def _data(element: Element) -> dict[str, Any]:
    data = element.first("job-data-map")
    return {} if data is None else {entry.text("key"): entry.text("value") for entry in data.all("entry")}


def _xml_trigger(element: Element, place: str, how: How) -> Trigger:
    starts = time_ms(element.text("start-time"), how.timezone, "start-time")
    ahead = number(element.text("start-time-seconds-in-future"), "start-time-seconds-in-future", -1)
    if ahead >= 0:
        raise Unmapped("it starts some seconds after Quartz itself, which has no counterpart; give it a start-time")
    calendar = element.name == "calendar-interval"
    return Trigger(
        kind=_KINDS[element.name],
        place=place,
        name=element.text("name"),
        group=element.text("group") or DEFAULT_GROUP,
        description=element.text("description"),
        priority=element.text("priority"),
        calendar=element.text("calendar-name"),
        misfire=element.text("misfire-instruction"),
        starts_ms=starts,
        ends_ms=time_ms(element.text("end-time"), how.timezone, "end-time"),
        expression=element.text("cron-expression"),
        zone=element.text("time-zone"),
        repeat_count=number(element.text("repeat-count").replace("REPEAT_INDEFINITELY", "-1"), "repeat-count"),
        interval=number(element.text("repeat-interval"), "repeat-interval"),
        unit=element.text("repeat-interval-unit") if calendar else "",
        data=_data(element),
    )


def _of_tables(data: bytes, source: str, how: How) -> Reading:
    jobs = Jobs(source, how)
    rows = [(document.place, _columns(document.value)) for document in read_records(data, source, jobs.reading)]
    left = dict.fromkeys(name for _, row in rows for name in row if name not in _COLUMNS)
    if left:
        jobs.reading.notes.append((source, f"columns that have no counterpart here, left out: {', '.join(left)}"))
    counts = Counter((row["job_group"], row["job_name"]) for _, row in rows)
    with_data = 0
    for at, row in rows:
        label = " ".join(filter(None, (row["job_name"], row["trigger_name"])))
        place = at if at.startswith("line") else f"trigger {row['trigger_name'] or label}"
        job = Job(
            name=row["job_name"],
            group=row["job_group"] or DEFAULT_GROUP,
            job_class=row["job_class_name"],
            description=row["job_description"] or row["description"],
            nonconcurrent=_flag(row["is_nonconcurrent"]) if row["is_nonconcurrent"] else None,
        )
        with_data += bool(row["job_data"])
        try:
            trigger = _row_trigger(row, place, how) if row["trigger_type"] or row["trigger_name"] else None
        except Unmapped as error:
            jobs.reading.refused.append((place, label, str(error)))
            continue
        jobs.add(job, trigger, several=counts[row["job_group"], row["job_name"]] > 1, place=place)
    if rows and with_data:
        what = "JOB_DATA are objects of Java, which are not read: give the params of these jobs by hand"
        jobs.reading.notes.append((source, what))
        jobs.reading.todo.add((source, what))
    return jobs.reading


class _Row(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return ""


def _columns(value: Mapping[str, Any]) -> _Row:
    """Returns the columns of a row by their names in small letters, with dashes between words as the tables have them:
    also those of Java."""
    row = _Row()
    for key, given in value.items():
        name = "".join(f"_{c}" if c.isupper() and key[:1].islower() else c for c in str(key)).lower()
        row[name] = "" if given is None else str(given).strip()
    return row


def _flag(text: str) -> bool:
    return text.lower() in ("1", "true", "t", "y", "yes", "b'1'", "\x01")


def _row_trigger(row: _Row, place: str, how: How) -> Trigger:
    kind = row["trigger_type"].upper() or ("CRON" if row["cron_expression"] else "SIMPLE")
    if kind not in _TYPES:
        raise Unmapped(f"a trigger of type {kind[:40]} is not known; write it as cron (known: {', '.join(_TYPES)})")
    if row["trigger_state"].upper() in _OVER:
        raise Unmapped(f"its state is {row['trigger_state']}, so it runs no more")
    if kind == "CAL_INT" and not row["str_prop_1"]:
        raise Unmapped("its interval is in QRTZ_SIMPROP_TRIGGERS, whose STR_PROP_1 and INT_PROP_1 were not exported")
    starts, ends = (number(row[name], name) for name in ("start_time", "end_time"))
    return Trigger(
        kind=_TYPES[kind],
        place=place,
        name=row["trigger_name"],
        group=row["trigger_group"] or DEFAULT_GROUP,
        priority=row["priority"],
        calendar=row["calendar_name"],
        misfire=row["misfire_instr"],
        starts_ms=starts or None,
        ends_ms=ends or None,
        expression=row["cron_expression"],
        zone=row["time_zone_id"] or (row["str_prop_2"] if kind == "CAL_INT" else ""),
        repeat_count=number(row["repeat_count"], "repeat_count"),
        interval=number(row["int_prop_1"] if kind == "CAL_INT" else row["repeat_interval"], "interval"),
        unit=row["str_prop_1"] if kind == "CAL_INT" else "",
        fired=number(row["times_triggered"], "times_triggered"),
        paused="PAUSED" in row["trigger_state"].upper(),
    )
