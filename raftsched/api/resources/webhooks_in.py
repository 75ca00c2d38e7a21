"""A webhook as given -> core.subjects.webhook.WebhookSpec and its secret, with every error and its JSON pointer; and
back."""

from __future__ import annotations

from typing import Any

from raftsched import names
from raftsched.api.http import strict
from raftsched.api.http.durations import format_duration
from raftsched.api.http.problems import Combination, FieldError, Problem, pointer
from raftsched.api.jobs.handlers import header_error, url_error
from raftsched.api.jobs.notify import EVENTS
from raftsched.api.jobs.triggers import duration_of
from raftsched.bounds import (
    LABEL_KEY_MAX,
    LABEL_VALUE_MAX,
    LABELS_MAX,
    OWNER_MAX,
    WEBHOOK_HEADER_MAX,
    WEBHOOK_HEADERS_MAX,
)
from raftsched.core.subjects.notices import OF_CLUSTER
from raftsched.core.subjects.webhook import (
    DELAYS_MS,
    MOST_PER_MS,
    SECRET_BYTES,
    TIMEOUT_MS,
    Login,
    Receiver,
    Smtp,
    Tls,
    WebhookSpec,
    encode_login,
    is_host,
    is_mailbox,
    origin_of,
    webhook_error,
)
from raftsched.hosts import url_asked_for
from raftsched.surface.webhooks import (
    HIDDEN_MAX,
    WEBHOOK_READ_ONLY,
    AtMost,
    SmtpIn,
    WebhookFilterIn,
    WebhookIn,
)
from raftsched.webhooks import PREFIX, decode_secret

_DEFAULT = WebhookSpec(url="http://127.0.0.1/")
HIDDEN = "***"
PORTS = {Tls.STARTTLS: 587, Tls.TLS: 465, Tls.NONE: 25}
HIDDEN_PATH = f"/{HIDDEN}"  # for all but scheme and host of an address that is secret
CLUSTER_EVENTS = {event.name.lower(): event for event in OF_CLUSTER}
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
        detail = f'differs from the address, which says "{name}"; a name stays'
        is_name = names.WEBHOOK.allows(given.name or "")
        errors.append(FieldError("/name", detail, "inconsistent" if is_name else None))
    spec = _spec(given, errors)
    secret = _secret(given, errors)
    if not errors and name is not None:
        wrong = webhook_error(name, spec)
        if wrong is not None:
            errors.append(FieldError("", f"is refused: {wrong.rstrip('.')}"))
    if errors or name is None:
        raise Problem("invalid-body", errors=errors)
    return name, spec, secret


def _secret(given: WebhookIn, errors: list[FieldError]) -> bytes:
    """Returns the secret that is given; empty: none is, or that of a webhook that is there is meant."""
    if given.kind == "webhook":
        return b"" if given.secret is None else read_secret(given.secret, errors)
    if given.secret is not None:
        read_secret(given.secret, errors)  # what is none is said as well
        detail = 'goes with the kind "webhook", whose events are signed'
        by_mail = given.kind == "email"
        errors.append(Combination("/secret", detail) if by_mail else FieldError("/secret", detail, "inconsistent"))
    if given.kind == "email":
        smtp = given.smtp
        if smtp is None or smtp.user is None or smtp.password is None or smtp.password == HIDDEN:
            return b""
        return encode_login(Login(smtp.user, smtp.password))
    if given.url is None or given.url.endswith(HIDDEN_PATH):
        return b""
    return given.url.encode()


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
    if given.kind == "email":
        if url is not None:
            errors.append(Combination("/url", "goes with other kinds; mails go where smtp says"))
    elif url is None:
        if not any(error.pointer == "/url" for error in errors):
            errors.append(Combination("/url", "is missing; give the address that events are sent to"))
    else:
        _url(url, errors)
        url = url_asked_for(url)
    smtp = _smtp(given, errors)
    most_per = _at_most(given.at_most, errors)
    if given.page is not None:
        _url(given.page, errors, "/page")
    chosen = given.filter or WebhookFilterIn()
    _filter(chosen, errors)
    _headers(given.headers, errors)
    timeout = duration_of(given.timeout, "/timeout", errors)
    least, most = TIMEOUT_MS
    if timeout is not None and not least <= timeout <= most:
        errors.append(
            FieldError("/timeout", f"must be from {format_duration(least)} to {format_duration(most)}", "out-of-range")
        )
    delays: tuple[int, ...] = DELAYS_MS
    if given.retry_delays is not None:
        texts = enumerate(given.retry_delays)
        delays = tuple(duration_of(text, f"/retry_delays/{i}", errors) or 0 for i, text in texts)
    if len(errors) > before:
        return _DEFAULT
    receiver = Receiver[given.kind.upper()]
    events = {EVENTS[name] for name in given.events} | {CLUSTER_EVENTS[name] for name in given.cluster_events}
    return WebhookSpec(
        url=origin_of(url) if url is not None and receiver is Receiver.SLACK else url or "",
        on=tuple(sorted(events)),
        namespace=chosen.namespace,
        owner=chosen.owner,
        labels=tuple(sorted(chosen.labels.items())),
        queue=chosen.queue,
        headers=tuple(sorted(given.headers.items())),
        active=given.active is not False,
        timeout_ms=_DEFAULT.timeout_ms if timeout is None else timeout,
        delays_ms=delays,
        max_running=given.max_running or _DEFAULT.max_running,
        receiver=receiver,
        page=given.page or "",
        smtp=smtp,
        most=0 if given.at_most is None else given.at_most.count,
        most_per_ms=most_per,
    )


def _smtp(given: WebhookIn, errors: list[FieldError]) -> Smtp | None:
    """Returns the mail server. Errors are added to the list; the result is of use only when none were."""
    smtp = given.smtp
    if given.kind != "email" and smtp is not None:
        errors.append(Combination("/smtp", 'goes with the kind "email"'))
    if smtp is None:
        if given.kind == "email" and not any(error.pointer.startswith("/smtp") for error in errors):
            errors.append(Combination("/smtp", "is missing; give the mail server, and who is written to"))
        return None
    before = len(errors)
    for at, value in (("host", smtp.host), ("from", smtp.from_), ("to", smtp.to or None)):
        if value is None and not any(error.pointer.startswith(f"/smtp/{at}") for error in errors):
            errors.append(FieldError(f"/smtp/{at}", "is missing"))
    if smtp.host is not None and not is_host(smtp.host):
        errors.append(FieldError("/smtp/host", "must be the name or address of a mail server"))
    boxes = [("from", smtp.from_), *((f"to/{i}", text) for i, text in enumerate(smtp.to))]
    for at, text in boxes:
        if text is not None and not is_mailbox(text):
            errors.append(FieldError(f"/smtp/{at}", "must be one mail address such as ops@example.com"))
    if len(set(smtp.to)) < len(smtp.to):
        errors.append(FieldError("/smtp/to", "has an address twice"))
    _login(smtp, errors)
    if len(errors) > before or smtp.host is None or smtp.from_ is None:
        return None
    tls = Tls[smtp.tls.upper()]
    return Smtp(
        host=smtp.host.lower(),
        port=smtp.port or PORTS[tls],
        tls=tls,
        sender=smtp.from_,
        to=tuple(smtp.to),
        login=smtp.user is not None,
    )


def _login(smtp: SmtpIn, errors: list[FieldError]) -> None:
    if (smtp.user is None) != (smtp.password is None):
        at, given = ("user", smtp.password) if smtp.user is None else ("password", smtp.user)
        described = given is not None and 1 <= len(given) <= HIDDEN_MAX
        detail = "is missing; user and password go together"
        errors.append(FieldError(f"/smtp/{at}", detail, "inconsistent" if described else None))
    elif smtp.user is not None and (smtp.user == HIDDEN) != (smtp.password == HIDDEN):
        errors.append(FieldError("/smtp/user", "write user and password, or leave both hidden", "inconsistent"))
    elif smtp.user is not None and smtp.tls == "none":
        errors.append(FieldError("/smtp/tls", 'must be "starttls" or "tls" where a password is sent', "inconsistent"))


def _at_most(given: AtMost | None, errors: list[FieldError]) -> int:
    """Returns the time in ms, 0 where there is no limit."""
    per = None if given is None else duration_of(given.per, "/at_most/per", errors)
    least, most = MOST_PER_MS
    if per is not None and not least <= per <= most:
        errors.append(
            FieldError(
                "/at_most/per", f"must be from {format_duration(least)} to {format_duration(most)}", "out-of-range"
            )
        )
    return per or 0


def _url(url: str, errors: list[FieldError], at: str = "/url") -> None:
    wrong = url_error(url)
    if wrong is None and "\\" in url:
        wrong = "has a backslash; an address has none, write %5C"
    if wrong is not None:
        errors.append(FieldError(at, wrong))


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
    if len(given) > WEBHOOK_HEADERS_MAX:
        errors.append(FieldError("/headers", f"has {len(given)} headers; at most {WEBHOOK_HEADERS_MAX} are allowed"))
        return
    for name, value in given.items():
        at = f"/headers{pointer(name[:128])}"
        wrong = header_error(name, value)
        if wrong is None and (name.lower() in _OWN_HEADERS or name.lower().startswith("webhook-")):
            wrong = "is set with each event; leave it out"
        if wrong is None and len(value) > WEBHOOK_HEADER_MAX:
            wrong = f"is too long; at most {WEBHOOK_HEADER_MAX} characters are allowed"
        if wrong is not None:
            errors.append(FieldError(at, wrong))
    if len({name.lower() for name in given}) < len(given):
        errors.append(FieldError("/headers", "has a header twice; their case does not matter", "repeated"))


def as_given(spec: WebhookSpec) -> dict[str, Any]:
    """Returns the JSON of a PUT that would change nothing."""
    return {
        "kind": spec.receiver.name.lower(),
        "url": spec.url + HIDDEN_PATH if spec.receiver is Receiver.SLACK else spec.url or None,
        "events": [event.name.lower() for event in spec.on if event not in OF_CLUSTER],
        "cluster_events": [event.name.lower() for event in spec.on if event in OF_CLUSTER],
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
        "page": spec.page or None,
        "smtp": None if spec.smtp is None else _smtp_shown(spec.smtp),
        "at_most": {"count": spec.most, "per": format_duration(spec.most_per_ms)} if spec.most else None,
    }


def _smtp_shown(smtp: Smtp) -> dict[str, Any]:
    hidden = HIDDEN if smtp.login else None
    return {
        "host": smtp.host,
        "port": smtp.port,
        "tls": smtp.tls.name.lower(),
        "user": hidden,
        "password": hidden,
        "from": smtp.sender,
        "to": list(smtp.to),
    }
