"""What the Python load programs share. They run in the peer's Python, so nothing of raftsched is imported here."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

UTC = timezone.utc  # noqa: UP017 (a peer's Python may be older than 3.11)


def say(bench: str, **figures: Any) -> None:
    print(json.dumps({"bench": bench, **figures}), flush=True)


def begin() -> None:
    """What a figure is about begins here."""
    say("begin")


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def far() -> datetime:
    """A due time that the benchmark does not live to see, as spread as those of real users."""
    return datetime.now(UTC) + timedelta(milliseconds=random.randrange(3_600_000, 10 * 3_600_000))


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Raises what went wrong in one of them."""
    wrong: list[BaseException] = []

    def run(i: int) -> None:
        try:
            work(i)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]


def closed_loop(in_flight: int, seconds: float, send: Callable[[int], object]) -> tuple[list[float], float, float]:
    """(latencies in ms, seconds, share of the machine that this process took). `send` is told which of the threads
    calls it. After a second to get warm."""
    latencies: list[float] = []

    def load(long: float) -> float:
        latencies.clear()
        start = time.perf_counter()

        def work(i: int) -> None:
            while (sent := time.perf_counter()) - start < long:
                send(i)
                latencies.append((time.perf_counter() - sent) * 1000)

        in_threads(in_flight, work)
        return time.perf_counter() - start

    load(min(1.0, seconds))
    begin()
    before = time.process_time()
    took = load(seconds)
    return latencies, took, (time.process_time() - before) / took / (os.cpu_count() or 1)


def shared(count: int, threads: int, send: Callable[[int, int], object]) -> None:
    """`send(thread, i)` for each i below `count`, by so many threads."""
    in_threads(threads, lambda thread: [send(thread, i) for i in range(thread, count, threads)] and None)


def say_create(in_flight: int, seconds: float, send: Callable[[int], object]) -> None:
    latencies, took, share = closed_loop(in_flight, seconds, send)
    say(
        "create", in_flight=in_flight, per_second=len(latencies) / took, p50_ms=percentile(latencies, 0.5),
        p99_ms=percentile(latencies, 0.99), cpu_load=share,
    )  # fmt: skip


def say_burst(due_s: float, starts: Sequence[float]) -> None:
    late = [(start - due_s) * 1000 for start in starts]
    say(
        "burst", due_at_once=len(late), lateness_p50_ms=percentile(late, 0.5), lateness_p99_ms=percentile(late, 0.99),
        last_start_ms=max(late),
    )  # fmt: skip
