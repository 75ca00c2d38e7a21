"""Webhooks of a World, and what was told to them."""

from __future__ import annotations

from typing import Any

from raftsched.core.model import (
    Instance,
)
from raftsched.core.rows import decode_webhook
from raftsched.core.subjects.notices import ENDS, Notice, decode_notice
from raftsched.core.subjects.webhook import PutWebhook, Webhook, WebhookSpec
from raftsched.core.tables import Table
from tests.support.memory_view import World

SECRET = b"s" * 32
ALL = tuple(sorted(ENDS))
URL = "https://ops.example/hook"


def hook(world: World, name: str = "ops", **fields: Any) -> Webhook:
    world.ok(PutWebhook(name, WebhookSpec(url=URL, **fields), SECRET))
    return row(world, name)


def row(world: World, name: str = "ops") -> Webhook:
    raw = world.view.get(Table.WEBHOOKS, name.encode())
    assert raw is not None
    return decode_webhook(raw)


def deliveries(world: World, name: str = "ops") -> list[Instance]:
    return world.instances(row(world, name).job_id)


def told(world: World, name: str = "ops") -> list[Notice]:
    return [decode_notice(i.notice or b"") for i in deliveries(world, name)]
