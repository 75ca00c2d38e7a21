"""Chromium for tests and benchmarks: the one of the system, never one that was downloaded. A tab notices what must not
happen: requests to strangers, breaches of the content security policy, errors on the console."""

from __future__ import annotations

import re
import shutil
from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, WebError, expect, sync_playwright

from tests.support.cluster import NodeProcess
from tests.support.patience import patient_ms, wait_until
from tests.support.started import started

# The first one is the engine without what a window needs: a test costs half as much processor time with it.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
MISSING = (
    f"no browser on the PATH ({', '.join(NAMES)}): apt-get install {NAMES[0]}, which ./scripts/test does by itself"
    " when it runs as root"
)
WIDTHS = (360, 800, 1400)
HEIGHT = 900
WAIT_MS = 30_000  # for what must come, where nothing else is at work
_BREACH = "breach of the content security policy"
# Runs before the page's own scripts, and no policy binds it.
_WATCH = f"""addEventListener("securitypolicyviolation", (e) =>
  console.error("{_BREACH}: " + e.effectiveDirective + " " + e.blockedURI + " " + e.sourceFile + ":" + e.lineNumber))"""

Theme = Literal["light", "dark"]


def executable() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def chromium(*flags: str, calm: bool = False) -> Iterator[Browser]:
    """One browser. While it is open no other event loop runs in this thread. `calm`: it gets the processor time that
    nobody else wants, as if it were on another machine."""
    path = executable()
    if path is None:
        raise RuntimeError(MISSING)
    expect.set_options(timeout=patient_ms(WAIT_MS))
    with TemporaryDirectory(prefix="raftsched-browser-") as directory, sync_playwright() as playwright:
        if calm:
            script = Path(directory) / "chromium"
            script.write_text(f'#!/bin/sh\nexec nice -n 19 {path} "$@"\n')
            script.chmod(0o755)
            path = str(script)
        started("browser")
        browser = playwright.chromium.launch(executable_path=path, args=list(flags))
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """One page in a context of its own: no cookie and no storage is shared with another."""

    def __init__(
        self,
        browser: Browser,
        nodes: Sequence[NodeProcess],
        *,
        theme: Theme = "light",
        width: int = WIDTHS[-1],
        motion: Literal["reduce", "no-preference"] = "reduce",
        zone: str = "Europe/Berlin",
    ) -> None:
        self.nodes = list(nodes)
        self.faults: list[str] = []
        self._expected: list[re.Pattern[str]] = []
        self.context = browser.new_context(
            viewport={"width": width, "height": HEIGHT},
            color_scheme=theme,
            reduced_motion=motion,
            locale="en-GB",
            timezone_id=zone,
            permissions=["clipboard-read", "clipboard-write"],
        )
        self.context.set_default_timeout(patient_ms(WAIT_MS))
        self.context.add_init_script(_WATCH)
        self.context.on("request", self._on_request)
        self.context.on("console", self._on_console)
        self.context.on("weberror", self._on_error)
        self.page: Page = self.context.new_page()

    def close(self) -> None:
        self.context.close()

    def expects(self, *patterns: str) -> None:
        """Errors on the console that the test provokes, as "status of 404"; breaches of the policy never are."""
        self._expected += [re.compile(pattern) for pattern in patterns]

    @property
    def unexpected(self) -> list[str]:
        return [
            fault
            for fault in self.faults
            if _BREACH in fault or not any(pattern.search(fault) for pattern in self._expected)
        ]

    def go(self, path: str = "/ui/", node: NodeProcess | None = None) -> Page:
        """Opens a page at a node (the first one) and waits until it shows its heading."""
        self.page.goto((node or self.nodes[0]).url + path)
        expect(self.page.locator("h1").first).to_be_visible()
        return self.page

    def sign_in(self, secret: str, node: NodeProcess | None = None) -> Page:
        page = self.go("/ui/sign-in", node)
        page.get_by_label("Token").fill(secret)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(lambda url: "/sign-in" not in url)
        return page

    def settle(self) -> None:
        """Until nothing says that it is loading."""
        expect(self.page.locator(".loading")).to_have_count(0)

    def wait(self, script: str, *args: Any) -> Any:
        """The result of a function once it is true. Playwright's own wait needs a policy that lets text run."""
        return wait_until(lambda: self.page.evaluate(script, *args), script)

    def call(self, module: str, function: str, *args: Any) -> Any:
        """The result of an exported function of a module, as "core/format.js", in a tab of sources."""
        return self.page.evaluate(
            "async ([path, name, args]) => {"
            ' const app = document.querySelector("script[type=module]").src;'
            " const module = await import(new URL(path, app).href);"
            " return module[name](...args); }",
            [module, function, list(args)],
        )

    def text(self) -> str:
        return self.page.locator("body").inner_text()

    def overflow(self) -> int:
        """Pixels by which the page is wider than the window."""
        found = self.page.evaluate(
            "() => { const root = document.documentElement; return root.scrollWidth - root.clientWidth; }"
        )
        return int(found)

    def shoot(self, path: Path, *, whole: bool = False) -> Path:
        """A picture, as PNG, or small as WebP."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".webp":
            session = self.context.new_cdp_session(self.page)
            answer = session.send(
                "Page.captureScreenshot", {"format": "webp", "quality": 60, "captureBeyondViewport": whole}
            )
            path.write_bytes(b64decode(answer["data"]))
            session.detach()
        else:
            self.page.screenshot(path=path, full_page=whole)
        return path

    def _on_request(self, request: Request) -> None:
        url = request.url
        if not url.startswith(("data:", "blob:")) and not any(url.startswith(f"{n.url}/") for n in self.nodes):
            self.faults.append(f"request to a stranger: {url}")

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            place = message.location
            self.faults.append(f"{message.type} on the console: {message.text} ({place['url']}:{place['lineNumber']})")

    def _on_error(self, error: WebError) -> None:
        self.faults.append(f"uncaught: {error.error.stack or error.error}")
