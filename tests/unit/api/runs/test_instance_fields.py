"""The straight-line code that shows instances is up to date with the table of their fields."""

from __future__ import annotations

import pytest

from scripts import make_instances
from scripts.make_fields import ROOT, formatted


def test_the_made_code_is_up_to_date() -> None:
    made = formatted(make_instances.MADE, make_instances.render())
    assert made == (ROOT / make_instances.MADE).read_text("utf-8"), "run scripts/make-instances"


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        ('    "priority": lambda row, one, names: row.priority,\n', "", "differ in {'priority'}"),
        ("lambda row, one, names: row.priority", "lambda row, names: row.priority", "is no lambda of row, one"),
    ],
)
def test_a_table_that_makes_no_instance_is_refused(before: str, after: str, refused: str) -> None:
    source = make_instances.TABLES.read_text("utf-8")
    assert before in source
    with pytest.raises(ValueError, match=refused):
        make_instances.render(source.replace(before, after))
