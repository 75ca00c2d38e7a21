"""Files of Quartz: its XML, or a query over its tables (docs/moving.md has it) as CSV or JSON, a row for a trigger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from raftsched.cli.importers.foreign import Reading, Unmapped
from raftsched.cli.importers.quartz.data_file import Element, read_xml
from raftsched.cli.importers.quartz.jobs import DEFAULT_GROUP, Job, Jobs, Trigger, number, time_ms
from raftsched.cli.importers.records import read_records

if TYPE_CHECKING:
    from raftsched.cli.importers.reading import How

_KINDS = {"cron": "cron", "simple": "simple", "calendar-interval": "calendar"}
_TYPES = {"CRON": "cron", "SIMPLE": "simple", "CAL_INT": "calendar"}
_JOB_KNOWN = frozenset(
    ["name", "group", "description", "job-class", "durability", "recover", "job-data-map", "job-listener-ref"]
)
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
            left = sorted({child.name for child in element.children} - _JOB_KNOWN)
            if element.first("job-listener-ref") is not None or left:
                what = ", ".join([*left, *(["job-listener-ref"] if element.first("job-listener-ref") else [])])
                jobs.reading.notes.append((f"line {element.line}", f"{what} has no counterpart; it is left out"))
        triggers += [(outer, kind) for outer in schedule.all("trigger") for kind in outer.children]
    for name in ("pre-processing-commands", "processing-directives"):
        if (about := root.first(name)) is not None and about.children:
            jobs.reading.notes.append((f"line {about.line}", f"{name} are about Quartz' own jobs; left out"))
    keys = [(kind.text("job-group") or DEFAULT_GROUP, kind.text("job-name")) for _, kind in triggers]
    counts = Counter(keys)
    for key, (outer, element) in zip(keys, triggers, strict=True):
        place = f"line {outer.line}"
        label = f"{key[1]} {element.text('name')}".strip()
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
    if element.name not in _KINDS:
        raise Unmapped(f"a trigger {element.name[:40]!r} is not known; known are {', '.join(_KINDS)}")
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
    rows = [(document.place, _columns(document.value)) for document in read_records(data, source)]
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
    """By their names in small letters, with dashes between words as the tables have them: also those of Java."""
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
