"""Made from client/aio.py by scripts/make-sync; not edited by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

from raftsched.client.generated.content import Trigger
from raftsched.client.generated.events import Changes
from raftsched.client.generated.schedules import Preview
from raftsched.client.generated.statistics import Minutes, Now, Stats, StatsFilter
from raftsched.client.models import Event
from raftsched.client.moments import Moment
from raftsched.client.spec import EventFilter
from raftsched.client.sync.bridge import Bridge
from raftsched.client.sync.cluster import Cluster, ClusterNodes, Workers
from raftsched.client.sync.instances import DeadLetters, Instances
from raftsched.client.sync.jobs import Jobs
from raftsched.client.sync.operations import Operations
from raftsched.client.sync.resources import Calendars, Namespaces, Queues, Webhooks
from raftsched.client.sync.workflow_runs import Workflows


class Calls:
    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self.jobs = Jobs(bridge)
        self.instances = Instances(bridge)
        self.dead_letters = DeadLetters(bridge)
        self.workflows = Workflows(bridge)
        self.operations = Operations(bridge)
        self.queues = Queues(bridge)
        self.webhooks = Webhooks(bridge)
        self.calendars = Calendars(bridge)
        self.namespaces = Namespaces(bridge)
        self.nodes = ClusterNodes(bridge)
        self.workers = Workers(bridge)
        self.cluster = Cluster(bridge)

    def events(
        self, *, after: str | None = None, follow: bool = True, **filters: Unpack[EventFilter]
    ) -> Iterator[Event]:
        """Gives each change of the cluster as it happens, and continues at another node when one goes away. `after`:
        the id of the last event that was handled, or "oldest" for all that are kept; None: from now on. With
        `follow=False` it ends with the last event that there is. Raises NotFoundError "events-gone" when the events
        after that id are no longer kept."""
        return self._bridge.each(lambda c: c.events(after=after, follow=follow, **filters))

    def changes(self, *, after: str | None = None, follow: bool = True) -> Iterator[Changes]:
        """Gives digests of what changed, at most four a second whatever happens, and continues at another node when one
        goes away: for what shows jobs and runs, and reads them again when they changed. `after`: the id of the last
        digest; None: from now on. With `follow=False`: what changed since, and the end."""
        return self._bridge.each(lambda c: c.changes(after=after, follow=follow))

    def preview(
        self,
        trigger: Trigger,
        *,
        start: Moment | None = None,
        end: Moment | None = None,
        count: int = 10,
        by_day: str | None = None,
        name: str | None = None,
        namespace: str | None = None,
    ) -> Preview:
        """Returns a trigger in words and its next times, from `start` (None: now) to before `end`. `by_day`: a time
        zone; how many each of its days has is counted, too, up to `end`. `name`, `namespace`: of the job that is to be
        made with it, for `H` in a cron expression. Nothing is saved."""
        return self._bridge.run(
            lambda c: c.preview(
                trigger, start=start, end=end, count=count, by_day=by_day, name=name, namespace=namespace
            )
        )

    def stats(self, *, start: Moment | None = None, end: Moment | None = None, **filters: Unpack[StatsFilter]) -> Stats:
        """Returns how runs went: of instances due from `start` (None: an hour before `end`) to before `end` (None:
        now)."""
        return self._bridge.run(lambda c: c.stats(start=start, end=end, **filters))

    def now(self, *, namespace: str | None = None) -> Now:
        """Returns what runs, what waits and why, what is due next, and the newest dead letters. `namespace`: None, of
        all."""
        return self._bridge.run(lambda c: c.now(namespace=namespace))

    def minutes(
        self, *, start: Moment | None = None, end: Moment | None = None, step: str = "1m", namespace: str | None = None
    ) -> Minutes:
        """Returns counts of runs over the last 24 hours, or a part of them. `step`: "1m", "5m", "15m" or "1h".
        `namespace`: None, all of them."""
        return self._bridge.run(lambda c: c.minutes(start=start, end=end, step=step, namespace=namespace))
