"""The cluster itself: who led."""

from __future__ import annotations

import msgspec

from raftsched.surface.operation import READ, Operation, PageOf
from raftsched.surface.scalars import Time
from raftsched.surface.sdk import Sdk, record


@record("Term")
class TermOut(msgspec.Struct):
    """A leadership. It began `at` by its leader's clock, with the entry of this `index` in the log, and lasted until
    the next one began, or less long."""

    term: int
    leader: str
    at: Time
    index: int


TERMS = Operation(
    "terms_list_all",
    "GET",
    "/v1/cluster/terms",
    "List the newest leaderships",
    {200: PageOf(TermOut)},
    query=READ,
    role="viewer",
    scope="shared",
    says="The newest first, 200 of them at most. Terms in which nobody came to lead are left out.",
    sdk=Sdk("Cluster.terms"),
)
