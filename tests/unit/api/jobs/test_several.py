"""Several triggers as given: each is read as a single one is, and what is wrong is told by its place."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from raftsched.api.http.problems import Problem
from raftsched.api.jobs.defaults import NamespaceDefaults
from raftsched.api.jobs.parse import Content, read_job
from raftsched.cluster_settings import Settings
from raftsched.core.model import Policy, Trigger, TriggerKind
from raftsched.surface.content import MisfireIn
from raftsched.surface.jobs_generated import DefaultsIn

NOW_MS = 1_893_456_000_000  # 2030-01-01T00:00:00Z
NIGHTLY = {"id": "nightly", "cron": "0 2 * * *", "timezone": "Europe/Madrid"}
SOON = {"id": "soon", "in": "5m"}
OFTEN = {"id": "often", "every": "1h"}


def read(triggers: Any, kept: tuple[Trigger, ...] = (), defaults: DefaultsIn | None = None, **more: Any) -> Content:
    raw = msgspec.json.encode({"triggers": triggers, "handler": {"exec": ["true"]}, **more})
    return read_job(
        raw,
        Settings(),
        NOW_MS,
        lambda _: NamespaceDefaults(1, defaults),
        kept=Policy(trigger=Trigger(kind=TriggerKind.SEVERAL), triggers=kept),
    )


def test_each_is_as_a_single_one_with_its_id() -> None:
    content = read([NIGHTLY, {**OFTEN, "jitter": "5s"}, SOON], max_runs=9)
    assert content.policy.trigger == Trigger(kind=TriggerKind.SEVERAL, max_runs=9)
    assert content.policy.triggers == (
        Trigger(kind=TriggerKind.CRON, expr="0 2 * * *", timezone="Europe/Madrid", id="nightly"),
        Trigger(kind=TriggerKind.EVERY, period_ms=3_600_000, jitter_ms=5_000, id="often"),
        Trigger(kind=TriggerKind.IN, period_ms=300_000, id="soon"),
    )
    said = msgspec.json.decode(content.body)
    assert said["triggers"] == [NIGHTLY, {**OFTEN, "jitter": "5s"}, SOON]
    assert said["max_runs"] == 9
    assert "trigger" not in said


@pytest.mark.parametrize(
    ("triggers", "more", "at"),
    [
        ([], {}, "/trigger"),
        ([OFTEN], {"trigger": {"every": "1h"}}, "/trigger"),
        ([{"every": "1h"}], {}, "/triggers/0/id"),
        ([OFTEN, {**OFTEN, "every": "2h"}], {}, "/triggers/1/id"),
        ([{**OFTEN, "id": "so/so"}], {}, "/triggers/0/id"),
        ([{**OFTEN, "id": "x" * 65}], {}, "/triggers/0/id"),
        ([OFTEN, {"id": "b"}], {}, "/triggers/1"),
        ([{**OFTEN, "cron": "* * * * *"}], {}, "/triggers/0"),
        ([OFTEN, {"id": "b", "manual": True}], {}, "/triggers/1/manual"),
        ([{**OFTEN, "max_runs": 3}], {}, "/triggers/0/max_runs"),
        ([{**OFTEN, "timezone": "UTC"}], {}, "/triggers/0/timezone"),
        ([OFTEN, {"id": "b", "every": "soon"}], {}, "/triggers/1/every"),
        ([OFTEN, {"id": "b", "cron": "61 * * * *"}], {}, "/triggers/1/cron"),
        ([{**OFTEN, "ends_at": "2029-01-01T00:00:00Z"}], {}, "/triggers/0/ends_at"),
        ([{"id": "a", "at": "never"}], {}, "/triggers/0/at"),
        ([{**OFTEN, "id": f"t{k}"} for k in range(17)], {}, "/triggers"),
        ([SOON], {"misfire": {"policy": "skip"}}, "/misfire/policy"),
        ([{**OFTEN, "on": 1}], {}, "/triggers/0/on"),
    ],
)
def test_what_is_wrong_is_told_by_its_place(triggers: Any, more: dict[str, Any], at: str) -> None:
    with pytest.raises(Problem) as refused:
        read(triggers, **more)
    assert [error.pointer for error in refused.value.errors] == [at]
    code = "invalid-trigger" if at.startswith("/trigger") else "invalid-job"
    assert refused.value.code == code


def test_max_runs_beside_a_single_trigger_is_refused() -> None:
    with pytest.raises(Problem) as refused:
        read([], trigger={"every": "1h"}, max_runs=3)
    assert [error.pointer for error in refused.value.errors] == ["/max_runs"]


def test_one_that_the_job_has_is_not_asked_whether_it_comes_again() -> None:
    past = {**OFTEN, "ends_at": "2029-01-01T00:00:00Z"}
    kept = Trigger(kind=TriggerKind.EVERY, period_ms=3_600_000, ends_at_ms=1_861_920_000_000, id="often")
    assert read([past, SOON], (kept,)).policy.triggers[0] == kept


def test_defaults_of_the_namespace() -> None:
    defaults = DefaultsIn(timezone="Asia/Tokyo", misfire=MisfireIn("skip"))
    plain = {"id": "plain", "cron": "0 3 * * *"}
    content = read([NIGHTLY, plain, OFTEN], defaults=defaults)
    assert [trigger.timezone for trigger in content.policy.triggers] == ["Europe/Madrid", "Asia/Tokyo", "UTC"]
    assert content.policy.misfire.policy.name == "SKIP"
    assert read([SOON, {"id": "b", "in": "1h"}], defaults=defaults).policy.misfire.policy.name == "ONCE"
