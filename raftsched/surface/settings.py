"""The settings as the API describes them: what each is for, its default and its bounds."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from raftsched.cluster_settings import SETTINGS, Settings
from raftsched.quantities import is_duration, public_name, public_value
from raftsched.surface.kinds import action, tagged_read
from raftsched.surface.operation import BODIES, JSON, MERGE_PATCH, WRITES, Operation, Reply
from raftsched.surface.scalars import Duration
from raftsched.surface.sdk import Arg, Sdk


def _given(field: str) -> tuple[str, Any, Any]:
    row = SETTINGS[field]
    kind: Any = Duration if is_duration(field) else _integer(row.least, row.most)
    return public_name(field), kind | None | UnsetType, UNSET


def _integer(least: int, most: int) -> Any:
    return Annotated[int, Meta(ge=least, le=most, description=f"an integer from {least:,} to {most:,}")]


def _shown(field: str) -> tuple[str, Any]:
    """Says what the setting is for, its default and, under x-bounds, the least and the most that it may be."""
    row = SETTINGS[field]
    default, *bounds = (public_value(field, value) for value in (getattr(Settings(), field), row.least, row.most))
    kind: Any = Duration if is_duration(field) else int
    extra = {"default": default, "x-bounds": bounds}
    return public_name(field), Annotated[kind, Meta(description=row.text, extra_json_schema=extra)]


SettingsOut = msgspec.defstruct(
    "SettingsOut",
    [_shown(field) for field in SETTINGS],
    namespace={"__doc__": "All settings, as they are."},
)
SettingsIn = msgspec.defstruct(
    "SettingsIn",
    [_given(field) for field in SETTINGS],
    forbid_unknown_fields=True,
    namespace={"__doc__": "A change of the settings; null: the default."},
)


class Paused(msgspec.Struct):
    paused: bool


GET = tagged_read(
    "settings_get",
    "/v1/cluster/settings",
    "Read the settings",
    SettingsOut,
    "All of them.",
    scope="shared",
    sdk=Sdk(
        "Cluster.settings",
        (),
        "Returns all limits and defaults that hold on every node alike; durations as text.",
        returns="dict[str, Any]",
    ),
)
PATCH = Operation(
    "settings_patch",
    "PATCH",
    "/v1/cluster/settings",
    "Change settings",
    {200: Reply(SettingsOut, "As they are now.", ("ETag",))},
    headers=("If-Match",),
    body=SettingsIn,
    media=(JSON, MERGE_PATCH),
    codes=(*BODIES, *WRITES, "stale", "stale-revision"),
    role="admin",
    says="RFC 7396; null: the default. Without If-Match, a change in between means to merge again: none gets lost.",
    sdk=Sdk(
        "Cluster.set_settings",
        (Arg("**changes", "Any"),),
        "Changes the given settings, None to the default, and returns all of them. InvalidError names each value out "
        "of bounds.",
        returns="dict[str, Any]",
    ),
)
PAUSE = action(
    "settings_pause",
    "/v1/cluster/pause",
    "Pause the cluster",
    {200: Paused},
    role="operator",
    scope="shared",
    says="Nothing is fired or started any more; what runs goes on.",
    sdk=Sdk("Cluster.pause", (), gives=""),
)
RESUME = action(
    "settings_resume",
    "/v1/cluster/resume",
    "Resume the cluster",
    {200: Paused},
    role="operator",
    scope="shared",
    says="The misfire policy of each job decides about the times that were missed.",
    sdk=Sdk(
        "Cluster.resume",
        (),
        "Lets jobs start again. Each job's misfire policy says what happens to times that were missed.",
        gives="",
    ),
)
