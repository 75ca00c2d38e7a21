"""The part of what is in no namespace, and yet about one, that a caller may know of. For what is in a namespace that is
`sees` and `permits` (callers.py). Lists, single reads, streams, counts and refusals ask these alone."""

from __future__ import annotations

from raftsched.api.auth.callers import sees
from raftsched.core.rows import WEBHOOKS
from raftsched.core.subjects.notices import QUOTA_QUEUE, SYSTEM_QUEUE
from raftsched.core.subjects.webhook import Webhook
from raftsched.core.tables import ReadView


def knows_webhook(webhook: Webhook) -> bool:
    """Returns whether the webhook exists for the caller: it listens to all namespaces, or to one that they can see."""
    return webhook.spec.namespace is None or sees(webhook.spec.namespace)


def knows_queue(view: ReadView, name: str) -> bool:
    """Returns whether the queue exists for the caller: all but those of webhooks that do not, and those by which the
    limits of namespaces are kept, which say nothing that the namespace does not."""
    if name.startswith(QUOTA_QUEUE):
        return False
    if not name.startswith(SYSTEM_QUEUE):
        return True
    webhook = WEBHOOKS.get(view, name.removeprefix(SYSTEM_QUEUE))
    return webhook is not None and knows_webhook(webhook)
