"""A webhook as given -> core.webhooks.WebhookSpec and its secret, with every error and its JSON pointer; and back."""

from __future__ import annotations

from typing import Any

from raftsched import names
from raftsched.api.http import strict
from raftsched.api.http.durations import format_duration
from raftsched.api.http.problems import FieldError, Problem, pointer
from raftsched.api.jobs.handlers import header_error, url_error
from raftsched.api.jobs.notify import ENDINGS
from raftsched.api.jobs.triggers import duration_of
from raftsched.api.resources.webhooks_schema import WEBHOOK_READ_ONLY, WebhookFilterIn, WebhookIn
from raftsched.bounds import OWNER_MAX
from raftsched.core.limits import LABEL_KEY_MAX, LABEL_VALUE_MAX, LABELS_MAX
from raftsched.core.webhooks import (
    DELAYS_MS,
    HEADER_VALUE_MAX,
    HEADERS_MAX,
    SECRET_BYTES,
    TIMEOUT_MS,
    WebhookSpec,
    webhook_error,
)
from raftsched.webhooks import PREFIX, decode_secret

_DEFAULT = WebhookSpec(url="http://127.0.0.1/")
_OWN_HEADERS = frozenset({"content-type", "user-agent"})


def read_webhook(value: Any, name: str | None) -> tuple[str, WebhookSpec, bytes]:
    """(name, what is said, its secret or nothing). `name`: that of the address. Raises Problem invalid-body with all
    that is wrong."""
    errors: list[FieldError] = []
    if isinstance(value, dict):
        value = {k: v for k, v in value.items() if k not in WEBHOOK_READ_ONLY}
    given = strict.examine(value, WebhookIn, errors)
    if given is None:
        raise Problem("invalid-body", errors=errors)
    if name is None:
        name = given.name
        if name is None:
            if not any(error.pointer == "/name" for error in errors):
                errors.append(FieldError("/name", 'is missing; jobs refer to the webhook by it, as "ops"'))
        elif not names.WEBHOOK.allows(name):
            errors.append(FieldError("/name", f"breaks the rule for names; use {names.WEBHOOK.rule}"))
    elif given.name not in (None, name):
        errors.append(FieldError("/name", f'differs from the address, which says "{name}"; a name stays'))
    spec = _spec(given, errors)
    secret = b"" if given.secret is None else read_secret(given.secret, errors)
    if not errors and name is not None:
        wrong = webhook_error(name, spec)
        if wrong is not None:
            errors.append(FieldError("", f"is refused: {wrong.rstrip('.')}"))
    if errors or name is None:
        raise Problem("invalid-body", errors=errors)
    return name, spec, secret


def read_secret(text: str, errors: list[FieldError]) -> bytes:
    """Returns the secret as bytes. An error does not quote it."""
    least, most = SECRET_BYTES
    right = f"write {PREFIX} and {least} to {most} random bytes in base64, or leave it out to have one made"
    try:
        raw = decode_secret(text) if text.startswith(PREFIX) else b""
    except ValueError:
        raw = b""
    if not least <= len(raw) <= most:
        errors.append(FieldError("/secret", f"is no secret of a webhook; {right}"))
    return raw


def _spec(given: WebhookIn, errors: list[FieldError]) -> WebhookSpec:
    before = len(errors)
    url = given.url
    if url is None:
        if not any(error.pointer == "/url" for error in errors):
            errors.append(FieldError("/url", "is missing; give the address that events are sent to"))
    else:
        _url(url, errors)
    chosen = given.filter or WebhookFilterIn()
    _filter(chosen, errors)
    _headers(given.headers, errors)
    timeout = duration_of(given.timeout, "/timeout", errors)
    least, most = TIMEOUT_MS
    if timeout is not None and not least <= timeout <= most:
        errors.append(FieldError("/timeout", f"must be from {format_duration(least)} to {format_duration(most)}"))
    delays: tuple[int, ...] = DELAYS_MS
    if given.retry_delays is not None:
        texts = enumerate(given.retry_delays)
        delays = tuple(duration_of(text, f"/retry_delays/{i}", errors) or 0 for i, text in texts)
    if len(errors) > before:
        return _DEFAULT
    return WebhookSpec(
        url=url or "",
        on=tuple(sorted({ENDINGS[name] for name in given.events})),
        namespace=chosen.namespace,
        owner=chosen.owner,
        labels=tuple(sorted(chosen.labels.items())),
        queue=chosen.queue,
        headers=tuple(sorted(given.headers.items())),
        active=given.active is not False,
        timeout_ms=_DEFAULT.timeout_ms if timeout is None else timeout,
        delays_ms=delays,
        max_running=given.max_running or _DEFAULT.max_running,
    )


def _url(url: str, errors: list[FieldError]) -> None:
    wrong = url_error(url)
    if wrong is None and "\\" in url:
        wrong = "has a backslash; an address has none, write %5C"
    if wrong is not None:
        errors.append(FieldError("/url", wrong))


def _filter(given: WebhookFilterIn, errors: list[FieldError]) -> None:
    if given.namespace is not None and not names.NAMESPACE.allows(given.namespace):
        errors.append(FieldError("/filter/namespace", f"is none that a job can be in; use {names.NAMESPACE.rule}"))
    if given.queue is not None and not names.QUEUE.allows(given.queue):
        errors.append(FieldError("/filter/queue", f"is none that a job can name; use {names.QUEUE.rule}"))
    if given.owner is not None and not 1 <= len(given.owner) <= OWNER_MAX:
        errors.append(FieldError("/filter/owner", f"must have 1 to {OWNER_MAX} characters"))
    if len(given.labels) > LABELS_MAX:
        errors.append(FieldError("/filter/labels", f"has {len(given.labels)} labels; at most {LABELS_MAX} are allowed"))
        return
    for key, value in given.labels.items():
        at = f"/filter/labels{pointer(key[:32])}"
        if not 1 <= len(key) <= LABEL_KEY_MAX:
            errors.append(FieldError(at, f"needs a key of 1 to {LABEL_KEY_MAX} characters"))
        if len(value) > LABEL_VALUE_MAX:
            errors.append(FieldError(at, f"is too long; at most {LABEL_VALUE_MAX} characters"))


def _headers(given: dict[str, str], errors: list[FieldError]) -> None:
    if len(given) > HEADERS_MAX:
        errors.append(FieldError("/headers", f"has {len(given)} headers; at most {HEADERS_MAX} are allowed"))
        return
    for name, value in given.items():
        at = f"/headers{pointer(name[:128])}"
        wrong = header_error(name, value)
        if wrong is None and (name.lower() in _OWN_HEADERS or name.lower().startswith("webhook-")):
            wrong = "is set with each event; leave it out"
        if wrong is None and len(value) > HEADER_VALUE_MAX:
            wrong = f"is too long; at most {HEADER_VALUE_MAX} characters are allowed"
        if wrong is not None:
            errors.append(FieldError(at, wrong))
    if len({name.lower() for name in given}) < len(given):
        errors.append(FieldError("/headers", "has a header twice; their case does not matter"))


def as_given(spec: WebhookSpec) -> dict[str, Any]:
    """Returns the JSON of a PUT that would change nothing."""
    return {
        "url": spec.url,
        "events": [ending.name.lower() for ending in spec.on],
        "filter": {
            "namespace": spec.namespace,
            "owner": spec.owner,
            "labels": dict(spec.labels),
            "queue": spec.queue,
        },
        "headers": dict(spec.headers),
        "active": spec.active,
        "timeout": format_duration(spec.timeout_ms),
        "retry_delays": [format_duration(delay) for delay in spec.delays_ms],
        "max_running": spec.max_running,
    }
