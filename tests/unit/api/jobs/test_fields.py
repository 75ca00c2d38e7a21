"""What is made from the table of a job's fields is up to date, and the table agrees with core and the API."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from raftsched.api.http.problems import FieldError
from raftsched.api.jobs.fields import FIELDS, POLICY
from raftsched.api.jobs.rules import misfire_of, retention_of, retry_of
from raftsched.core.model import Policy
from raftsched.surface.content import MisfireIn, RetentionIn, RetryIn
from raftsched.surface.jobs_generated import DefaultsIn, JobIn, JobShown
from scripts.make_fields import MADE, ROOT, formatted, with_docs


@pytest.mark.parametrize("path", MADE)
def test_made_sources_are_up_to_date(path: str) -> None:
    assert formatted(path, MADE[path]()) == Path(ROOT / path).read_text("utf-8"), "run scripts/make-fields"


def test_the_documented_table_is_up_to_date() -> None:
    text = (ROOT / "docs" / "api.md").read_text("utf-8")
    assert with_docs(text) == text, "run scripts/make-fields"
    assert all(f"| `{field.name}` | {field.about} |" in text for field in FIELDS)


def test_every_row_has_its_place_in_the_types() -> None:
    names = [field.name for field in FIELDS]
    assert list(JobIn.__struct_fields__) == [*names, "name", "namespace", "suspended"]
    assert list(JobShown.__struct_fields__) == names
    assert list(DefaultsIn.__struct_fields__) == ["timezone", *(f.name for f in FIELDS if f.inherited)]


def test_policy_gets_each_of_its_fields_from_one_row() -> None:
    computed = [name for field in FIELDS for name in (field.policy, *(d[0] for d in field.derived)) if name]
    assert sorted(computed) == sorted(Policy.__struct_fields__)


def test_defaults_of_objects_are_those_of_the_policy() -> None:
    errors: list[FieldError] = []
    assert retry_of(RetryIn(), errors) == POLICY.retry
    assert misfire_of(MisfireIn(), POLICY.trigger, [], errors) == POLICY.misfire
    assert retention_of(RetentionIn(), errors) == POLICY.retention
    assert not errors
    shown = msgspec.json.decode(b'{"trigger": {}, "handler": {}}', type=JobShown)
    assert (shown.priority, shown.max_lost) == (POLICY.priority, POLICY.max_lost)
