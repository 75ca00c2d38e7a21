"""Loki's push API: what is sent, and what each answer means."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from raftsched.config.shipping import build_shipping
from raftsched.output.following.follower import NotTaken, Refused
from raftsched.output.receivers.loki import Loki, seconds_of
from raftsched.output.receivers.shipper import Shipper
from raftsched.output.receivers.unshipped import Entry
from tests.support.receiver import Received, Receiver, receiving
from tests.unit.output.house import House, entry, packed, run


def pushed(url: str, entries: list[Entry], **settings: Any) -> None:
    """Raises NotTaken, Refused."""
    config = build_shipping({"output_ship": f"loki+{url}", **settings})
    assert config is not None

    async def through() -> None:
        loki = Loki(config, "n1", "raftsched/0")
        try:
            await loki.take([packed(one, loki.pack(one)) for one in entries])
        finally:
            await loki.close()

    run(through())


def test_lines_are_pushed_by_few_labels_with_their_run_beside_them() -> None:
    lines = [
        entry("one"),
        entry("wrong é \x1b[1m", "stderr"),
        entry("two", attempt=2, goes_on=True),
        entry("theirs", namespace="hr", worker="gpu-1"),
    ]
    with receiving(lambda receiver, one: (204, b"")) as loki:
        pushed(loki.url, lines)
    (got,) = loki.received
    assert got.headers["Content-Type"] == "application/json"
    assert "Authorization" not in got.headers
    assert "X-Scope-OrgID" not in got.headers
    about = {"job": "nightly", "instance": "0d3k@1", "attempt": "1", "token": "7", "line": "1"}
    at = "1893456000000001000"
    labels = {"service_name": "raftsched", "namespace": "billing", "stream": "stdout", "node": "n1"}
    assert json.loads(got.body) == {
        "streams": [
            {
                "stream": labels,
                "values": [[at, "one", about], [at, "two", {**about, "attempt": "2", "goes_on": "true"}]],
            },
            {"stream": {**labels, "stream": "stderr"}, "values": [[at, "wrong é \x1b[1m", about]]},
            {"stream": {**labels, "namespace": "hr"}, "values": [[at, "theirs", {**about, "worker": "gpu-1"}]]},
        ]
    }


@pytest.mark.parametrize("status", [429, 500, 502, 503, 401, 403, 404, 413, 302])
def test_what_may_be_taken_later_is_tried_again(status: int) -> None:
    with (
        receiving(lambda receiver, one: (status, b"not\nnow \x1b")) as loki,
        pytest.raises(NotTaken, match=f"answers {status}: not now [?]"),
    ):
        pushed(loki.url, [entry()])
    assert len(loki.received) == 1


@pytest.mark.parametrize("status", [400, 422])
def test_what_will_never_be_taken_is_refused(status: int) -> None:
    with (
        receiving(lambda receiver, one: (status, b"entry too far behind")) as loki,
        pytest.raises(Refused, match=f"{status}: entry too far behind"),
    ):
        pushed(loki.url, [entry()])


def test_nobody_there() -> None:
    with receiving(lambda receiver, one: (204, b"")) as loki:
        url = loki.url
    with pytest.raises(NotTaken, match="Cannot connect"):
        pushed(url, [entry()])


def test_who_asks_to_wait() -> None:
    assert [seconds_of(text) for text in (None, "", "7", " 120 ", "Fri, 31 Dec 1999 23:59:59 GMT", "-1", "9" * 99)] == [
        *(0.0, 0.0, 7.0, 120.0, 0.0, 0.0, 0.0)
    ]


def test_credentials_and_tenant(tmp_path: Path) -> None:
    file = tmp_path / "loki"
    with receiving(lambda receiver, one: (204, b"")) as loki:
        for line in ("123:s3cret", "glsa_token"):
            file.write_text(f"{line}\n")
            file.chmod(0o600)
            pushed(loki.url, [entry()], output_ship_credentials=str(file), output_ship_tenant="team-a")
    basic, bearer = (one.headers for one in loki.received)
    assert basic["Authorization"] == f"Basic {b64encode(b'123:s3cret').decode()}"
    assert bearer["Authorization"] == "Bearer glsa_token"
    assert basic["X-Scope-OrgID"] == bearer["X-Scope-OrgID"] == "team-a"


def test_a_file_of_credentials_that_is_gone_is_said_and_tried_again(tmp_path: Path) -> None:
    file = tmp_path / "loki"
    file.write_text("user:password")
    file.chmod(0o600)
    config = build_shipping({"output_ship": "loki+http://127.0.0.1:9", "output_ship_credentials": str(file)})
    assert config is not None
    file.unlink()

    async def through() -> None:
        loki = Loki(config, "n1", "raftsched/0")
        with pytest.raises(NotTaken, match=r"output_ship_credentials .* cannot be read"):
            await loki.take([packed(entry(), b"[]")])

    run(through())


def test_from_the_disk_to_a_loki_that_is_down_for_a_while(tmp_path: Path) -> None:
    statuses = [503, 429]

    def answer(receiver: Receiver, one: Received) -> tuple[int, bytes]:
        return (statuses.pop(0) if statuses else 204), b""

    house = House(tmp_path)
    with receiving(answer) as server:
        config = build_shipping({"output_ship": f"loki+{server.url}"})
        assert config is not None
        loki = Loki(config, "n1", "raftsched/0")
        house.shipper._receiver = loki
        house.print("one\none\n")

        async def through() -> None:
            for _ in range(3):
                await house.shipper.look()
                house.clock.forward(Shipper.retry_most_ms)
            await loki.close()

        run(through())
    assert house.shipper.failures == 2
    first, second, third = (json.loads(one.body) for one in server.received)
    assert first == second == third, "the same times, by which Loki knows what it has"
    times = [int(at) for at, _, _ in third["streams"][0]["values"]]
    assert times[0] < times[1], "equal lines are kept apart"
