"""What the calls of the API's state machine are drawn from: few values, so that they meet."""

from __future__ import annotations

from hypothesis import strategies as st

NAMES = ["a", "ab", "abc", "b", "report-daily", "report-weekly", "x.y_z"]
NAMESPACES = ["default", "billing", "ops"]
OWNERS = ["ana", "bo"]
LABELS = [{"team": "fin"}, {"team": "ops"}, {"team": "fin", "tier": "1"}]
ACTIONS = ["pause", "resume", "expire", "run", "delete"]

triggers = st.sampled_from(
    [{"manual": True}, {"every": "12h"}, {"every": "1d"}, {"at": "2091-01-01T00:00:00Z"}, {"cron": "0 0 1 1 *"}]
)
contents = st.fixed_dictionaries(
    {"trigger": triggers, "handler": st.sampled_from([{"shell": "true"}, {"exec": ["echo", "a"]}])},
    optional={
        "owner": st.sampled_from(OWNERS),
        "priority": st.sampled_from([0, 1, 9]),
        "labels": st.sampled_from(LABELS),
        "queue": st.sampled_from(["slow", "fast"]),
        "overlap": st.just("allow"),
    },
)
names = st.none() | st.sampled_from(NAMES)
namespaces = st.sampled_from(NAMESPACES)
numbers = st.integers(0, 10_000)
tags = st.sampled_from(["none", "any", "right", "stale", "past"])
states = st.lists(st.sampled_from(["NEW", "SCHEDULED", "SUSPENDED", "EXPIRED"]), min_size=1, max_size=3, unique=True)
plain_filters = st.fixed_dictionaries(
    {},
    optional={
        "namespace": namespaces,
        "state": states,
        "owner": st.sampled_from([*OWNERS, "nobody"]),
        "labels": st.sampled_from([{"team": "fin"}, {"team": "ops"}, {"tier": "1"}]),
        "queue": st.sampled_from(["slow", "fast", "default"]),
        "name_contains": st.sampled_from(["a", "report", "-w", "zz"]),
    },
)
named_filters = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"name": st.sampled_from(NAMES)}),
    st.fixed_dictionaries({"name_prefix": st.sampled_from(["a", "ab", "rep", "q"])}),
)
bounds = st.lists(  # of times, and whose time it is
    st.tuples(st.sampled_from(["created_from", "created_to", "next_from", "next_to"]), numbers), max_size=2
)
changes = st.dictionaries(
    st.sampled_from(["owner", "priority", "labels", "queue", "overlap", "trigger"]), st.booleans(), min_size=1
)
