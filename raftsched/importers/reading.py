"""One source of another scheduler -> the jobs that it becomes, by its kind. Readers are imported when they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raftsched.importers.foreign import Reading

if TYPE_CHECKING:
    from raftsched.importers.how import How
    from raftsched.importers.sources import Source


def read_source(source: Source, how: How) -> Reading:
    """Raises a usage error for a file that cannot be read at all."""
    if source.kind == "systemd":
        from raftsched.importers.systemd.timers import read_units

        return read_units(source.files, how)
    name, data = source.files[0]
    if source.kind == "apscheduler":
        from raftsched.importers.apscheduler.job_states import read_apscheduler

        return read_apscheduler(data, name, how)
    if source.kind == "celery":
        from raftsched.importers.celery.beat import read_celery

        return read_celery(data, name, how)
    if source.kind == "quartz":
        from raftsched.importers.quartz.exports import read_quartz

        return read_quartz(data, name, how)
    if source.kind == "xxl-job":
        from raftsched.importers.xxl_job import read_xxl_job

        return read_xxl_job(data, name, how)
    if source.kind == "powerjob":
        from raftsched.importers.powerjob import read_powerjob

        return read_powerjob(data, name, how)
    from raftsched.importers.documents import read_documents

    documents = read_documents(data, name)
    if source.kind == "dkron":
        from raftsched.importers.dkron import read_dkron

        return read_dkron(documents, timezone=how.timezone, prefix=how.prefix, now_ms=how.now_ms)
    from raftsched.importers.kubernetes import read_cronjobs

    return read_cronjobs(documents, timezone=how.timezone, prefix=how.prefix)
