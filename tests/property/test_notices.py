"""Whatever is asked for: each end of an instance is told once to a webhook that listens to all, in its entry."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, note, settings

from raftsched.core.actions import Action
from raftsched.core.apply.change_events import Events
from raftsched.core.commands import Command
from raftsched.core.ids import instance_key
from raftsched.core.model import FINAL
from raftsched.core.rows import decode_instance, decode_webhook
from raftsched.core.subjects.changes import Change, InstanceChange, InstanceEvent
from raftsched.core.subjects.notices import ENDS, SYSTEM_NAMESPACE, decode_notice
from raftsched.core.subjects.webhook import PutWebhook, Webhook, WebhookSpec
from raftsched.core.tables import Table
from tests.property.author import Author
from tests.property.test_apply_replay import SEEDS
from tests.support.amounts import examples

LISTENER = "all"
ALL = tuple(sorted(ENDS))


class Listening(Author):
    """Has a webhook that nobody else touches, and holds what it is told against the events of each entry."""

    def __init__(self, seed: int, changes: list[Change]) -> None:
        super().__init__(seed)
        self._changes = changes
        self._told: set[bytes] = set()  # deliveries seen
        self._dropped = 0
        self.ends = 0

    def _entry(self, commands: list[Command]) -> None:
        before = self._webhook_row()
        listens = before is not None and before.spec.active
        if not listens:  # the first entry; or its receiver answered 410
            commands = [*commands, PutWebhook(LISTENER, WebhookSpec(url="http://h/", on=ALL), b"s" * 32)]
        self._changes.clear()
        super()._entry(commands)
        webhook = self._webhook_row()
        if webhook is None:
            return
        told = sorted(self._about(webhook))
        dropped, self._dropped = webhook.dropped - self._dropped, webhook.dropped
        ends = sorted(self._ended())
        if not listens or not webhook.spec.active:
            return  # for a part of the entry only
        self.ends += len(ends)
        assert len(told) + dropped == len(ends), f"entry {len(self.log)}: {len(ends)} ends, {len(told)} told"
        rest = list(ends)
        for key in told:
            assert key in rest, "told of what did not end, or twice"
            rest.remove(key)

    def _command(self) -> Command:
        """More of what brings runs to their ends."""
        r = self.random
        if r.random() < 0.4:
            return super()._command()
        usual = [self._create, self._open, self._run_now, self._run_now, self._fire, self._kill, self._wake]
        return r.choice([*usual, *[self._assign, self._end] * 4])()

    def _webhook_row(self) -> Webhook | None:
        raw = self.view.get(Table.WEBHOOKS, LISTENER.encode())
        return None if raw is None else decode_webhook(raw)

    def _about(self, webhook: Webhook) -> Iterator[bytes]:
        """Of deliveries that are new: the instances that they are about."""
        for key, raw in self.view.scan(Table.INSTANCES):
            row = decode_instance(raw)
            if row.job_id == webhook.job_id and key not in self._told:
                self._told.add(key)
                assert row.notice is not None
                notice = decode_notice(row.notice)
                assert notice.event is not None
                yield notice.instance

    def _ended(self) -> Iterator[bytes]:
        for change in self._changes:
            if (
                isinstance(change, InstanceChange)
                and change.event is InstanceEvent.STATE
                and change.state in FINAL
                and change.namespace != SYSTEM_NAMESPACE
            ):
                yield instance_key(change.nominal_at_ms, change.job_id, change.request)


@settings(max_examples=examples(60))
@given(SEEDS)
def test_each_end_is_told_once(seed: int) -> None:
    note(f"seed {seed}")
    changes: list[Change] = []
    close = Events.close

    def closing(self: Events, index: int, actions: list[Action]) -> None:
        changes.extend(self.changes)
        close(self, index, actions)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Events, "close", closing)
        Listening(seed, changes).write(200)


def test_there_are_ends_to_be_told_of() -> None:
    """Else the test above would prove little."""
    changes: list[Change] = []
    close = Events.close

    def closing(self: Events, index: int, actions: list[Action]) -> None:
        changes.extend(self.changes)
        close(self, index, actions)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Events, "close", closing)
        authors = [Listening(seed, changes) for seed in range(10)]
        for author in authors:
            author.write(200)
    assert sum(author.ends for author in authors) > 20
