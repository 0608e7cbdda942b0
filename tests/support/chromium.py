"""A real Chromium, driven from a thread of its own so that tests may use the ORM.

Playwright runs an event loop in the thread that starts it, and Django refuses its ORM
there. Nothing outside this machine can be reached: no other name resolves.
"""

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

Told = TypeVar("Told")
DESK: Final = {"width": 1280, "height": 900}
PHONE: Final = {"width": 390, "height": 844}
PATIENCE_MS: Final = 15_000
ARGUMENTS: Final = (
    *("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"),
    *("--no-first-run", "--disable-background-networking", "--disable-sync"),
    "--disable-component-update",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)


def executable() -> str:
    """Return the browser's path; raise with what to do where there is none."""
    found = os.environ.get("PM_TEST_CHROMIUM") or shutil.which("chromium")
    if not found:
        raise RuntimeError(
            "No chromium on the PATH. Install it (Debian and Ubuntu: apt install"
            " chromium), or name one in PM_TEST_CHROMIUM."
        )
    return found


@dataclass
class Tab:
    """One page; what it asked for and complained of is kept."""

    page: Page
    thread: ThreadPoolExecutor
    base: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def do(self, step: Callable[[Page], Told]) -> Told:
        """Run one step in the browser's thread, and return what it returns."""
        return self.thread.submit(step, self.page).result(timeout=60)

    def open(self, path: str) -> None:
        """Go to a page of the server."""
        self.do(lambda page: page.goto(self.base + path))

    @property
    def text(self) -> str:
        """Return what a person can read on the page."""
        return self.do(lambda page: page.inner_text("body"))

    @property
    def outside(self) -> list[str]:
        """Return the addresses outside the server that were asked for."""
        own = (self.base, "data:", "about:", "blob:")
        return [url for url in self.requests if not url.startswith(own)]


class Chromium:
    """One browser for a whole run; each tab has cookies of its own."""

    def __init__(self) -> None:
        """Start it."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="chromium")
        self._playwright, self._browser = self._thread.submit(_start).result(timeout=60)
        self._tabs: list[Tab] = []

    def tab(
        self, base: str, *, dark: bool = False, cookies: Any = (), **view: int
    ) -> Tab:
        """Open a page with a window of its own."""

        def made() -> Page:
            context = self._browser.new_context(
                viewport=view or DESK,  # type: ignore[arg-type]
                color_scheme="dark" if dark else "light",
            )
            context.set_default_timeout(PATIENCE_MS)
            if cookies:
                context.add_cookies(cookies)
            return context.new_page()

        page: Page = self._thread.submit(made).result(timeout=60)
        tab = Tab(page, self._thread, base)

        def asked(request: Request) -> None:
            tab.requests.append(request.url)

        def complained(message: ConsoleMessage) -> None:
            if message.type == "error":
                tab.complaints.append(message.text)

        tab.do(lambda page: page.on("request", asked))
        tab.do(lambda page: page.on("console", complained))
        tab.do(
            lambda page: page.on("pageerror", lambda e: tab.complaints.append(str(e)))
        )
        self._tabs.append(tab)
        return tab

    def close_tabs(self) -> None:
        """Close what a test opened."""
        for tab in self._tabs:
            tab.do(lambda page: page.context.close())
        self._tabs.clear()

    def end(self) -> None:
        """End the browser and its thread."""
        self._thread.submit(self._browser.close).result(timeout=60)
        self._thread.submit(self._playwright.stop).result(timeout=60)
        self._thread.shutdown()


def _start() -> tuple[Any, Browser]:
    playwright = sync_playwright().start()
    browser = playwright.chromium.launch(
        executable_path=executable(), args=list(ARGUMENTS)
    )
    return playwright, browser
