"""Jobs that functions are declared as."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import raftsched
from raftsched import handlers
from raftsched.client import declared
from raftsched.client.enqueue_options import DeclaredFields


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    before, jobs = dict(handlers.registered), dict(declared.registered)
    declared.registered.clear()
    yield
    handlers.registered.clear()
    handlers.registered.update(before)
    declared.registered.clear()
    declared.registered.update(jobs)


@pytest.fixture
def report() -> Callable[..., str]:
    """A function that other tests have made no handler of."""
    vars(_report).clear()
    return _report


def _report(month: str = "last") -> str:
    return month


def other() -> None: ...


def needs(number: int) -> None: ...


def follows(upstream: Any) -> None: ...


def specs() -> dict[str, Any]:
    return {one.name: one.spec("shop.tasks") for one in declared.registered.values()}


def test_a_function_is_the_handler_of_its_job(report: Callable[..., str]) -> None:
    task = raftsched.job("nightly", cron="0 2 * * *", timezone="Europe/Madrid", owner="ana", labels={"team": "fin"})(
        report
    )
    assert task is report
    assert task("may") == "may"
    assert handlers.registered["nightly"] is report
    assert specs() == {
        "nightly": {
            "name": "nightly",
            "trigger": {"cron": "0 2 * * *", "timezone": "Europe/Madrid"},
            "handler": {"call": "nightly"},
            "owner": "ana",
            "labels": {"team": "fin", "declared-in": "shop.tasks"},
        }
    }


def test_a_function_may_have_several_jobs_and_stays_one_handler(report: Callable[..., str]) -> None:
    task = raftsched.handler("report")(report)
    raftsched.job("nightly", every="1d", handler={"env": {"A": "1"}})(task)
    raftsched.job("weekly", rrule="FREQ=WEEKLY", namespace="billing", params={"month": "may"})(task)
    found = specs()
    assert found["nightly"]["handler"] == {"call": "report", "env": {"A": "1"}}
    assert (found["weekly"]["handler"], found["weekly"]["namespace"]) == ({"call": "report"}, "billing")
    assert [name for name, function in handlers.registered.items() if function is report] == ["report"]


@pytest.mark.parametrize(
    "fields, trigger",
    [
        ({"every": "10m", "jitter": "5s"}, {"every": "10m", "jitter": "5s"}),
        ({"after": "import"}, {"after": {"job": "import", "on": "succeeded"}}),
        ({"after": ["a", "b"]}, {"after": {"all_of": ["a", "b"], "on": "succeeded"}}),
        ({"after": {"any_of": ["a"], "on": "failed"}}, {"after": {"any_of": ["a"], "on": "failed"}}),
        ({"manual": True}, {"manual": True}),
        ({"at": datetime(2027, 1, 1, tzinfo=UTC)}, {"at": datetime(2027, 1, 1, tzinfo=UTC)}),
        ({"trigger": raftsched.cron("@daily")}, {"cron": "@daily"}),
    ],
)
def test_when(fields: DeclaredFields, trigger: dict[str, Any]) -> None:
    assert declared.declaration("a", fields).fields == {"trigger": trigger}


@pytest.mark.parametrize(
    "fields, said",
    [
        ({}, "say when, in one way: cron=, .*manual=True"),
        ({"cron": "0 2 * * *", "every": "1d"}, "and not cron and every"),
        ({"cron": "0 2 *"}, "job 'a': cron '0 2 \\*' has 3 fields"),
        ({"trigger": {"every": "1d"}, "timezone": "UTC"}, "timezone belongs into the trigger"),
        ({"after": "b", "jitter": "1s"}, "jitter says nothing beside after"),
        ({"manual": True, "handler": {"shell": "true"}}, "handler says shell"),
    ],
)
def test_what_is_wrong_is_said_where_it_is_declared(fields: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        raftsched.job("a", **fields)
    with pytest.raises(TypeError, match="crn is no field of a job"):
        raftsched.job("a", crn="0 2 * * *")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="a name has 1 to 128 characters"):
        raftsched.job("A b", every="1d")
    assert not declared.registered


def test_a_name_is_one_functions(report: Callable[..., str]) -> None:
    raftsched.job("nightly", every="1d")(report)
    with pytest.raises(ValueError, match="_report has it twice; give one of them another name"):
        raftsched.job("nightly", every="2d")(report)
    raftsched.job("nightly", every="2d", namespace="billing")(report)
    declared.registered.pop(("billing", "nightly"))
    again = FunctionType(
        _report.__code__, globals(), argdefs=_report.__defaults__
    )  # as when its module is loaded again
    raftsched.job("nightly", every="2d")(again)
    with pytest.raises(ValueError, match="has this name already"):
        raftsched.job("nightly", every="1d")(raftsched.handler("other")(other))
    assert specs()["nightly"]["trigger"] == {"every": "2d"}


@pytest.mark.parametrize(
    "function, fields, wrong",
    [
        (needs, {"every": "1d"}, "job 'a': needs: missing a required argument: 'number'"),
        (needs, {"every": "1d", "params": {"nmber": 1}}, "missing a required argument"),
        (needs, {"manual": True}, None),  # whoever runs it gives them
        (needs, {"every": "1d", "params": {"number": 1}}, None),
        (follows, {"after": {"job": "b", "pass": "result"}}, None),
        (follows, {"after": {"job": "b"}}, "missing a required argument: 'upstream'"),
    ],
)
def test_params_are_those_of_the_function(function: Callable[..., Any], fields: Any, wrong: str | None) -> None:
    raftsched.job("a", **fields)(function)
    (one,) = declared.registered.values()
    if wrong is None:
        one.spec("m")
    else:
        with pytest.raises(TypeError, match=wrong):
            one.spec("m")


ALONE = """
import sys
import raftsched
from raftsched.client.declared import specs_of

@raftsched.job("nightly", every="1d")
def nightly() -> None: ...

if __name__ == "__main__":
    print([job["handler"] for job in specs_of(["alone"])], raftsched.handlers.registered["nightly"].__module__)
"""


@pytest.mark.parametrize(
    "words",
    [
        ["alone.py"],
        ["-m", "alone"],
        ["-c", "import alone, runpy; runpy.run_module('alone', run_name='__main__', alter_sys=True)"],
    ],
)
def test_a_program_of_one_file_may_name_itself(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "alone.py").write_text(ALONE)
    environment = {**os.environ, "PYTHONPATH": f"{Path(raftsched.__file__).parents[1]}"}
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[{'call': 'nightly'}] alone\n", "")
