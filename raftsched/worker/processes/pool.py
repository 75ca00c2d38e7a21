"""Gives runs to the supervisor's services: warm processes for python, and for http.

A python service runs one attempt at a time. The pool hands the next attempt to one that is idle, waits a moment for
one to become idle, and then starts another, up to its limit; not where those there are get through all that waits soon,
as with short runs, nor where they are as many as the processors and hardly at work: more would only cost. Those idle
for long end. A run that wants a process of its own gets one at once. Each serves one namespace and one user: what a
function leaves in its process is met by none of another namespace. A function that asks for it has processes that take
several of its runs at a time, and are for it alone. There are no more of them, idle ones included, than a node has
slots: the one idle longest ends for one that is needed.

An http service takes all requests of a namespace at a time, for no code of a job runs in there; what a server does to
one namespace's requests is felt by no other's. What the cluster sends for itself, webhooks and mails, is a namespace of
its own.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable

from raftsched.handlers import CONCURRENCY_MAX
from raftsched.system.clock import Clock
from raftsched.worker.executors.python import PythonService
from raftsched.worker.processes import wire
from raftsched.worker.processes.growth import GROW_AFTER_MS, keeps_up
from raftsched.worker.processes.pages import RunsPage
from raftsched.worker.processes.service import OP_KILL, OP_RUN, OP_TIMEOUT, PACKET_HEAD
from raftsched.worker.processes.service_ends import as_asked, left_end, with_output
from raftsched.worker.processes.warm_process import NEVER, Host, Place, Run, Serve, Service
from raftsched.worker.session.shortage import cannot_start
from raftsched.worker.tasks.run_answers import FORGED, is_self_report, is_stale, said_by

PROCESSORS = os.cpu_count() or 1
GROW_EVERY_MS = max(1, 10 // PROCESSORS)  # starting one takes about 10 ms of a processor
IDLE_MAX_MS = 60_000
OVERDUE_MS = 1_000  # after a keeper should have killed what it was to end
SAYS_EVERY_MS = 50  # between two words of one run: it holds itself to a second
CANCEL_MS = 250  # for a cancelled run to end, at least: its process ends with all that are in it when it does not
CUT_FOR = "another of them did not end when it was cancelled"
HTTP_ENDS_MS = 4_000  # for an http service to give up a request; it ends with all others when it does not
HTTP_MAX = 16  # of 12 MB each; where all are at work, further namespaces go to the one with the fewest runs
HTTP_IDLE_MAX_MS = 600_000  # starting one takes 50 ms of a processor


def within(grace_ms: int, launch: wire.Launch) -> int:
    """Returns how long a run may go on when its node stops and leaves so much to all."""
    return grace_ms if launch.stop_ms is None else min(grace_ms, launch.stop_ms)


class Pool:
    def __init__(
        self,
        host: Host,
        clock: Clock,
        python: PythonService,
        http: Callable[[], Serve],
        most: int,
        warm_max: int | None = None,
    ) -> None:
        """`most` python services at a time; idle ones end rather than there being more than `warm_max`."""
        self._host = host
        self._clock = clock
        self._python = python
        self._http = http
        self._most = most
        self._warm_max = NEVER if warm_max is None else warm_max
        self._count = 0  # python services
        self._places: dict[tuple[str, str, str], Place] = {}
        self._services: list[Service] = []
        self._due_at = NEVER
        self._end_at: int | None = None  # the node stops: when what is left is killed

    # ------------------------------------------------------------ from the node

    def launch(self, launch: wire.Launch) -> None:
        if len(wire.frame(launch.task)) + PACKET_HEAD.size > wire.PACKET_MAX:
            error = f"the run is too large to hand over: {len(launch.task)} bytes, the limit is {wire.PACKET_MAX}"
            now_ms = self._clock.wall_ms()
            self._emit(wire.Finished(launch.token, wire.FAILED, None, now_ms, None, error))
        elif launch.kind in ("http", "mail"):
            self._give_http(launch)
        else:
            place = self._place(launch)
            if launch.fresh:
                self._start(place, launch)
            elif place.idle and not place.queue:
                self._give(place.idle[-1], launch)
            else:
                place.queue.append((self._clock.boot_ms(), place.freed, place.taken_ms, launch))
                self._due_at = 0

    def _place(self, launch: wire.Launch) -> Place:
        key = (launch.namespace, launch.user, launch.function)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = Place(key, min(launch.concurrency, CONCURRENCY_MAX))
        return place

    def kill(self, token: int, reason: str) -> bool:
        """Ends a run that is here. Returns False when it is not."""
        for place in self._places.values():
            for i, (_, _, _, launch) in enumerate(place.queue):
                if launch.token == token:
                    del place.queue[i]
                    self._emit(wire.Finished(token, wire.KILLED, None, self._clock.wall_ms(), None, reason or None))
                    return True
        for service in self._services:
            run = service.runs.get(token)
            if run is not None:
                self._ask(service, run, wire.KILLED, reason)
                return True
        return False

    def drop_queue(self) -> None:
        """Drops the runs that wait: they are never started."""
        for place in self._places.values():
            while place.queue:
                *_, launch = place.queue.popleft()
                self._emit(wire.Finished(launch.token, wire.LOST, None, self._clock.wall_ms()))

    def drop_all(self) -> None:
        """Drops all in a process forked from this one, which is not to know of them."""
        self._places.clear()
        self._services.clear()

    def end_all(self) -> None:
        for service in self._services:
            self._end(service)

    def wind_down(self, grace_ms: int) -> None:
        """Leaves so long to what this node has taken."""
        now = self._clock.boot_ms()
        self._end_at = now + grace_ms
        for service in self._services:
            self._wind_down(service, now)

    def _wind_down(self, service: Service, now: int) -> None:
        assert self._end_at is not None
        grace_ms = max(0, self._end_at - now)
        if service.kind == "python":
            grace_ms = min([grace_ms, *(within(grace_ms, run.launch) for run in service.runs.values())])
        for run in service.runs.values():
            self._end_by(run, now + grace_ms)
        service.command(wire.CMD_STOP + grace_ms.to_bytes(4, "little"))

    # ------------------------------------------------------------ time

    @property
    def due_at(self) -> int:
        """The boot time (ms) at which `tick` wants to be called."""
        return self._due_at

    def tick(self, now: int) -> None:
        if now < self._due_at:
            return
        self._due_at = NEVER
        for service in self._services:
            for run in service.runs.values():
                if run.began_at <= now:
                    run.began_at = NEVER
                    self._host.emit(wire.encode(wire.Started(run.launch.token, run.started_at_ms)))
                if run.asked is None:
                    if run.deadline <= now:
                        self._ask(service, run, wire.TIMED_OUT, "")
                    else:
                        self._due_at = min(self._due_at, run.deadline)
                elif run.cut_at <= now:
                    run.cut_at = NEVER
                    if run.answer is None:
                        self._cut(service, CUT_FOR)
                    self._end_by(run, now)
                if run.end_by <= now:
                    run.end_by = NEVER
                    if run.asked is None:
                        run.asked, run.reason = wire.KILLED, wire.NODE_STOPPED
                    service.ending = True
                    self._host.kill_keeper(service.pid)
                self._due_at = min(self._due_at, run.began_at, run.cut_at, run.end_by)
            if service.kind == "http" and not service.runs and not service.ending:
                if service.idle_since + HTTP_IDLE_MAX_MS <= now:
                    self._end(service)
                else:
                    self._due_at = min(self._due_at, service.idle_since + HTTP_IDLE_MAX_MS)
        for place in list(self._places.values()):
            self._grow(place, now)
            for service in [s for s in place.idle if not s.runs]:
                if service.idle_since + IDLE_MAX_MS <= now:
                    self._end(service)
                else:
                    self._due_at = min(self._due_at, service.idle_since + IDLE_MAX_MS)
            if not place.count and not place.queue:
                del self._places[place.key]

    def _grow(self, place: Place, now: int) -> None:
        queue = place.queue
        self._give_waiting(place)
        if not queue:
            return
        since, freed, taken_ms, launch = queue[0]
        served, taken_ms = place.freed - freed, place.taken_ms - taken_ms  # since it waits
        if keeps_up(served, place.count, len(queue), now - since) or self._lacks_processors(place, taken_ms, now):
            self._due_at = min(self._due_at, now + GROW_AFTER_MS)
        elif self._count < self._most and (place.count == 0 or self._grow_at(place, since) <= now):
            queue.popleft()
            if self._start(place, launch):
                place.grown_at = now
                self._give_waiting(place)
            self._due_at = 0 if queue else self._due_at
        elif self._count < self._most:
            self._due_at = min(self._due_at, self._grow_at(place, since))

    def _lacks_processors(self, place: Place, taken_ms: int, now: int) -> bool:
        """Returns whether runs wait for the processors, not for a process. `taken_ms`: of the place, since it waits."""
        since = place.queue[0][0]
        if now - since < GROW_AFTER_MS:
            return False
        services = [s for s in self._services if s.place is place and not s.retiring and not s.ending]
        taken_ms += sum(now - max(since, run.given_at) for service in services for run in service.runs.values())
        # One for each processor, at their runs for less than half of the time: another would do nothing any sooner.
        return len(services) >= PROCESSORS and 2 * taken_ms < len(services) * place.room * (now - since)

    def _give_waiting(self, place: Place) -> None:
        while place.queue and place.idle:
            self._give(place.idle[-1], place.queue.popleft()[3])

    def _start(self, place: Place, launch: wire.Launch) -> bool:
        """Starts the run in a new python service."""
        if self._count >= self._warm_max:
            self._end_idlest()
        try:
            serve: Serve = self._python.concurrent if place.room > 1 else self._python
            service = self._host.start_service("python", launch.session, serve, launch.user, launch.memory, place.room)
        except OSError as exc:
            self._emit(wire.not_begun(launch.token, cannot_start(exc), self._clock.wall_ms()))
            return False
        place.count += 1
        self._count += 1
        self._begin(service, place, launch)
        return True

    def _begin(self, service: Service, place: Place, launch: wire.Launch) -> None:
        """Gives a service that was started its first run."""
        service.place = place
        self._services.append(service)
        self._give(service, launch)
        if self._end_at is not None:
            self._wind_down(service, self._clock.boot_ms())

    def _grow_at(self, place: Place, since: int) -> int:
        return max(since + GROW_AFTER_MS, place.grown_at + GROW_EVERY_MS)

    def _end_idlest(self) -> None:
        """It makes room for another one."""
        idle = [service for place in self._places.values() for service in place.idle if not service.runs]
        for service in sorted(idle, key=lambda service: service.idle_since)[:1]:
            self._end(service)

    # ------------------------------------------------------------ from services and their keepers

    def answered(self, service: Service, packet: bytes) -> None:
        """A service's answer about a run came."""
        if service.kind == "http":
            self._http_answered(service, packet[1:])
        elif service.room == 1:
            self._python_answered(service, next(iter(service.runs), 0), packet[0], packet[1:])
        else:
            try:
                for one in wire.framed(packet):
                    token, flags = PACKET_HEAD.unpack_from(one)
                    self._python_answered(service, token, flags, bytes(one[PACKET_HEAD.size :]))
            except (ValueError, struct.error):
                self._cut(service, FORGED)

    def _python_answered(self, service: Service, token: int, flags: int, message: bytes) -> None:
        run = service.runs.get(token)
        if flags == wire.SAYS:
            self._pass_self_report_on(token, run, message)
            return
        if run is None or run.answer is not None:
            return  # it has said it; more is not for it to say
        shared = service.room > 1
        if run.asked is not None and not shared:
            return  # it is being killed; what its keeper says counts
        if flags & wire.STALE and run.asked is None and is_stale(token, message):
            self._drop(service, token)
            service.place.queue.appendleft((0, service.place.freed, service.place.taken_ms, run.launch))
            self._due_at = 0
            self._retire(service)
            return
        done = said_by(token, message)
        if done is None:
            now_ms = max(self._clock.wall_ms(), run.started_at_ms)
            run.answer = wire.Finished(token, wire.FAILED, run.started_at_ms, now_ms, None, FORGED)
            self._cut(service, FORGED)
            return
        service.place.taken_ms += max(0, done.ended_at_ms - (done.started_at_ms or done.ended_at_ms))
        if flags == 0 and run.asked is None:
            self._drop(service, token)
            self._host.emit(message)
            self._free(service)
        else:
            run.answer = as_asked(run, done)
            if flags & wire.DIRTY:
                self._retire(service)
            if flags & wire.WROTE if shared else not flags & wire.DIRTY:
                service.collect(token)
            elif shared:
                self._settle(service, run, None)

    def _settle(self, service: Service, run: Run, output: wire.Collected | None) -> None:
        """All is there of a run that has ended."""
        assert run.answer is not None
        self._drop(service, run.launch.token)
        self._emit(with_output(run.answer, run, output))
        self._free(service)

    def _pass_self_report_on(self, token: int, run: Run | None, message: bytes) -> None:
        """Passes on what a run says of itself, of that run and no other, and not more than its node can bear."""
        now = self._clock.boot_ms()
        if run is None or run.says_at > now or not is_self_report(token, message):
            return
        run.says_at = now + SAYS_EVERY_MS
        self._host.emit(message)

    def _http_answered(self, service: Service, message: bytes) -> None:
        done: wire.Finished = wire.decode_up(message)
        run = service.runs.pop(done.token)
        if not service.runs:
            service.idle_since = self._clock.boot_ms()
            self._due_at = min(self._due_at, service.idle_since + HTTP_IDLE_MAX_MS)
        if run.asked is None:
            self._host.emit(message)
        else:
            self._emit(with_output(as_asked(run, done), run, None))

    def collected(self, service: Service, output: wire.Collected) -> None:
        service.collected()
        run = service.runs.get(output.token or next(iter(service.runs), 0))
        if run is None:
            return
        if run.answer is None:
            run.output = output
        else:
            self._settle(service, run, output)

    def gone(self, service: Service, gone: wire.ServiceExited) -> None:
        """Nothing of it is left."""
        self._forget(service)
        now_ms = self._clock.wall_ms()
        shared = sum(run.answer is None for run in service.runs.values()) > 1
        for run in service.runs.values():
            self._emit(left_end(service, run, gone, now_ms, shared=shared))
        service.runs.clear()
        self._due_at = 0

    def vanished(self, service: Service, lost: bool) -> None:
        """Its keeper was killed by somebody, or (`lost`) for the sake of the lease; nothing of it is left now."""
        for token, run in list(service.runs.items()):
            if lost:
                run.answer = None
            elif run.answer is None and run.asked is None:
                del service.runs[token]
                now_ms = max(self._clock.wall_ms(), run.started_at_ms)
                error = "its keeper process was killed"
                self._emit(wire.Finished(token, wire.LOST, run.started_at_ms, now_ms, None, error, alone=True))
        self.gone(service, wire.ServiceExited(128 + 9, lost, wire.Collected(b"", False, 0, "")))

    # ------------------------------------------------------------ steps

    def _give_http(self, launch: wire.Launch) -> None:
        service = self._http_service(launch)
        if service is not None:
            self._give(service, launch)
            return
        service = self._host.start_service("http", launch.session, self._http())
        self._begin(service, Place((launch.namespace, "", "")), launch)

    def _http_service(self, launch: wire.Launch) -> Service | None:
        """Returns the one that is to take it; None: another one has to be started."""
        there = [s for s in self._services if s.kind == "http" and s.session == launch.session and not s.ending]
        for service in there:
            if service.place.key[0] == launch.namespace:
                return service
        if launch.namespace == wire.SYSTEM:
            return None
        others = [service for service in there if service.place.key[0] != wire.SYSTEM]
        if len(others) < HTTP_MAX:
            return None
        idle = [service for service in others if not service.runs]
        if not idle:
            return min(others, key=lambda service: len(service.runs))
        self._end(min(idle, key=lambda service: service.idle_since))
        return None

    def _give(self, service: Service, launch: wire.Launch) -> None:
        now = self._clock.boot_ms()
        run = Run(launch, now, self._clock.wall_ms())
        service.runs[launch.token] = run
        self._due_at = min(self._due_at, run.began_at, run.deadline)
        if service.page is not None:
            service.page.turn_to(launch.token, launch.output_max)
        service.send(PACKET_HEAD.pack(launch.token, OP_RUN) + launch.task)
        idle = service.place.idle
        if len(service.runs) >= service.room:
            if service in idle:
                idle.remove(service)
        elif service not in idle:
            idle.append(service)

    def _drop(self, service: Service, token: int) -> None:
        """The run is not in the service any more."""
        del service.runs[token]
        if isinstance(service.page, RunsPage):
            service.page.turn_from(token)

    def _free(self, service: Service) -> None:
        if service.ending or service.retiring:
            self._retire(service)
            return
        place = service.place
        place.freed += 1
        if place.queue:
            self._give(service, place.queue.popleft()[3])
            return
        if service not in place.idle:
            place.idle.append(service)
        if not service.runs:
            service.idle_since = self._clock.boot_ms()
            self._due_at = min(self._due_at, service.idle_since + IDLE_MAX_MS)

    def _retire(self, service: Service) -> None:
        """Gives it nothing new, and ends it when none of its runs goes on."""
        service.retiring = True
        if service in service.place.idle:
            service.place.idle.remove(service)
        if not service.ending and (service.room == 1 or not service.runs):
            self._end(service)

    def _cut(self, service: Service, why: str) -> None:
        """Ends it now, with all runs that are in it."""
        self._retire(service)  # which ends it where it is at one
        if not service.ending:
            service.ending = True
            service.cut_for = why
            service.command(wire.CMD_KILL + bytes(4))

    def _ask(self, service: Service, run: Run, outcome: int, reason: str) -> None:
        if run.asked is not None:
            return
        run.asked = outcome
        run.reason = reason
        if service.kind == "http" or service.room > 1:
            op = OP_TIMEOUT if outcome == wire.TIMED_OUT else OP_KILL
            service.send(PACKET_HEAD.pack(run.launch.token, op))
            if service.kind == "http":
                self._end_by(run, self._clock.boot_ms() + HTTP_ENDS_MS)
            else:
                run.cut_at = self._clock.boot_ms() + max(run.launch.grace_ms, CANCEL_MS)
                self._due_at = min(self._due_at, run.cut_at)
            return
        service.ending = True
        self._end_by(run, self._clock.boot_ms() + run.launch.grace_ms)
        command = wire.CMD_TIMEOUT if outcome == wire.TIMED_OUT else wire.CMD_KILL
        service.command(command + run.launch.grace_ms.to_bytes(4, "little"))

    def _end_by(self, run: Run, kill_at: int) -> None:
        run.end_by = min(run.end_by, kill_at + OVERDUE_MS)
        self._due_at = min(self._due_at, run.end_by)

    def _end(self, service: Service) -> None:
        service.ending = True
        if service in service.place.idle:
            service.place.idle.remove(service)
        service.command(wire.CMD_FENCE)

    def _forget(self, service: Service) -> None:
        if service in self._services:
            self._services.remove(service)
            if service.kind == "python":
                service.place.count -= 1
                self._count -= 1
        if service in service.place.idle:
            service.place.idle.remove(service)

    def _emit(self, done: wire.Finished) -> None:
        self._host.emit(wire.encode(done))
