"""The page knows the role of each operation as the API declares it."""

from __future__ import annotations

from scripts.make_page_roles import PATH, render


def test_the_roles_that_the_page_knows_are_up_to_date() -> None:
    assert PATH.read_text("utf-8") == render(), "run scripts/make-page-roles"
