"""A hidden instance that delivers an event -> the request that does it.

It is signed here, as it is sent: the secret stands in no task, no row of a job and no output (of a Slack address it is
the request). Address, headers and timeout are those that the webhook has now.
"""

from __future__ import annotations

import base64

import msgspec

from raftsched.core import rows
from raftsched.core.model import Attempt, Instance, Job
from raftsched.core.subjects.notices import Notice, decode_notice
from raftsched.core.subjects.webhook import Receiver, Smtp, Webhook, decode_login
from raftsched.core.tables import ReadView
from raftsched.notices.cloudevents import MEDIA_TYPE, cloud_event, event_id
from raftsched.notices.mails import mail
from raftsched.notices.texts import slack_text
from raftsched.security.sealing import WEBHOOKS, Sealer, Unsealable, open_value
from raftsched.version import __version__
from raftsched.webhooks import ID, SIGNATURE, TIMESTAMP, sign
from raftsched.worker.processes.runner import RunSpec
from raftsched.worker.processes.wire import Http, Mail
from raftsched.worker.tasks.tasks import BadJob, env_of

KEPT_BYTES = 16 * 1024  # of what is answered


def delivery_of(
    view: ReadView, job: Job, instance: Instance, attempt: Attempt, now_ms: int, sealer: Sealer | None = None
) -> RunSpec:
    """Makes the run of a delivery. Raises BadJob."""
    assert instance.notice is not None
    assert job.name, "the job of a webhook has its name"
    name = job.name
    webhook, held = rows.WEBHOOKS.get(view, name), rows.WEBHOOK_SECRETS.get(view, name)
    if webhook is None or held is None or webhook.job_id != job.id:
        raise BadJob("the webhook was deleted")
    notice = decode_notice(instance.notice)
    sealed = [(held.nonce, held.current)]
    if held.previous and now_ms < held.previous_until_ms:
        sealed.append((held.previous_nonce, held.previous))
    try:
        keys = [open_value(sealer, WEBHOOKS, name, nonce, value) for nonce, value in sealed]
    except Unsealable as why:
        raise BadJob(f"the secret of the webhook {name} cannot be read here: {why}") from None
    headers = {
        **dict(webhook.spec.headers),
        "User-Agent": f"raftsched/{__version__}",
        "Raftsched-Attempt": str(attempt.number),
    }
    cluster_id = rows.read_meta(view).cluster_id
    task: Http | Mail
    if webhook.spec.receiver is Receiver.SLACK:
        task = _to_slack(webhook, notice, headers, keys[0])
    elif webhook.spec.smtp is not None:
        task = _by_mail(webhook, webhook.spec.smtp, notice, keys[0], cluster_id)
    else:
        task = _signed(webhook, notice, headers, keys, now_ms // 1000, cluster_id)
    return RunSpec(
        token=attempt.token,
        session=attempt.session,
        task=task,
        timeout_ms=job.policy.timeout_ms,
        namespace=job.namespace,
        run_env=env_of(job, instance, attempt),
    )


def _signed(
    webhook: Webhook, notice: Notice, headers: dict[str, str], keys: list[bytes], stamp_s: int, cluster_id: bytes
) -> Http:
    body = cloud_event(notice, webhook.name, cluster_id)
    headers |= {
        "Content-Type": MEDIA_TYPE,
        ID: event_id(notice),
        TIMESTAMP: str(stamp_s),
        SIGNATURE: " ".join(sign(key, event_id(notice), stamp_s, body) for key in keys),
    }
    return Http("POST", webhook.spec.url, headers, body, (), KEPT_BYTES)


def _by_mail(webhook: Webhook, smtp: Smtp, notice: Notice, secret: bytes, cluster_id: bytes) -> Mail:
    login = decode_login(secret) if smtp.login else None
    user, password = ("", "") if login is None else (login.user, login.password)
    return Mail(
        smtp.host,
        smtp.port,
        int(smtp.tls),
        smtp.sender,
        smtp.to,
        mail(notice, webhook.name, smtp, webhook.spec.page, cluster_id),
        user,
        password,
        tuple(text for text in (password, _as_sent(user, password)) if text),
    )


def _as_sent(user: str, password: str) -> str:
    """Returns what logging in sends of a password (RFC 4616), as a server may repeat it."""
    return base64.b64encode(f"\0{user}\0{password}".encode()).decode() if password else ""


def _to_slack(webhook: Webhook, notice: Notice, headers: dict[str, str], address: bytes) -> Http:
    """The address is not to be seen in what the receiver answers."""
    headers["Content-Type"] = "application/json"
    url = address.decode()
    body = msgspec.json.encode({"text": slack_text(notice, webhook.name, webhook.spec.page)})
    return Http("POST", url, headers, body, (), KEPT_BYTES, (url, url.removeprefix(webhook.spec.url)))
