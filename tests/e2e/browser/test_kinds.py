"""The page has words and marks of its own for every kind that the API names: a new kind turns this red until it has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

import msgspec
import pytest

from raftsched.api.jobs.triggers import KINDS_OF_TRIGGER
from raftsched.core.model import Outcome
from raftsched.surface.content import AfterIn, ConditionIn, HandlerIn, HttpIn
from raftsched.surface.enums import (
    Action,
    AfterEnd,
    InstanceStateName,
    JobEventName,
    JobState,
    OperationState,
    OverlapName,
)
from tests.support.browser import Tab

OUTCOMES = tuple(outcome.name for outcome in Outcome)
TRIGGERS: dict[str, Any] = {
    "at": "2030-01-01T00:00:00Z",
    "in": "5m",
    "every": "6h",
    "cron": "0 2 * * *",
    "rrule": "FREQ=DAILY",
    "manual": True,
    "after": {"job": "load"},
}
HANDLERS: dict[str, Any] = {
    "exec": ["the-words"],
    "shell": "the-words",
    "python": "the.words",
    "call": "the-words",
    "http": {"url": "http://the.words/"},
}
# What of a handler, of a condition is said beside its kind.
BESIDE_HANDLER = {"env", "cwd", "limits", "fresh", "template"}
BESIDE_CONDITION = {"status", "within"}
CONDITIONS = {"path": "/the-words", "http": "http://the-words/", "job_succeeded": "a/the-words"}


@pytest.fixture(scope="module")
def tab(units: Tab) -> Tab:
    return units


def table(tab: Tab, module: str, name: str) -> set[str]:
    """The keys of a table of the page."""
    script = "async ([path, name]) => Object.keys((await import(`/ui/assets/x/${path}`))[name])"
    return set(tab.page.evaluate(script, [module, name]))


def fields(struct: type[msgspec.Struct], beside: Iterable[str] = ()) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(struct)} - set(beside)


def text_of(tab: Tab, module: str, function: str, *args: Any) -> str:
    """What a function of the page shows, as text."""
    script = """async ([path, name, args]) => {
      const { h, render } = await import("/ui/assets/x/core/vdom.js");
      const made = (await import(`/ui/assets/x/${path}`))[name](...args);
      const place = document.createElement("div");
      render([h("p", null, made)], place);
      return place.textContent;
    }"""
    return str(tab.page.evaluate(script, [module, function, list(args)]))


def test_each_kind_of_trigger_is_told_as_what_it_is(tab: Tab) -> None:
    assert set(KINDS_OF_TRIGGER) == set(TRIGGERS)
    texts = {
        kind: tab.call("components/trigger-text.js", "triggerText", {kind: said}) for kind, said in TRIGGERS.items()
    }
    assert [kind for kind, text in texts.items() if "by hand" in text] == ["manual"]
    assert len(set(texts.values())) == len(texts)
    assert not [kind for kind, text in texts.items() if text == kind]  # that is what an unknown one says
    assert table(tab, "pages/editor/trigger.js", "TRIGGER_KINDS") == set(KINDS_OF_TRIGGER)


def test_each_way_to_follow_a_job_is_told(tab: Tab) -> None:
    assert fields(AfterIn) == {"job", "all_of", "any_of", "on", "pass"}
    told = {
        tab.call("components/trigger-text.js", "triggerText", {"after": {"job": "load", "on": end}})
        for end in get_args(AfterEnd)
    }
    assert len(told) == len(get_args(AfterEnd))


@pytest.mark.parametrize("states", [JobState, InstanceStateName, OperationState])
def test_each_state_has_a_mark_of_its_own(tab: Tab, states: Any) -> None:
    assert set(get_args(states)) <= table(tab, "components/basics.js", "MARKS")


def test_each_end_of_an_attempt_has_a_mark_and_a_colour(tab: Tab) -> None:
    assert set(OUTCOMES) <= table(tab, "components/basics.js", "MARKS")
    assert {outcome.lower() for outcome in OUTCOMES} == table(tab, "pages/run-times.js", "BAR_KINDS")


def test_each_state_of_a_run_has_a_bar_in_the_strip(tab: Tab) -> None:
    assert table(tab, "charts/strip.js", "KIND_OF") == set(get_args(InstanceStateName))


def test_each_kind_of_handler_is_told_as_what_it_is(tab: Tab) -> None:
    assert fields(HandlerIn, BESIDE_HANDLER) == set(HANDLERS)
    assert fields(HttpIn) >= {"url", "method"}
    texts = [text_of(tab, "pages/job/content.js", "value", "handler", {kind: said}) for kind, said in HANDLERS.items()]
    assert all("words" in text for text in texts)
    assert len({text.split("the")[0] for text in texts}) == len(texts)
    assert table(tab, "pages/editor/sections.js", "HANDLERS") == set(HANDLERS)


def test_each_kind_of_condition_is_told_as_what_it_is(tab: Tab) -> None:
    assert fields(ConditionIn, BESIDE_CONDITION) == set(CONDITIONS)
    for kind, said in CONDITIONS.items():
        text = text_of(tab, "pages/job/content.js", "value", "conditions", [{kind: said, "within": "1h"}])
        assert "the-words" in text
        assert "{" not in text  # an unknown one is shown as JSON
    assert table(tab, "pages/editor/sections.js", "CONDITIONS") == set(CONDITIONS)


def test_each_action_overlap_and_event_has_words(tab: Tab) -> None:
    assert set(get_args(Action)) == table(tab, "pages/jobs/bulk.js", "ACTIONS")
    assert set(get_args(OverlapName)) == table(tab, "pages/job/content.js", "OVERLAP_WORDS")
    measured = {event for event in get_args(JobEventName) if event in ("late", "running_long", "not_run_since")}
    assert table(tab, "pages/editor/sections.js", "MEASURES") == measured
