"""Notifications as mails."""

from __future__ import annotations

from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any, cast

import pytest

from raftsched.core.ids import instance_key
from raftsched.core.model import InstanceState
from raftsched.core.subjects.notices import Event, Notice
from raftsched.core.subjects.webhook import Smtp, Tls, is_mailbox, smtp_error
from raftsched.notices.mails import SUBJECT_MAX, mail

AT = 1_763_600_400_000
TO = Smtp(host="mail.test", port=587, tls=Tls.STARTTLS, sender="r@a.test", to=("a@b.test", "c@b.test"))


def sent(**fields: Any) -> EmailMessage:
    usual: dict[str, Any] = {"id": 1 << 40, "at_ms": AT, "instance": instance_key(AT, 7 << 20), "namespace": "billing"}
    usual |= {"job_name": "report", "state": InstanceState.FAILED, "attempt": 3, "node": "n2", "event": Event.FAILED}
    raw = mail(Notice(**{**usual, **fields}), "ops", TO, "https://p/", b"\xab\xcd")
    assert max(map(len, raw.split(b"\r\n"))) <= 998  # RFC 5322
    return cast(EmailMessage, message_from_bytes(raw, policy=SMTP))


def test_it_says_what_happened() -> None:
    found = sent(error="no paper\nat all", exit_code=3)
    assert (found["From"], found["To"]) == ("r@a.test", "a@b.test, c@b.test")
    assert (found["Subject"], found["Auto-Submitted"]) == ("[raftsched] billing/report failed", "auto-generated")
    assert found["Date"] == "Thu, 20 Nov 2025 01:00:00 -0000"
    text = found.get_content()
    assert text.startswith("The run of billing/report for 2025-11-20 01:00:00 UTC failed with exit code 3.")
    assert "\n    no paper\n    at all\n\nhttps://p/ui/runs/" in text.replace("\r\n", "\n")


def test_the_same_event_is_the_same_mail_and_another_is_another() -> None:
    assert sent()["Message-ID"] == sent()["Message-ID"] == "<evt_0000100000000.ops@abcd.raftsched>"
    assert sent(id=2 << 40)["Message-ID"] != sent()["Message-ID"]
    assert sent().as_bytes() == sent().as_bytes()


@pytest.mark.parametrize(
    "name", ["a\r\nBcc: evil@b.test", "a\nb", "\u00e4" * 500, "=?utf-8?q?=0ABcc?=", "a\x00\x07b", ""]
)
def test_what_others_wrote_makes_no_header(name: str) -> None:
    found = sent(job_name=name, error=f"{name}\r\n.\r\nMAIL FROM:<x>")
    assert set(found.keys()) == {
        "From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted",
        "Content-Type", "Content-Transfer-Encoding", "MIME-Version",
    }  # fmt: skip
    assert found["To"] == "a@b.test, c@b.test"
    assert len(found["Subject"]) <= SUBJECT_MAX
    assert "\n" not in found["Subject"]


@pytest.mark.parametrize(
    "text, is_one",
    [
        ("ops@example.com", True),
        ("a.b+c@x", True),
        ("ops", False),
        ("ops@", False),
        ("@x", False),
        ("a b@x", False),
        ("a@x, b@x", False),
        ("Ana <a@x>", False),
        ("a@x\r\nBcc: b@x", False),
        ("a@x\n", False),
        ("\u00e4@x", False),
        ("a@" + "x" * 300, False),
    ],
)
def test_what_a_mail_address_is(text: str, is_one: bool) -> None:
    assert is_mailbox(text) is is_one


@pytest.mark.parametrize(
    "change, words",
    [
        ({"host": "mail.test\r\n"}, "name of a host"),
        ({"host": ""}, "name of a host"),
        ({"port": 0}, "port"),
        ({"tls": Tls.NONE, "login": True}, "over TLS only"),
        ({"to": ()}, "1 to 20"),
        ({"to": tuple(f"a{n}@x" for n in range(21))}, "1 to 20"),
        ({"to": ("a@x", "a@x")}, "each once"),
        ({"to": ("a@x\r\nDATA",)}, "user@host"),
        ({"sender": "<a@x>"}, "user@host"),
    ],
)
def test_what_is_wrong_with_a_mail_server_is_said(change: dict[str, Any], words: str) -> None:
    given = {"host": "mail.test", "port": 25, "tls": Tls.TLS, "sender": "a@x", "to": ("b@x",), **change}
    assert words in str(smtp_error(Smtp(**given)))
    assert smtp_error(TO) is None
