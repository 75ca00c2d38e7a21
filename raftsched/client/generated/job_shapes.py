"""Made from surface/job_shapes.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

import msgspec


class JobWarning(msgspec.Struct, frozen=True, kw_only=True):
    """Names what a job asks for that nobody offers now; it is made all the same. `field`: of the job."""

    code: str  # no-executor, no-queue
    field: str
    detail: str
