"""The jobs that a refusal names, because they use a thing that was to be deleted. Jobs that the caller may not see are
only counted."""

from __future__ import annotations

import msgspec

from raftsched.api.auth.callers import sees
from raftsched.core.commands import Rejected
from raftsched.core.limits import USERS_MAX

NAMED_MAX = 5


def naming_users(rejected: Rejected) -> Rejected:
    """Returns the refusal with its jobs in the text, as far as the caller may see them."""
    if not rejected.jobs:
        return rejected
    jobs = rejected.jobs[:USERS_MAX]
    least = "at least " if len(rejected.jobs) > len(jobs) else ""
    own = [f"{namespace}/{name}" for namespace, name in jobs if sees(namespace)]
    hidden = len(jobs) - len(own)
    said = ", ".join(own[:NAMED_MAX])
    if len(own) > NAMED_MAX:
        said += f", and {least}{len(own) - NAMED_MAX} more"
    if hidden:
        between = "" if not said else ", and " if len(own) > NAMED_MAX else " and "
        said += f"{between}{least}{hidden} {'job' if hidden == 1 else 'jobs'} of other namespaces"
    return msgspec.structs.replace(rejected, detail=f"{rejected.detail} Used by: {said}.")
