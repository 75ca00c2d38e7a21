"""Webhooks: addresses that are told what became of instances. Their rows, and the commands about them.

A webhook has a job of its own in the namespace of the cluster, and a queue of its own; each event that is sent to it is
an instance of that job. Its secrets lie in a table apart, which only the worker that signs reads.
"""

from __future__ import annotations

import re
from enum import IntEnum

import msgspec

from raftsched.bounds import (
    HOUR_MS,
    LABEL_KEY_MAX,
    LABEL_VALUE_MAX,
    LABELS_MAX,
    MINUTE_MS,
    RECIPIENTS_MAX,
    STORED_DURATION_MAX_MS,
    URL_MAX,
    WEBHOOK_HEADER_MAX,
    WEBHOOK_HEADERS_MAX,
    WEBHOOK_MESSAGES_MAX,
    WEBHOOK_RETRIES_MAX,
    WEBHOOK_RUNNING_MAX,
)
from raftsched.core.model import Job
from raftsched.core.subjects.command import Command
from raftsched.core.subjects.notices import MEASURED, SYSTEM_QUEUE, Event

WEBHOOKS_MAX = 100
NAME_MAX = 64  # characters
TIMEOUT_MS = (1_000, 5 * MINUTE_MS)  # least, most
SECRET_BYTES = (24, 64)  # least, most; as Standard Webhooks have it
SEALING_MAX = 64  # bytes that sealing adds to one, and of what goes with it
OVERLAP_MAX_MS = 7 * 24 * HOUR_MS  # of a rotation
DELAYS_MS = (5_000, 5 * MINUTE_MS, 30 * MINUTE_MS, 2 * HOUR_MS, 5 * HOUR_MS, 10 * HOUR_MS, 10 * HOUR_MS)
MAILBOX_MAX = 254  # characters of a mail address (RFC 5321)
LOGIN_MAX = 2_048  # bytes of user and password
MOST_PER_MS = (1_000, 24 * HOUR_MS)  # least, most
FILTER_MAX = 512  # characters of one text of a filter

_name = re.compile(r"(?!\.{1,2}\Z)[a-z0-9._-]{1,64}\Z", re.ASCII).match
_address = re.compile(r"https?://[^\x00-\x20\x7f/?#@\\]+([/?#][^\x00-\x20\x7f]*)?\Z").match
_mailbox = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9.-]{1,190}\Z", re.ASCII).match
_host = re.compile(r"[A-Za-z0-9.-]{1,253}\Z|\[[0-9A-Fa-f:.]{2,45}\]\Z", re.ASCII).match
_header = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}\Z").match


class Receiver(IntEnum):
    """The kind of receiver that a webhook has."""

    WEBHOOK = 1  # an address: CloudEvents in JSON, signed
    SLACK = 2  # an incoming webhook of Slack, or of what takes the same: sentences. Its address is its secret
    EMAIL = 3  # people, by mail. The secret is what is needed to log in at the server


class Tls(IntEnum):
    """Says how the connection to a mail server is made secret."""

    STARTTLS = 1  # it begins in the clear, and nothing is said before it is secret
    TLS = 2
    NONE = 3


class Smtp(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """A mail server, and who is written to."""

    host: str
    port: int
    tls: Tls
    sender: str
    to: tuple[str, ...]
    login: bool = False  # with the user and the password that the secret holds


class Login(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """User and password at a mail server: the secret of EMAIL, as JSON."""

    user: str
    password: str

    def __repr__(self) -> str:
        return "Login(...)"


encode_login = msgspec.json.Encoder().encode
_login: msgspec.json.Decoder[Login] = msgspec.json.Decoder(Login)


def decode_login(raw: bytes) -> Login:
    return _login.decode(raw)


class WebhookSpec(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """The settings of a webhook. `on`: the events that are sent to it, of the cluster, and of the jobs that the filter
    lets through; beside them it gets what jobs ask for that name it."""

    url: str  # of SLACK the part that is shown: scheme and host; of EMAIL empty
    on: tuple[Event, ...] = ()
    namespace: str | None = None
    owner: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    queue: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    active: bool = True  # False: nothing new is sent to it, and what waits goes on waiting
    timeout_ms: int = 15_000
    delays_ms: tuple[int, ...] = DELAYS_MS
    max_running: int = 4  # deliveries at one time
    receiver: Receiver = Receiver.WEBHOOK
    page: str = ""  # where people see the page of the cluster: texts link to it
    smtp: Smtp | None = None  # of EMAIL
    most: int = 0  # messages in `most_per_ms`, so that a job that fails each second is no flood; 0: all
    most_per_ms: int = 0


class Webhook(msgspec.Struct, array_like=True, kw_only=True):
    """One row of WEBHOOKS."""

    name: str
    job_id: int
    revision: int
    spec: WebhookSpec
    created_at_ms: int
    modified_at_ms: int
    gone: bool = False  # it is not active because its receiver answered 410
    dropped: int = 0  # events that were not sent, because too many waited already
    dropped_at_ms: int | None = None  # the last of them
    counted_from_ms: int = 0  # WebhookSpec.most: since then
    counted: int = 0  # so many were sent,
    left_out: int = 0  # and so many events were not, of which the next message says so
    failing_since_ms: int | None = None  # an attempt failed then, and none has succeeded since


class Noted(msgspec.Struct, array_like=True, kw_only=True):
    """One row of NOTED."""

    told_at_ms: int = 0  # when webhooks were told last; 0: never
    left_out: int = 0  # what came about since and was not told
    watch_at_ms: int | None = None  # the key of its WATCHES row: when that is told
    before: str = ""  # what goes with the newest that was left out: who led before
    goes_on: bool = False  # NODE_LOST, DISK_SHORT: it is still so


class NoteDisk(Command, frozen=True, tag=151):
    """The leader hears from a node that its disk is nearly full, or is so no longer."""

    node: str
    short: bool


class Secrets(msgspec.Struct, array_like=True, frozen=True, repr_omit_defaults=True):
    """One row of WEBHOOK_SECRETS. While both hold, both sign."""

    current: bytes
    previous: bytes = b""
    previous_until_ms: int = 0
    asked: bytes = b""  # hash of the Idempotency-Key under which it was made: who asks again is shown it again
    nonce: bytes = b""  # of `current`, which is sealed when there is one
    digest: bytes = b""  # by which `current` is known again under the same key, when it is sealed
    previous_nonce: bytes = b""

    def __repr__(self) -> str:
        return "Secrets(...)"


class PutWebhook(Command, frozen=True, tag=90):
    """Creates the webhook or sets all that was said about it anew."""

    name: str
    spec: WebhookSpec
    secret: bytes = b""  # of one that is created; of one that is there it has to be its own
    made: bool = False  # the secret was made for the case that there is none: passed over when the webhook is there
    create: bool = False  # refused when it is there, unless as said here
    if_none: bool = False  # refused when it is there, whatever it is
    if_revision: int | None = None  # refused unless it is there, at this revision
    asked: bytes = b""  # of a secret that was made under an Idempotency-Key: its hash
    nonce: bytes = b""  # as in Secrets
    digest: bytes = b""

    def __repr__(self) -> str:
        return f"PutWebhook({self.name!r})"


class DeleteWebhook(Command, frozen=True, tag=91):
    """Refused while jobs name it. What waits to be sent is not sent any more."""

    name: str
    if_revision: int | None = None


class RotateSecret(Command, frozen=True, tag=92):
    """The secret is this one from now on; the one before signs, too, for as long as is said here."""

    name: str
    secret: bytes
    overlap_ms: int
    if_revision: int | None = None
    asked: bytes = b""  # as in PutWebhook
    nonce: bytes = b""  # as in Secrets
    digest: bytes = b""

    def __repr__(self) -> str:
        return f"RotateSecret({self.name!r})"


class TestWebhook(Command, frozen=True, tag=93):
    """Sends an event that is about nothing."""

    __test__ = False  # of no use to pytest

    name: str


class ResealWebhook(Command, frozen=True, tag=94):
    """The same secrets, sealed with another key. Refused when they are others meanwhile."""

    name: str
    was: bytes  # SHA-256 of the row that was sealed anew
    current: bytes
    nonce: bytes
    digest: bytes
    previous: bytes = b""
    previous_nonce: bytes = b""

    def __repr__(self) -> str:
        return f"ResealWebhook({self.name!r})"


def queue_of(name: str) -> str:
    """The queue that deliveries to this webhook wait in."""
    return SYSTEM_QUEUE + name


def is_webhook_name(text: str) -> bool:
    return _name(text) is not None


def is_mailbox(text: str) -> bool:
    """Returns whether it is an address of one mailbox, and nothing else: no name beside it, no line break."""
    return len(text) <= MAILBOX_MAX and _mailbox(text) is not None


def is_host(text: str) -> bool:
    """Returns whether it is the name of a host, an IPv4 address, or an IPv6 one in brackets."""
    return _host(text) is not None


def smtp_error(smtp: Smtp) -> str | None:
    """Returns what is wrong with a mail server and the addresses, and what would be right; None: nothing is wrong."""
    if not is_host(smtp.host) or not 1 <= smtp.port <= 65_535:
        return "a mail server has the name of a host, and a port from 1 to 65535."
    if smtp.login and smtp.tls is Tls.NONE:
        return "a password is sent over TLS only."
    if not 1 <= len(smtp.to) <= RECIPIENTS_MAX or len(set(smtp.to)) < len(smtp.to):
        return f"a mail goes to 1 to {RECIPIENTS_MAX} addresses, each once."
    if not all(is_mailbox(text) for text in (smtp.sender, *smtp.to)):
        return f"a mail address is user@host, in ASCII, of at most {MAILBOX_MAX} characters."
    return None


def origin_of(url: str) -> str:
    """Returns scheme, host and port of an address."""
    scheme, _, rest = url.partition("://")
    for end in "/?#":
        rest = rest.partition(end)[0]
    return f"{scheme}://{rest}"


def covers(spec: WebhookSpec, job: Job, content: tuple[str | None, dict[str, str]]) -> bool:
    """Returns whether its filter lets the job through. A field that is not set lets all through. `content`: its owner
    and labels."""
    if spec.namespace is not None and job.namespace != spec.namespace:
        return False
    if spec.queue is not None and job.policy.queue != spec.queue:
        return False
    owner, labels = content
    if spec.owner is not None and owner != spec.owner:
        return False
    return all(labels.get(key) == value for key, value in spec.labels)


def webhook_error(name: str, spec: WebhookSpec) -> str | None:
    """Returns what is wrong and what would be right; None: nothing is wrong. The API says it earlier, and in more
    detail."""
    if not is_webhook_name(name):
        return f"a webhook has a name of 1 to {NAME_MAX} characters of a-z, 0-9, '.', '_' and '-'."
    if (spec.receiver is Receiver.EMAIL) != (spec.smtp is not None):
        return "a mail server goes with the kind email, and with no other."
    if spec.smtp is not None:
        wrong = smtp_error(spec.smtp)
        if wrong is not None or spec.url:
            return wrong or "mails go to people, and to no url."
    elif not 1 <= len(spec.url) <= URL_MAX or _address(spec.url) is None:
        return f"the url is an http:// or https:// address of at most {URL_MAX} characters."
    if spec.most and not (
        1 <= spec.most <= WEBHOOK_MESSAGES_MAX and MOST_PER_MS[0] <= spec.most_per_ms <= MOST_PER_MS[1]
    ):
        return f"at most 1 to {WEBHOOK_MESSAGES_MAX} messages are sent in {MOST_PER_MS[0]} to {MOST_PER_MS[1]} ms."
    if spec.receiver is Receiver.SLACK and spec.url != origin_of(spec.url):
        return "of a Slack address only scheme and host are shown; the rest is its secret."
    if spec.page and (len(spec.page) > URL_MAX or _address(spec.page) is None):
        return f"the page is an http:// or https:// address of at most {URL_MAX} characters."
    if not MEASURED.isdisjoint(spec.on):
        return "late, running_long and not_run_since are asked for by jobs, which say by how much."
    texts = [t for t in (spec.namespace, spec.owner, spec.queue) if t is not None]
    if any(len(text) > FILTER_MAX for text in texts) or len(spec.labels) > LABELS_MAX:
        return f"a filter has texts of at most {FILTER_MAX} characters and {LABELS_MAX} labels."
    if any(not 1 <= len(k) <= LABEL_KEY_MAX or len(v) > LABEL_VALUE_MAX for k, v in spec.labels):
        return f"a label has a key of 1 to {LABEL_KEY_MAX} characters and a value of at most {LABEL_VALUE_MAX}."
    if len(spec.headers) > WEBHOOK_HEADERS_MAX:
        return f"there are {len(spec.headers)} headers; at most {WEBHOOK_HEADERS_MAX} are allowed."
    if any(_header(k) is None or len(v) > WEBHOOK_HEADER_MAX or _broken(v) for k, v in spec.headers):
        return f"a header is one line of at most {WEBHOOK_HEADER_MAX} characters under a name of letters and digits."
    least, most = TIMEOUT_MS
    if not least <= spec.timeout_ms <= most:
        return f"the timeout is {spec.timeout_ms} ms; use {least} to {most}."
    if len(spec.delays_ms) > WEBHOOK_RETRIES_MAX or not all(
        0 <= delay <= STORED_DURATION_MAX_MS for delay in spec.delays_ms
    ):
        return f"there are at most {WEBHOOK_RETRIES_MAX} retries, each after at most {STORED_DURATION_MAX_MS} ms."
    if not 1 <= spec.max_running <= WEBHOOK_RUNNING_MAX:
        return f"max_running is {spec.max_running}; use 1 to {WEBHOOK_RUNNING_MAX}."
    return None


def _broken(value: str) -> bool:
    return any((c < " " and c != "\t") or c == "\x7f" for c in value)


def webhook_secret_error(
    secret: bytes, nonce: bytes = b"", digest: bytes = b"", receiver: Receiver = Receiver.WEBHOOK
) -> str | None:
    """Returns what is wrong with a secret; None: nothing. Of a sealed one only sizes can be checked."""
    least, most = {Receiver.SLACK: (1, URL_MAX), Receiver.EMAIL: (0, LOGIN_MAX)}.get(receiver, SECRET_BYTES)
    if nonce:
        most += SEALING_MAX
    if len(nonce) > SEALING_MAX or len(digest) > SEALING_MAX:
        return "a nonce or a digest is longer than any."
    if not least <= len(secret) <= most:
        return f"a secret has {least} to {most} bytes; this one has {len(secret)}."
    return None
