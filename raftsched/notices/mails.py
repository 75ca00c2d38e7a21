"""Writes a notification as a mail (RFC 5322): the same bytes at each attempt, with the event's id as its Message-ID, so
that a mail server or reader recognises one that was sent twice."""

from __future__ import annotations

from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate

from raftsched.core.subjects.notices import Notice
from raftsched.core.subjects.webhook import Smtp
from raftsched.notices.cloudevents import event_id
from raftsched.notices.texts import error_of, headline, link_of, sentences

SUBJECT_MAX = 200  # characters


def mail(notice: Notice, webhook: str, smtp: Smtp, page: str, cluster_id: bytes) -> bytes:
    """Returns the mail. What others wrote gets into no header but the subject, and there into one line."""
    message = EmailMessage(policy=SMTP)
    message["From"] = smtp.sender
    message["To"] = ", ".join(smtp.to)
    message["Subject"] = f"[raftsched] {_one_line(headline(notice, webhook))}"[:SUBJECT_MAX]
    message["Date"] = formatdate(notice.at_ms // 1000)
    message["Message-ID"] = f"<{event_id(notice)}.{webhook}@{cluster_id.hex()}.raftsched>"
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: no vacation notes in return
    error, link = error_of(notice), link_of(notice, page)
    parts = [sentences(notice, webhook), "\n".join(f"    {line}" for line in error.splitlines()), link or ""]
    message.set_content("\n\n".join(part for part in parts if part) + "\n", cte="quoted-printable")
    return message.as_bytes()


def _one_line(text: str) -> str:
    """Returns the text without anything that could end the line: an encoded word (RFC 2047) may hold a line break, and
    the email package writes what such a word stands for."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(plain.replace("=?", "= ?").split())
