"""A hidden instance that delivers an event -> the request that does it.

It is signed here, as it is sent: the secret stands in no task, no row of a job and no output. Address, headers and
timeout are those that the webhook has now.
"""

from __future__ import annotations

from raftsched import __version__
from raftsched.cloudevents import MEDIA_TYPE, cloud_event, event_id
from raftsched.core.model import Attempt, Instance, Job
from raftsched.core.notices import decode_notice
from raftsched.core.rows import META_KEY, decode_meta, decode_secrets, decode_webhook
from raftsched.core.tables import ReadView, Table
from raftsched.security.sealing import WEBHOOKS, Sealer, Unsealable, open_value
from raftsched.webhooks import ID, SIGNATURE, TIMESTAMP, sign
from raftsched.worker.runner import RunSpec
from raftsched.worker.tasks import BadJob
from raftsched.worker.wire import Http

KEPT_BYTES = 16 * 1024  # of what is answered


def delivery_of(
    view: ReadView, job: Job, instance: Instance, attempt: Attempt, now_ms: int, sealer: Sealer | None = None
) -> RunSpec:
    """Makes the run of a delivery. Raises BadJob."""
    assert instance.notice is not None
    assert job.name, "the job of a webhook has its name"
    name = job.name
    raw = view.get(Table.WEBHOOKS, name.encode())
    secrets = view.get(Table.WEBHOOK_SECRETS, name.encode())
    webhook = None if raw is None else decode_webhook(raw)
    if webhook is None or secrets is None or webhook.job_id != job.id:
        raise BadJob("the webhook was deleted")
    notice = decode_notice(instance.notice)
    body = cloud_event(notice, name, decode_meta(view.get(Table.META, META_KEY)).cluster_id)
    held = decode_secrets(secrets)
    sealed = [(held.nonce, held.current)]
    if held.previous and now_ms < held.previous_until_ms:
        sealed.append((held.previous_nonce, held.previous))
    try:
        keys = [open_value(sealer, WEBHOOKS, name, nonce, value) for nonce, value in sealed]
    except Unsealable as why:
        raise BadJob(f"the secret of the webhook {name} cannot be read here: {why}") from None
    stamp = now_ms // 1000
    headers = {
        **dict(webhook.spec.headers),
        "Content-Type": MEDIA_TYPE,
        "User-Agent": f"raftsched/{__version__}",
        "Raftsched-Attempt": str(attempt.number),
        ID: event_id(notice),
        TIMESTAMP: str(stamp),
        SIGNATURE: " ".join(sign(key, event_id(notice), stamp, body) for key in keys),
    }
    return RunSpec(
        token=attempt.token,
        session=attempt.session,
        task=Http("POST", webhook.spec.url, headers, body, (), KEPT_BYTES),
        timeout_ms=job.policy.timeout_ms,
    )
