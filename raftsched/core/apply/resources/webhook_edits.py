"""Creates, changes, tests and deletes webhooks, and rotates their secrets. Each has a hidden job, whose instances are
its deliveries, and a queue, which bounds how many run at one time.

Changes hold for deliveries that wait already, too: their job has one revision only.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from raftsched.bounds import DAY_MS
from raftsched.core.apply.indexes import tag_job
from raftsched.core.apply.jobs.lifecycle import remove
from raftsched.core.apply.keys import HASH_SIZE
from raftsched.core.apply.resources.queue_edits import drop_queue, make_queue
from raftsched.core.apply.resources.users import jobs_with_tag, refusal_by_users
from raftsched.core.apply.runs.notices import add_webhook, deliver, full, limit_queue, put_webhook_row, webhooks
from raftsched.core.apply.tx import Tx
from raftsched.core.apply.versions import REPEAT, is_stale, stale_revision
from raftsched.core.commands import Accepted, Answer, Rejected
from raftsched.core.model import Job, JobState, Outcome, Overlap, Policy, Retention, Retry, Trigger, TriggerKind
from raftsched.core.rows import decode_secrets, encode_row
from raftsched.core.rules.ascii import lower
from raftsched.core.rules.eligibility import DELIVER
from raftsched.core.rules.hosts import target_of_url
from raftsched.core.rules.selection import webhook_tag
from raftsched.core.subjects.changes import ClusterChange, ClusterEvent
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE, Notice
from raftsched.core.subjects.webhook import (
    OVERLAP_MAX_MS,
    WEBHOOKS_MAX,
    DeleteWebhook,
    PutWebhook,
    Receiver,
    ResealWebhook,
    RotateSecret,
    Secrets,
    TestWebhook,
    Webhook,
    WebhookSpec,
    queue_of,
    webhook_error,
    webhook_secret_error,
)
from raftsched.core.tables import Table, name_key, u64

_RETENTION = Retention(succeeded=10_000, failed=10_000, max_age_ms=DAY_MS)  # dead letters have their own time
_JITTER_PERCENT = 20  # so that a receiver that comes back is not sent everything in one moment

_json = msgspec.json.Encoder(order="deterministic").encode


def put_webhook(tx: Tx, c: PutWebhook) -> Answer:
    wrong = webhook_error(c.name, c.spec)
    if wrong is not None:
        return Rejected("invalid-parameter", wrong)
    webhook = webhooks(tx).get(c.name)
    if webhook is None:
        return _no_webhook(c.name) if c.if_revision is not None else _create(tx, c)
    if c.if_none:
        return Rejected("exists", f"The webhook {c.name} exists already.")
    if is_stale(c.if_revision, webhook):
        return stale_revision("The webhook", webhook, REPEAT)
    if c.spec.receiver is not webhook.spec.receiver:
        kind = lower(webhook.spec.receiver.name)
        return Rejected("not-possible", f"The webhook {c.name} is of the kind {kind} and stays so; create another.")
    if _lacks_login(c, webhook.spec):
        return _no_login()
    new_secret = bool(c.secret) and not c.made and not same_secret(_secrets(tx, c.name), c)
    if new_secret:
        refused = _replace_secret(tx, c)
        if refused is not None:
            return refused
    unchanged = not new_secret and c.spec == webhook.spec
    if not unchanged:
        if c.create:
            return Rejected(
                "not-possible", f"The webhook {c.name} exists already, and is another one; PATCH changes it."
            )
        if not new_secret and c.spec.smtp is not None and not c.spec.smtp.login:
            _put_secrets(tx, c.name, Secrets(b""))  # that of before is not needed any more
        webhook.spec = c.spec
        webhook.gone = False
        _changed(tx, webhook)
        _follow(tx, webhook)
    return Accepted(job=tx.job(webhook.job_id), unchanged=unchanged)


def _lacks_login(c: PutWebhook, before: WebhookSpec | None) -> bool:
    """Returns whether it is to log in at the mail server, and nobody has said with what."""
    if c.spec.smtp is None or not c.spec.smtp.login or c.secret:
        return False
    return before is None or before.smtp is None or not before.smtp.login


def _no_login() -> Rejected:
    detail = "is hidden, and none is kept that it could stand for; write user and password"
    return Rejected("invalid-parameter", detail, "/smtp/user", meaning="inconsistent")


def _replace_secret(tx: Tx, c: PutWebhook) -> Rejected | None:
    """Stores another secret of a webhook that is there. That by which events are signed is changed by a rotation, so
    that receivers can follow; others are a part of where the events go."""
    if c.spec.receiver is Receiver.WEBHOOK:
        return Rejected(
            "not-possible",
            f"The webhook {c.name} has another secret; POST to /v1/webhooks/{c.name}/rotate to change it.",
        )
    wrong = webhook_secret_error(c.secret, c.nonce, c.digest, c.spec.receiver)
    if wrong is not None:
        return Rejected("invalid-parameter", wrong)
    if not c.create:
        _put_secrets(tx, c.name, Secrets(c.secret, nonce=c.nonce, digest=c.digest))
    return None


def _create(tx: Tx, c: PutWebhook) -> Answer:
    if _lacks_login(c, None):
        return _no_login()
    wrong = webhook_secret_error(c.secret, c.nonce, c.digest, c.spec.receiver)
    if wrong is not None:
        return Rejected("invalid-parameter", wrong)
    if len(c.asked) > HASH_SIZE:
        return Rejected("invalid-parameter", f"A key is a hash of {HASH_SIZE} bytes.")
    if tx.meta.webhooks >= WEBHOOKS_MAX:
        return Rejected("not-possible", f"There are {tx.meta.webhooks} webhooks; {WEBHOOKS_MAX} is the limit.")
    job = Job(
        id=tx.new_id(),
        namespace=SYSTEM_NAMESPACE,
        name=c.name,
        revision=1,
        state=JobState.SCHEDULED,
        policy=_policy(tx, c.name, c.spec),
        body=_body(c.spec),
        created_at_ms=tx.now,
        modified_at_ms=tx.now,
        anchor_at_ms=tx.now,
    )
    webhook = Webhook(name=c.name, job_id=job.id, revision=0, spec=c.spec, created_at_ms=tx.now, modified_at_ms=tx.now)
    add_webhook(tx, webhook)
    tx.view.put(Table.NAMES, name_key(job.namespace, c.name), u64(job.id))
    tag_job(tx, job)
    tx.put_job(job)
    _put_secrets(tx, c.name, Secrets(c.secret, asked=c.asked, nonce=c.nonce, digest=c.digest))
    tx.put_queue(make_queue(tx, queue_of(c.name)))
    limit_queue(tx, webhook)
    _changed(tx, webhook)
    return Accepted(job=job, created=True)


def _changed(tx: Tx, webhook: Webhook) -> None:
    webhook.revision = tx.new_revision()
    webhook.modified_at_ms = tx.now
    put_webhook_row(tx, webhook)
    tx.events.cluster(ClusterChange(ClusterEvent.WEBHOOK_CHANGED, webhook.name))


def _follow(tx: Tx, webhook: Webhook) -> None:
    """Brings job and queue in step with the webhook."""
    job = tx.job(webhook.job_id)
    if job is not None:
        job.policy = _policy(tx, webhook.name, webhook.spec)
        job.body = _body(webhook.spec)
        job.modified_at_ms = tx.now
        tx.put_job(job)
    limit_queue(tx, webhook)


def _policy(tx: Tx, name: str, spec: WebhookSpec) -> Policy:
    return Policy(
        trigger=Trigger(kind=TriggerKind.MANUAL),
        queue=queue_of(name),
        timeout_ms=spec.timeout_ms,
        retry=Retry(spec.delays_ms, (Outcome.FAILED, Outcome.TIMED_OUT), _JITTER_PERCENT),
        overlap=Overlap.ALLOW,
        required_capability="http" if spec.receiver is Receiver.WEBHOOK else DELIVER,
        target=target_of_url(spec.url, tx.reading) if spec.smtp is None else f"{spec.smtp.host}:{spec.smtp.port}",
        retention=_RETENTION,
    )


def _body(spec: WebhookSpec) -> bytes:
    """Returns the content of the hidden job as people see it. It is not what is run."""
    url = spec.url if spec.smtp is None else f"smtp://{spec.smtp.host}:{spec.smtp.port}"
    return _json({"trigger": {"manual": True}, "handler": {"http": {"url": url, "method": "POST"}}})


# ---------------------------------------------------------------- secrets


def rotate_secret(tx: Tx, c: RotateSecret) -> Answer:
    webhook = _webhook_to_change(tx, c.name, c.if_revision)
    if isinstance(webhook, Rejected):
        return webhook
    if webhook.spec.receiver is not Receiver.WEBHOOK:
        return Rejected("not-possible", f"Nothing is signed for the webhook {c.name}; PATCH it to send elsewhere.")
    wrong = webhook_secret_error(c.secret, c.nonce, c.digest)
    if wrong is not None:
        return Rejected("invalid-parameter", wrong)
    if len(c.asked) > HASH_SIZE:
        return Rejected("invalid-parameter", f"A key is a hash of {HASH_SIZE} bytes.")
    if not 0 <= c.overlap_ms <= OVERLAP_MAX_MS:
        return Rejected("invalid-parameter", f"overlap is {c.overlap_ms} ms; use 0 to {OVERLAP_MAX_MS}.")
    secrets = _secrets(tx, c.name)
    unchanged = same_secret(secrets, c)
    if not unchanged:
        put = Secrets(c.secret, asked=c.asked, nonce=c.nonce, digest=c.digest)
        if c.overlap_ms:
            until = tx.now + c.overlap_ms
            put = replace(put, previous=secrets.current, previous_nonce=secrets.nonce, previous_until_ms=until)
        _put_secrets(tx, c.name, put)
        _changed(tx, webhook)
    return Accepted(job=tx.job(webhook.job_id), created=True, unchanged=unchanged)


def same_secret(secrets: Secrets, c: PutWebhook | RotateSecret) -> bool:
    """Returns whether the secret is the present one. Sealed secrets differ each time, and are compared by their
    digests. A sealed secret does not equal one that is not sealed: the proposer has the latter sealed first."""
    if c.nonce and secrets.nonce:
        return bool(c.digest) and secrets.digest == c.digest
    return not c.nonce and not secrets.nonce and secrets.current == c.secret


def reseal_webhook(tx: Tx, c: ResealWebhook) -> Answer:
    raw = tx.view.get(Table.WEBHOOK_SECRETS, c.name.encode()) if c.name in webhooks(tx) else None
    if raw is None:
        return _no_webhook(c.name)
    if sha256(raw).digest() != c.was:
        return Rejected("stale-revision", f"The secrets of the webhook {c.name} are others meanwhile.")
    wrong = webhook_secret_error(c.current, c.nonce, c.digest, webhooks(tx)[c.name].spec.receiver)
    if wrong is None and c.previous:
        wrong = webhook_secret_error(c.previous, c.previous_nonce)
    if wrong is not None:
        return Rejected("invalid-parameter", wrong)
    was = decode_secrets(raw)
    put = replace(was, current=c.current, nonce=c.nonce, digest=c.digest)
    _put_secrets(tx, c.name, replace(put, previous=c.previous, previous_nonce=c.previous_nonce))
    return Accepted()


def _secrets(tx: Tx, name: str) -> Secrets:
    raw = tx.view.get(Table.WEBHOOK_SECRETS, name.encode())
    assert raw is not None, "each webhook has a secret"
    return decode_secrets(raw)


def _put_secrets(tx: Tx, name: str, secrets: Secrets) -> None:
    tx.view.put(Table.WEBHOOK_SECRETS, name.encode(), encode_row(secrets))


# ---------------------------------------------------------------- test, delete


def send_test(tx: Tx, c: TestWebhook) -> Answer:
    webhook = webhooks(tx).get(c.name)
    if webhook is None:
        return _no_webhook(c.name)
    if not webhook.spec.active:
        return Rejected("illegal-transition", f"The webhook {c.name} is not active; nothing is sent to it.")
    job = tx.job(webhook.job_id)
    if job is None or full(tx, job):
        return Rejected("too-many", f"Too many events wait to be sent to the webhook {c.name}.")
    instance = deliver(tx, webhook, Notice(id=tx.new_id(), at_ms=tx.now), is_test=True)
    assert instance is not None
    return Accepted(job=job, instance=instance.key, created=True, row=instance)


def delete_webhook(tx: Tx, c: DeleteWebhook) -> Answer:
    webhook = _webhook_to_change(tx, c.name, c.if_revision)
    if isinstance(webhook, Rejected):
        return webhook
    detail = f'Jobs name the webhook {c.name}. Take it out of their notify first, or PATCH it to {{"active": false}}.'
    refused = refusal_by_users("illegal-transition", detail, _named_by(tx, c.name))
    if refused is not None:
        return refused
    job = tx.job(webhook.job_id)
    if job is not None:
        remove(tx, job)
    drop_queue(tx, queue_of(c.name))
    tx.view.delete(Table.WEBHOOKS, c.name.encode())
    tx.view.delete(Table.WEBHOOK_SECRETS, c.name.encode())
    del webhooks(tx)[c.name]
    tx.meta.webhooks -= 1
    tx.events.cluster(ClusterChange(ClusterEvent.WEBHOOK_CHANGED, c.name))
    return Accepted()


def _named_by(tx: Tx, name: str) -> Iterator[Job]:
    for job in jobs_with_tag(tx, webhook_tag(name)):
        if any(one.webhook == name for one in job.policy.notify):
            yield job


def _webhook_to_change(tx: Tx, name: str, if_revision: int | None) -> Webhook | Rejected:
    webhook = webhooks(tx).get(name)
    if webhook is None:
        return _no_webhook(name)
    return stale_revision("The webhook", webhook, REPEAT) if is_stale(if_revision, webhook) else webhook


def _no_webhook(name: str) -> Rejected:
    return Rejected("not-found", f'There is no webhook "{name[:64]}".')
