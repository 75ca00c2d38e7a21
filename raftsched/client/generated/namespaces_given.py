"""Made from surface/namespaces.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from typing import TypedDict

from raftsched.client.moments import Duration
from raftsched.client.spec_generated import JobDefaults


class NamespaceLimits(TypedDict, total=False):
    """None: no limit. A limit below what there is already lets nothing more in. `max_running`: runs at one time, of all
    its jobs; others wait. `max_starts_per_minute`: attempts that start. `output_bytes`: of what they print, so much is
    kept on each node, and the oldest goes first. `output_max_bytes`, `output_keep`, `output_copies`: in place of the
    settings of these names, how much is kept of what an attempt prints, how long, and on how many nodes."""

    max_jobs: int | None
    max_running: int | None
    max_starts_per_minute: int | None
    output_bytes: int | None
    output_max_bytes: int | None
    output_keep: Duration | None
    output_copies: int | None


class NamespaceSpec(TypedDict, total=False):
    """The declaration of a namespace. Defaults hold for jobs that are written from then on."""

    description: str | None
    owner: str | None
    defaults: JobDefaults | None
    limits: NamespaceLimits | None
