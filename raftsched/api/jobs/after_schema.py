"""The jobs that a job follows, in requests."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from raftsched import names
from raftsched.core.limits import UPSTREAM_MAX

JobRef = Annotated[
    str,
    Meta(
        description='a job as "name", or "namespace/name" of one elsewhere',
        extra_json_schema={"pattern": names.JOB_REFERENCE.pattern},
    ),
]
JobRefs = Annotated[
    list[JobRef], Meta(extra_json_schema={"minItems": 1, "maxItems": UPSTREAM_MAX, "uniqueItems": True})
]


class AfterIn(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Exactly one of job, all_of (runs of the same scheduled time), any_of. `on`: which end of their runs starts this
    job, "succeeded" unless given. `pass`: their results are among the params, under "upstream"."""

    job: JobRef | None = None
    all_of: JobRefs | None = None
    any_of: JobRefs | None = None
    on: Literal["succeeded", "failed", "ended"] | None = None
    pass_: Literal["result"] | None = field(default=None, name="pass")
