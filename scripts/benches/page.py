"""The page in the system's Chromium, over three nodes; it shares the machine with them.

`page-paint`: first contentful paint of /ui/ in contexts that have nothing cached. `page-size`: all files of it, each
compressed as it is served. `page-change`: from sending a create or a pause to the leader until a page at a follower
shows it, by a MutationObserver. `page-list`: a list of many jobs, from its address to its first rows, and scrolled
through: `longest_task_ms` is the page's longest task in Chromium's trace meanwhile, `frame_max_ms` the longest time
between two frames. `page-output`: a run prints at a steady rate while its page is open; keys are pressed meanwhile:
`key_p99_ms` is from the key to the frame after it, `heap_mib` and `anonymous_mib` the page's JavaScript heap and its
process at their largest. `page-creates`: creates with 256 in flight, alternately without a page and with ten pages of
the list of jobs open, spread over the nodes, in a browser that yields to them; `share` is the median with them over
that without. Ten browsers are on other machines as a rule: `replayed_share` is with what ten pages ask, and no browser.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

import aiohttp
from playwright.sync_api import Browser, CDPSession, Page

from raftsched.ui import files
from scripts.benches.create import single_rate
from scripts.benches.figures import emit, note, percentile
from scripts.benches.load import HANDLER, create_all
from scripts.benches.machine import Load
from scripts.benches.nodes import anonymous_kib, wait_caught_up
from tests.support.browser import HEIGHT, WIDTHS, chromium, executable
from tests.support.cluster import Cluster

PARTS = ("paint", "size", "change", "list", "output", "creates")
PAINTS = 10
CHANGES = 100
JOBS = 100_000
MIB_PER_S = 20
OUTPUT_S = 20.0
PAGES = 10
IN_FLIGHT = 256
ROUNDS = 3
SECONDS = 5.0
Run = Callable[[Coroutine[Any, Any, Any]], Any]
CATEGORIES = ["devtools.timeline", "disabled-by-default-devtools.timeline", "toplevel", "blink.user_timing"]

# Both run before the page's own scripts.
_FIRST_ROW = r"""new MutationObserver((_, observer) => {
  if (/job-\d{7}/.test(document.querySelector("main")?.textContent)) {
    requestAnimationFrame(() => setTimeout(() => { window.firstRowMs ??= performance.now(); }));
    observer.disconnect();
  }
}).observe(document, {childList: true, subtree: true, characterData: true})"""
_KEYS = """window.keys = [];
addEventListener("keydown", (event) => {
  const at = event.timeStamp;
  requestAnimationFrame(() => setTimeout(() => keys.push(performance.now() - at)));
}, {capture: true})"""
_SEEN = """(wanted) => new Promise((resolve) => {
  const main = document.querySelector("main");
  const look = () => main.textContent.includes(wanted) && (resolve(Date.now()), true);
  if (look()) return;
  const observer = new MutationObserver(() => { if (look()) observer.disconnect(); });
  observer.observe(main, {childList: true, subtree: true, characterData: true});
})"""
_FRAMES = """() => { window.frames_ms = []; let last = performance.now();
  const step = (now) => { frames_ms.push(now - last); last = now; requestAnimationFrame(step); };
  requestAnimationFrame(step); }"""


def bench_page(cluster: Cluster, loop: Run, parts: Sequence[str], jobs: int, seconds: float) -> bool:
    """False: there is no browser. `loop` runs a coroutine."""
    if executable() is None:
        note("scripts/bench page needs a browser: apt-get install chromium-headless-shell")
        return False
    # While a browser is driven this thread has an event loop.
    with ThreadPoolExecutor(1) as threads:

        def run(work: Coroutine[Any, Any, Any]) -> Any:
            return threads.submit(loop, work).result()

        for part in parts:
            note(f"{part} ...")
            with chromium(calm=part == "creates") as browser:
                measures: dict[str, Callable[[], None]] = {
                    "paint": lambda browser=browser: paints(cluster, browser),
                    "size": sizes,
                    "change": lambda browser=browser: changes(cluster, browser),
                    "list": lambda browser=browser: long_list(cluster, browser, run, jobs),
                    "output": lambda browser=browser: live_output(cluster, browser),
                    "creates": lambda browser=browser: creates(cluster, browser, run, seconds),
                }
                measures[part]()
    return True


def open_page(browser: Browser, url: str, *scripts: str) -> Page:
    context = browser.new_context(viewport={"width": WIDTHS[-1], "height": HEIGHT})
    for script in scripts:
        context.add_init_script(script)
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.goto(url)
    page.locator("h1").first.wait_for()
    return page


def paints(cluster: Cluster, browser: Browser) -> None:
    found = []
    open_page(browser, f"{cluster.nodes[0].url}/ui/").context.close()  # the browser's own first time
    for _ in range(PAINTS):
        page = open_page(browser, f"{cluster.nodes[0].url}/ui/")
        page.wait_for_timeout(500)
        found.append(page.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        page.context.close()
    emit("page-paint", p50_ms=median(found), max_ms=max(found))


def sizes() -> None:
    served = files.load().all()
    sums = {coding: sum(len(file.encoded(coding)) for file in served) / 1000 for coding in ("br", "gzip")}
    emit("page-size", files=len(served), br_kb=sums["br"], gzip_kb=sums["gzip"])


def changes(cluster: Cluster, browser: Browser) -> None:
    """Half are jobs that appear in the list, half pauses and resumes that a job's page shows."""
    leader, follower = cluster.leader(), cluster.followers()[0]
    found: list[float] = []
    page = open_page(browser, f"{follower.url}/ui/jobs?namespace=changes")

    def change(wanted: str, send: Callable[[], Any]) -> None:
        page.evaluate(f"(wanted) => {{ window.seen = ({_SEEN})(wanted); }}", wanted)
        sent = time.time() * 1000
        send()
        found.append(page.evaluate("() => seen") - sent)

    def create(name: str) -> None:
        body = {"name": name, "namespace": "changes", "trigger": {"manual": True}, "handler": HANDLER}
        assert leader.request("POST", "/v1/jobs", body).status == 201

    for number in range(CHANGES // 2):
        # The list begins with the newest; see that it does, else a job is there and not on the screen.
        change(f"change-{number:03}", lambda name=f"change-{number:03}": create(name))  # type: ignore[misc]
    page.goto(f"{follower.url}/ui/jobs/{leader.get('/v1/namespaces/changes/jobs/change-000')['id']}")
    page.locator("h1").first.wait_for()
    path = "/v1/namespaces/changes/jobs/change-000"
    for number in range(CHANGES - CHANGES // 2):
        text = f"description {number} end"
        change(text, lambda text=text: leader.request("PATCH", path, {"description": text}))  # type: ignore[misc]
    page.context.close()
    emit("page-change", samples=len(found), p50_ms=median(found), p99_ms=percentile(found, 0.99), max_ms=max(found))


def long_list(cluster: Cluster, browser: Browser, run: Run, jobs: int) -> None:
    body = {"namespace": "many", "trigger": {"every": "10h"}, "handler": HANDLER}
    there = [{"name": f"job-{number:07}", "owner": f"owner-{number % 10}", **body} for number in range(jobs)]
    run(create_all(cluster.leader(), there))
    node = cluster.followers()[0]
    wait_caught_up(cluster, node, cluster.leader(), 60)
    first = []
    for _ in range(5):
        page = open_page(browser, f"{node.url}/ui/jobs?namespace=many", _FIRST_ROW)
        page.wait_for_timeout(500)
        while (at := page.evaluate("() => window.firstRowMs ?? null")) is None:
            page.wait_for_timeout(50)
        first.append(at)
        if len(first) < 5:
            page.context.close()
    box = page.locator("main").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, HEIGHT / 2)
    browser.start_tracing(page=page, categories=CATEGORIES)
    page.evaluate(_FRAMES)
    for step in range(150):
        page.mouse.wheel(0, 120 if step < 50 else 1_500)
        page.wait_for_timeout(16)
    page.keyboard.press("End")
    page.wait_for_timeout(1_000)
    page.keyboard.press("Home")
    page.wait_for_timeout(1_000)
    frames = page.evaluate("() => frames_ms")
    tasks = main_tasks_ms(json.loads(browser.stop_tracing()))
    page.context.close()
    emit(
        "page-list",
        jobs=jobs,
        first_rows_p50_ms=median(first),
        first_rows_max_ms=max(first),
        longest_task_ms=max(tasks),
        frame_p99_ms=percentile(frames, 0.99),
        frame_max_ms=max(frames),
        frames=len(frames),
    )


def main_tasks_ms(trace: dict[str, Any]) -> list[float]:
    """Lengths of the tasks on the main thread of the renderer that did most: of the page."""
    names = {
        (event["pid"], event["tid"])
        for event in trace["traceEvents"]
        if event.get("name") == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks: dict[tuple[int, int], list[float]] = {}
    for event in trace["traceEvents"]:
        where = event["pid"], event["tid"]
        if event.get("ph") == "X" and event["name"] in ("RunTask", "ThreadControllerImpl::RunTask") and where in names:
            tasks.setdefault(where, []).append(event["dur"] / 1000)
    return max(tasks.values(), key=sum, default=[float("nan")])


def live_output(cluster: Cluster, browser: Browser) -> None:
    code = (
        "import sys, time\n"
        f"line = 'x' * 119 + '\\n'; many = [f'{{n:09}} {{line}}' for n in range({MIB_PER_S} * 100)]\n"
        f"block = ''.join(many); end = time.time() + {OUTPUT_S}; began = time.time(); sent = 0\n"
        "while time.time() < end:\n"
        "    sys.stdout.write(block); sent += len(block)\n"
        f"    time.sleep(max(0, sent / ({MIB_PER_S} << 20) - (time.time() - began)))\n"
    )
    node = cluster.followers()[0]
    job = {
        "name": "loud",
        "namespace": "output",
        "trigger": {"manual": True},
        "handler": {"exec": [sys.executable, "-c", code]},
    }
    made = node.request("POST", "/v1/jobs", job).json
    run = node.request("POST", f"/v1/jobs/{made['id']}/run", {}).json["id"]
    cluster.wait("the run to run", lambda: (node.find(f"/v1/instances/{run}") or {}).get("state") == "RUNNING")
    page = open_page(browser, f"{node.url}/ui/runs/{run}", _KEYS)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    pids = renderers(browser)
    heap, anonymous, load = 0.0, 0.0, Load()
    while node.get(f"/v1/instances/{run}")["state"] == "RUNNING":
        page.keyboard.press("Shift")
        page.wait_for_timeout(100)
        heap = max(heap, heap_mib(session))
        anonymous = max(anonymous, *(anonymous_kib(pid) / 1024 for pid in pids))
    keys = page.evaluate("() => keys")
    page.context.close()
    emit(
        "page-output",
        asked_mib_per_s=MIB_PER_S,
        key_p50_ms=median(keys),
        key_p99_ms=percentile(keys, 0.99),
        key_max_ms=max(keys),
        heap_mib=heap,
        anonymous_mib=anonymous,
        **load.shares(),
    )


def heap_mib(session: CDPSession) -> float:
    found = {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}
    return float(found["JSHeapUsedSize"]) / (1 << 20)


def renderers(browser: Browser) -> list[int]:
    """The processes of pages: that of the one that is open, and perhaps spare ones, which are small."""
    session = browser.new_browser_cdp_session()
    found = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    return [int(process["id"]) for process in found if process["type"] == "renderer"]


def creates(cluster: Cluster, browser: Browser, run: Run, seconds: float) -> None:
    leader = cluster.leader()
    found: dict[str, list[float]] = {"without": [], "with": [], "replayed": []}
    asked: list[tuple[float, str]] = []
    for _ in range(ROUNDS):
        found["without"].append(run(single_rate(cluster, leader, IN_FLIGHT, seconds))["per_second"])
        pages = [open_page(browser, f"{cluster.nodes[n % 3].url}/ui/jobs") for n in range(PAGES)]
        asked.clear()
        began = time.monotonic()
        pages[0].on("request", lambda request: asked.append((time.monotonic() - began, request.url)))  # noqa: B023
        found["with"].append(run(single_rate(cluster, leader, IN_FLIGHT, seconds))["per_second"])
        pages[0].wait_for_timeout(1)  # what it asked is told
        for page in pages:
            page.context.close()
        paths = [(at, url.removeprefix(cluster.nodes[0].url)) for at, url in asked]
        found["replayed"].append(run(_replayed(cluster, paths, single_rate(cluster, leader, IN_FLIGHT, seconds))))
    emit(
        "page-creates",
        in_flight=IN_FLIGHT,
        pages=PAGES,
        without_per_second=median(found["without"]),
        per_second=median(found["with"]),
        share=median(found["with"]) / median(found["without"]),
        replayed_per_second=median(found["replayed"]),
        replayed_share=median(found["replayed"]) / median(found["without"]),
        requests=len(asked),
    )


async def _replayed(cluster: Cluster, asked: list[tuple[float, str]], load: Coroutine[Any, Any, Any]) -> float:
    """Returns the rate of creates while `PAGES` clients follow the changes and ask what one page asked."""
    async with aiohttp.ClientSession() as session:

        async def follow(url: str) -> None:
            async with session.get(f"{url}/v1/changes") as stream:
                async for _ in stream.content.iter_any():
                    pass

        async def ask(url: str) -> None:
            began = time.monotonic()
            for at, path in asked:
                await asyncio.sleep(max(0.0, began + at - time.monotonic()))
                async with session.get(url + path) as answer:
                    await answer.read()

        urls = [cluster.nodes[n % 3].url for n in range(PAGES)]
        tasks = [asyncio.ensure_future(do(url)) for do in (follow, ask) for url in urls]
        figures = await load
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return float(figures["per_second"])
