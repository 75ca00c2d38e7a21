"""Signatures: as the standard has them, and nothing else passes."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json

import pytest

from raftsched import webhooks
from raftsched.core.ids import instance_key
from raftsched.core.model import InstanceState
from raftsched.core.subjects.notices import Event, Notice, decode_notice, encode_notice
from raftsched.notices.cloudevents import cloud_event, event_id

# The example of Standard Webhooks, and of the libraries that come with it
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID, AT, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, '{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
HEADERS = {"webhook-id": ID, "webhook-timestamp": str(AT), "webhook-signature": SIGNATURE}
OTHER = webhooks.encode_secret(b"o" * 32)


def test_the_published_example() -> None:
    assert webhooks.sign(webhooks.decode_secret(SECRET), ID, AT, BODY.encode()) == SIGNATURE
    assert webhooks.verify(SECRET, HEADERS, BODY, now_s=AT) == {"test": 2432232314}


def test_it_is_what_the_standard_says() -> None:
    raw = base64.b64decode(SECRET.removeprefix("whsec_"))
    digest = hmac.new(raw, f"{ID}.{AT}.{BODY}".encode(), hashlib.sha256).digest()
    assert "v1," + base64.b64encode(digest).decode() == SIGNATURE


@pytest.mark.parametrize("now_s", [AT - 300, AT, AT + 300])
def test_within_the_tolerance(now_s: int) -> None:
    webhooks.verify(SECRET, {name.title(): value for name, value in HEADERS.items()}, BODY.encode(), now_s=now_s)


@pytest.mark.parametrize(
    "changed, body, now_s, why",
    [
        ({}, BODY + " ", AT, "no signature fits"),
        ({"webhook-id": "msg_2"}, BODY, AT, "no signature fits"),
        ({"webhook-timestamp": str(AT + 1)}, BODY, AT, "no signature fits"),
        ({"webhook-signature": SIGNATURE.replace("v1,", "v2,")}, BODY, AT, "no signature fits"),
        ({"webhook-signature": SIGNATURE.removeprefix("v1,")}, BODY, AT, "no signature fits"),
        ({"webhook-signature": "v1,\u00e4"}, BODY, AT, "no signature fits"),
        ({"webhook-signature": " "}, BODY, AT, "no signature fits"),
        ({"webhook-signature": ""}, BODY, AT, "no header webhook-signature"),
        ({"webhook-timestamp": "soon"}, BODY, AT, "no number"),
        ({"webhook-timestamp": "1" * 4_000}, BODY, AT, "no number"),
        ({}, BODY, AT + 301, "too long ago"),
        ({}, BODY, AT - 301, "too long ago"),
    ],
)
def test_nothing_else_passes(changed: dict[str, str], body: str, now_s: int, why: str) -> None:
    with pytest.raises(webhooks.VerificationError, match=why):
        webhooks.verify(SECRET, HEADERS | changed, body, now_s=now_s)


def test_the_time_is_that_of_this_machine_unless_it_is_given() -> None:
    with pytest.raises(webhooks.VerificationError, match="too long ago"):
        webhooks.verify(SECRET, HEADERS, BODY)
    webhooks.verify(SECRET, HEADERS, BODY, tolerance_s=10**12)


def test_one_of_several_secrets_and_of_several_signatures_is_enough() -> None:
    both = webhooks.sign(webhooks.decode_secret(OTHER), ID, AT, BODY.encode()) + " " + SIGNATURE
    for secret in (SECRET, OTHER, [OTHER, SECRET], (SECRET,)):
        webhooks.verify(secret, HEADERS | {"webhook-signature": both}, BODY, now_s=AT)
    webhooks.verify([OTHER, SECRET], HEADERS, BODY, now_s=AT)
    with pytest.raises(webhooks.VerificationError):
        webhooks.verify([OTHER], HEADERS, BODY, now_s=AT)
    with pytest.raises(webhooks.VerificationError):
        webhooks.verify([], HEADERS, BODY, now_s=AT)


def test_a_secret_that_is_none_is_not_quoted() -> None:
    with pytest.raises(ValueError, match="no secret") as caught:
        webhooks.verify("whsec_!secret!", HEADERS, BODY, now_s=AT)
    assert "!" not in str(caught.value)
    assert webhooks.decode_secret(webhooks.encode_secret(b"x" * 40)) == b"x" * 40


def test_what_is_signed_has_to_be_json() -> None:
    signed = webhooks.sign(webhooks.decode_secret(SECRET), ID, AT, b"{")
    with pytest.raises(webhooks.VerificationError, match="not JSON"):
        webhooks.verify(SECRET, HEADERS | {"webhook-signature": signed}, b"{", now_s=AT)


# ---------------------------------------------------------------- what is sent


def test_the_event() -> None:
    notice = Notice(
        id=1849266909388800000,
        at_ms=1763600403210,
        event=Event.DEAD_LETTER,
        instance=instance_key(1763600400000, 1849266900000000000),
        namespace="billing",
        job_name="report",
        owner="ana",
        labels=(("team", "fin"),),
        queue="default",
        state=InstanceState.FAILED,
        dead_letter=True,
        reason="retries_exhausted",
        error="no paper",
        attempt=3,
        node="n2",
        started_at_ms=1763600401000,
        exit_code=3,
        has_output=True,
    )
    assert decode_notice(encode_notice(notice)) == notice
    event = json.loads(cloud_event(notice, "ops", b"\1\2"))
    instance = event["subject"]
    assert event == {
        "specversion": "1.0",
        "id": event_id(notice),
        "source": "urn:raftsched:cluster:0102",
        "type": "io.raftsched.instance.dead_letter",
        "subject": instance,
        "time": "2025-11-20T01:00:03.210Z",
        "datacontenttype": "application/json",
        "data": {
            "job_id": instance.partition("@")[0],
            "job_name": "report",
            "namespace": "billing",
            "owner": "ana",
            "labels": {"team": "fin"},
            "queue": "default",
            "instance": instance,
            "state": "FAILED",
            "dead_letter": True,
            "attempt": 3,
            "exit_code": 3,
            "error": "no paper",
            "reason": "retries_exhausted",
            "skipped": 0,
            "scheduled_at": "2025-11-20T01:00:00.000Z",
            "started_at": "2025-11-20T01:00:01.000Z",
            "ended_at": "2025-11-20T01:00:03.210Z",
            "node": "n2",
            "worker": None,
            "output": f"/v1/instances/{instance}/output?attempt=3",
            "left_out": 0,
        },
    }


def test_a_test_event() -> None:
    event = json.loads(cloud_event(Notice(id=2**62, at_ms=0), "ops", b"\1"))
    assert (event["type"], event["subject"], event["data"]) == ("io.raftsched.webhook.test", "ops", {"webhook": "ops"})
