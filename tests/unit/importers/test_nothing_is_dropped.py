"""No importer drops a setting in silence: each that it does not know is in its report, wherever it stands and whatever
its value, and each that it does know becomes part of a job or of the report."""

from __future__ import annotations

import re
from typing import Any

import click
import pytest

from raftsched.crontabs.reading import read_crontab
from raftsched.importers.how import How
from raftsched.importers.icalendar import read_icalendar
from raftsched.importers.kinds import KINDS
from raftsched.importers.reading import read_source
from raftsched.importers.sources import Source
from raftsched.importers.template import Template
from tests.unit.importers.house import NOW_MS
from tests.unit.importers.samples import SAMPLES, STRANGE, Files


def report(kind: str, files: Files) -> str:
    """All that is told of the files, and the jobs that they become."""
    data = [(path, text.encode()) for path, text in files]
    if kind == "icalendar":
        return repr(read_icalendar(files[0][1]))
    if kind == "crontab":
        return repr(read_crontab(data[0][1], source="tab", timezone="UTC"))
    how = How("UTC", "", NOW_MS, Template.read("call:{task}"), None)
    try:
        return repr(read_source(Source(data[0][0], kind, data), how))
    except click.UsageError as error:
        return repr(error.message)


def names(text: str) -> set[str]:
    """The words of a text, however the importer writes them."""
    return {word.replace("_", "").lower() for word in re.findall(r"[\w-]+", text)}


def test_each_importer_has_a_sample() -> None:
    assert {sample.kind for sample in SAMPLES.values()} == {*KINDS, "icalendar"}


@pytest.mark.parametrize("which", SAMPLES)
def test_what_is_not_known_is_named(which: str) -> None:
    sample = SAMPLES[which]
    known = names(report(sample.kind, sample.write(sample.content)))
    silent: list[tuple[str, Any]] = []
    for value in sample.values:
        for where, changed in sample.strange(sample.content, value):
            told = names(report(sample.kind, sample.write(changed)))
            whole = sample.left_whole & set(re.findall(r"[\w-]+", where))
            if STRANGE.lower() not in told and not any(name.lower() in known for name in whole):
                silent.append((where, value))
    assert not silent, "\n".join(map(str, silent))


@pytest.mark.parametrize("which", SAMPLES)
def test_what_is_known_says_something(which: str) -> None:
    sample = SAMPLES[which]
    full = report(sample.kind, sample.write(sample.content))
    silent = {
        where
        for where, changed in sample.without(sample.content)
        if report(sample.kind, sample.write(changed)) == full
        and not (sample.silent | sample.left_whole) & set(re.findall(r"[\w-]+", where))
    }
    assert not silent, "\n".join(map(str, silent))
