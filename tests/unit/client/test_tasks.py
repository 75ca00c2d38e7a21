"""Functions that are enqueued: the job that is sent, and to whom."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import raftsched
from raftsched import handlers
from raftsched.client import enqueueing
from raftsched.client.enqueueing import job_name
from tests.support.stub_server import Stub, problem, serve

ROOT = Path(raftsched.__file__).parent.parent
MADE = {"id": "0d3k5xw2a9f4m", "state": "SCHEDULED", "revision": 1}


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    before = dict(handlers.registered)
    yield
    handlers.registered.clear()
    handlers.registered.update(before)
    for client in enqueueing._kept.values():
        client.close()
    enqueueing._kept.clear()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    """A cluster as the environment describes it."""
    with serve(lambda _: (201, MADE)) as stub:
        monkeypatch.setenv("RAFTSCHED_SERVER", stub.url)
        yield stub


@dataclass
class Invoice:
    number: int
    due: datetime


def send(number: int, *, copy: bool = False, queue: str = "letters") -> int:
    return number


async def send_all(*numbers: int) -> None: ...


def bill(invoice: Invoice, **more: Any) -> None: ...


def sent(stub: Stub) -> list[Any]:
    return [one.json for one in stub.requests if one.method == "POST"]


def test_a_call_becomes_a_job_that_is_due_once(cluster: Stub) -> None:
    task = raftsched.handler("send")(send)
    assert task is send
    assert task(7) == 7
    assert task.delay(7).id == MADE["id"]
    task.enqueue(7, copy=True, delay="10m", priority=9, retry={"delays": ["1m"]}, namespace="billing")
    task.enqueue(number=8, at=datetime(2027, 1, 1, tzinfo=UTC))
    task.options(delay=timedelta(minutes=1)).enqueue(9)
    handler = {"call": "send"}
    assert sent(cluster) == [
        {"handler": handler, "trigger": {"in": "0s"}, "params": {"number": 7}},
        {
            "handler": handler,
            "trigger": {"in": "10m"},
            "params": {"number": 7, "copy": True},
            "priority": 9,
            "retry": {"delays": ["1m"]},
            "namespace": "billing",
        },
        {"handler": handler, "trigger": {"at": "2027-01-01T00:00:00Z"}, "params": {"number": 8}},
        {"handler": handler, "trigger": {"in": "PT60S"}, "params": {"number": 9}},
    ]


def test_an_option_that_is_none_is_not_said(cluster: Stub) -> None:
    task: Any = raftsched.handler("send")(send)
    task.enqueue(7, delay=None, at="2027-01-01T08:00:00Z", key=None)
    task.enqueue(7, delay="1m", at=None)
    assert [job["trigger"] for job in sent(cluster)] == [{"at": "2027-01-01T08:00:00Z"}, {"in": "1m"}]


def test_a_name_that_is_both_is_the_functions(cluster: Stub) -> None:
    task = raftsched.handler("send")(send)
    task.enqueue(7, queue="parcels")
    task.options(queue="mail").enqueue(7, queue="parcels")
    assert [(job.get("queue"), job["params"]["queue"]) for job in sent(cluster)] == [
        (None, "parcels"),
        ("mail", "parcels"),
    ]


def test_what_is_enqueued_under_a_key_has_a_name_of_its_own(cluster: Stub) -> None:
    task = raftsched.handler("send")(send)
    task.enqueue(7, key="invoice-7")
    task.enqueue(7, key="Invoice 7")
    task.enqueue(7, key="Invoice 7")
    first, *others = [job["name"] for job in sent(cluster)]
    assert first == "send.invoice-7"
    assert others[0] == others[1] != first
    assert job_name("x" * 128, "7") != job_name("x" * 127, "7")
    with pytest.raises(ValueError, match="a key is a text"):
        task.enqueue(7, key=7)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "args, kwargs, said",
    [
        ((), {}, "send: missing a required argument: 'number'"),
        ((7, 8), {}, "too many positional arguments"),
        ((7,), {"nmber": 8}, "unexpected keyword argument 'nmber'"),
        ((7,), {"params": {}}, "they are the arguments"),
    ],
)
def test_arguments_that_the_function_does_not_take(cluster: Stub, args: Any, kwargs: Any, said: str) -> None:
    task: Any = raftsched.handler("send")(send)
    with pytest.raises(TypeError, match=said):
        task.enqueue(*args, **kwargs)
    with pytest.raises(TypeError, match=said):
        asyncio.run(task.aenqueue(*args, **kwargs))
    assert not sent(cluster)


def test_options_that_cannot_be(cluster: Stub) -> None:
    task: Any = raftsched.handler("send")(send)
    with pytest.raises(ValueError, match="delay or at, not both"):
        task.enqueue(7, delay="1m", at="2027-01-01T08:00:00Z")
    with pytest.raises(ValueError, match="delay is 10; write a text such as"):
        task.enqueue(7, delay=10)
    with pytest.raises(TypeError, match="dely is no option"):
        task.options(dely="1m")
    with pytest.raises(TypeError, match="numbers has to be a parameter that can be given by its name"):
        raftsched.handler("all")(send_all).delay(1, 2)
    assert not sent(cluster)


def test_dataclasses_are_arguments(cluster: Stub) -> None:
    raftsched.handler("bill")(bill).enqueue(Invoice(7, datetime(2027, 1, 1, tzinfo=UTC)), note="x")
    (job,) = sent(cluster)
    assert job["params"] == {"invoice": {"number": 7, "due": "2027-01-01T00:00:00Z"}, "note": "x"}


def test_the_client_that_is_given_is_asked(cluster: Stub) -> None:
    task = raftsched.handler("send")(send)
    with serve(lambda _: (201, MADE)) as other:
        with raftsched.Client(other.url) as client:
            task.enqueue(1, client=client)
            asyncio.run(task.aenqueue(2, client=client))

        async def main() -> None:
            async with raftsched.AsyncClient(other.url) as client:
                await task.aenqueue(3, client=client)
                with pytest.raises(TypeError, match="use aenqueue"):
                    task.enqueue(3, client=client)

        asyncio.run(main())
        assert [job["params"]["number"] for job in sent(other)] == [1, 2, 3]
    assert not cluster.requests


def test_one_client_is_kept_for_an_environment(cluster: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    task = raftsched.handler("send")(send)
    task.delay(1)
    asyncio.run(task.aenqueue(2))
    (kept,) = enqueueing._kept.values()
    assert enqueueing.default_client() is kept
    monkeypatch.setenv("RAFTSCHED_TOKEN", "rs_other")
    assert enqueueing.default_client() is not kept
    task.delay(3)
    assert [one.headers.get("authorization") for one in cluster.requests if one.method == "POST"] == [
        *(None, None),
        "Bearer rs_other",
    ]


def test_a_run_keeps_no_client_for_the_next_one(cluster: Stub) -> None:
    """Several runs in a process have variables of their own, and perhaps other rights."""
    task = raftsched.handler("send")(send)
    for secret in ("rs_one", "rs_two"):
        given = {"RAFTSCHED_INSTANCE_ID": "i", "RAFTSCHED_SERVER": cluster.url, "RAFTSCHED_TOKEN": secret}
        token = handlers.variables.set(given)
        try:
            task.delay(1)
            asyncio.run(task.aenqueue(1))
        finally:
            handlers.variables.reset(token)
    assert [one.headers["authorization"] for one in cluster.requests if one.method == "POST"] == [
        *("Bearer rs_one", "Bearer rs_one"),
        *("Bearer rs_two", "Bearer rs_two"),
    ]
    assert not enqueueing._kept


def test_errors_come_without_the_way_that_they_came() -> None:
    task = raftsched.handler("send")(send)
    with (
        serve(lambda _: problem(422, "invalid-job", "no")) as stub,
        raftsched.Client(stub.url) as client,
        pytest.raises(raftsched.InvalidError) as caught,
    ):
        task.enqueue(7, client=client)
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)
    assert len(caught.traceback) == 4  # this line, the method, what it calls, and where it is raised


def test_declaring_imports_no_client(tmp_path: Path) -> None:
    """The processes that run functions import the modules that declare them."""
    (tmp_path / "theirs.py").write_text(
        "import raftsched\n"
        '@raftsched.handler("a")\n'
        "def a() -> None: ...\n"
        'print(*(m for m in ("aiohttp", "asyncio", "inspect", "orjson", "raftsched.core") if m in sys.modules))\n'
    )
    program = "import sys, builtins; builtins.sys = sys; import theirs"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


TYPED = """
import asyncio
import raftsched


@raftsched.handler("send")
def send(number: int, copy: bool = False) -> str:
    return str(number)


@raftsched.job("nightly", cron="0 2 * * *", timezone="Europe/Madrid", overlap="allow", owner="ana")
async def nightly(month: str = "last") -> None: ...


reveal_type(send(7))
reveal_type(send.delay(7))
reveal_type(nightly.options(delay="1m", queue="x").enqueue("may"))
reveal_type(asyncio.run(send.aenqueue(7, delay="10m", key="x")))
reveal_type(asyncio.run(nightly()))
send.delay("7")
send.enqueue(7, dely="10m")
send.options(delay="1m").enqueue("7")
raftsched.job("a", crn="0 2 * * *")
raftsched.job("a", cron="0 2 * * *", overlap="never")
raftsched.after("a", on="later")
raftsched.cron("0 2 * * *", timezne="UTC")


def ended(run: raftsched.Instance, job: raftsched.Job) -> bool:
    return run.state == "SUCEEDED" or job.state == "EXPIRED"
"""


def test_type_checkers_see_arguments_options_and_states(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(TYPED)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull, "--cache-dir", str(tmp_path)]
    done = subprocess.run(
        [*command, "--follow-imports", "silent", str(program)],
        env={**os.environ, "MYPYPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    shown = [line.partition('"')[2].removesuffix('"').rpartition(".")[2] for line in lines if "Revealed" in line]
    assert shown == ["str", "Created", "Created", "Created", "None"], done.stdout
    wrong = {int(line.split(":")[1]) for line in lines if ": error: " in line}
    first = TYPED.split("\n").index('send.delay("7")') + 1
    assert wrong == {*range(first, first + 7), TYPED.split("\n").index(TYPED.rstrip().split("\n")[-1]) + 1}, done.stdout
