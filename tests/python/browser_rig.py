"""Controls a headless Chromium over its DevTools pipe, for tests of pages: mouse, keys, visible text."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_QUIET = [
    "--headless=new",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--no-first-run",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-extensions",
    "--mute-audio",
    "--hide-scrollbars",
    "--metrics-recording-only",
    "--password-store=basic",
    "--use-mock-keychain",
]
# Code and number of each key that types no letter.
_KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


def found() -> str | None:
    """Returns the path of the browser, or None if none is installed."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


class Browser:
    """A browser process. A thread reads its messages and separates replies from events."""

    def __init__(self, folder: Path, *flags: str) -> None:
        down, up = os.pipe(), os.pipe()
        wanted = [
            f"--user-data-dir={folder}",
            *_QUIET,
            *flags,
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
            "about:blank",
        ]

        # The browser reads descriptor 3 and writes descriptor 4. The pipes may already have these numbers, so they are moved
        # first.
        line = 'exec 8<&"$1" 9>&"$2"; shift 2; exec 3<&8 4>&9 8<&- 9>&-; exec "$@"'
        command = ["bash", "-c", line, "browser", str(down[0]), str(up[1]), str(found()), *wanted]
        env = os.environ | {"HOME": str(folder)}
        self.process = subprocess.Popen(
            command, pass_fds=(down[0], up[1]), env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(down[0])
        os.close(up[1])
        self._out, self._in = os.fdopen(down[1], "wb", buffering=0), os.fdopen(up[0], "rb")
        self._changed, self._number = threading.Condition(), 0
        self._replies: dict[int, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        data = b""
        while piece := self._in.read1(1 << 16):  # type: ignore[attr-defined]
            *whole, data = (data + piece).split(b"\0")
            with self._changed:
                for words in map(json.loads, whole):
                    if "id" in words:
                        self._replies[words["id"]] = words
                    else:
                        self.events.append(words)
                self._changed.notify_all()

    def ask(self, method: str, session: str | None = None, seconds: float = 120.0, **params: Any) -> dict[str, Any]:
        """Sends a command and returns its result."""
        with self._changed:
            self._number += 1
            number = self._number
            told = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
            self._out.write(json.dumps(told).encode() + b"\0")
            assert self._changed.wait_for(lambda: number in self._replies, seconds), f"{method}: no answer"
            reply = self._replies.pop(number)
        assert "error" not in reply, f"{method}: {reply['error']}"
        found: dict[str, Any] = reply["result"]
        return found

    def page(self, width: int = 1000, height: int = 900, phone: bool = False) -> Page:
        """Opens a new tab in a separate browser context."""
        context = self.ask("Target.createBrowserContext")["browserContextId"]
        target = self.ask("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, session, context, width, height, phone)

    def close(self) -> None:
        """Ends the browser process."""
        with contextlib.suppress(AssertionError, OSError):
            self.ask("Browser.close", seconds=5.0)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        self.process.kill()
        self.process.wait()
        self._reader.join(5)
        for file in (self._out, self._in):
            with contextlib.suppress(OSError):
                file.close()


class Page:
    """A tab: user input, visible text, network requests and console messages."""

    def __init__(self, browser: Browser, session: str, context: str, width: int, height: int, phone: bool) -> None:
        self.browser, self._session, self.context, self.phone = browser, session, context, phone
        for part in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{part}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 2 if phone else 1, "mobile": phone}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        if phone:
            self.ask("Emulation.setTouchEmulationEnabled", enabled=True)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends a command of the protocol to this tab."""
        return self.browser.ask(method, self._session, **params)

    def events(self, method: str) -> list[dict[str, Any]]:
        """Returns the events of this name received so far."""
        return [e["params"] for e in self.browser.events if e.get("sessionId") == self._session and e["method"] == method]

    def go(self, address: str) -> None:
        """Navigates to an address and returns after the page has loaded."""
        before = len(self.events("Page.loadEventFired"))
        said = self.ask("Page.navigate", url=address)
        assert not said.get("errorText"), said
        end = time.monotonic() + 120
        while len(self.events("Page.loadEventFired")) == before:
            assert time.monotonic() < end, f"{address} does not load"
            time.sleep(0.01)

    def value(self, script: str) -> Any:
        """Returns the value of a JavaScript expression in the page."""
        said = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in said, said
        return said["result"].get("value")

    def text(self, selector: str = "body") -> str:
        """Returns the visible text of an element."""
        return str(self.value(f"document.querySelector({json.dumps(selector)}).innerText"))

    def until(self, script: str, seconds: float = 120.0) -> Any:
        """Waits until a JavaScript expression is true and returns its value."""
        end = time.monotonic() + seconds
        while not (value := self.value(script)):
            assert time.monotonic() < end, f"{script} is not true in time; the page shows:  {self.text()}"
            time.sleep(0.02)
        return value

    def reads(self, words: str, selector: str = "body", seconds: float = 120.0) -> None:
        """Waits until the visible text contains these words."""
        self.until(f"document.querySelector({json.dumps(selector)}).innerText.includes({json.dumps(words)})", seconds)

    # User input

    def box(self, selector: str) -> tuple[float, float, float, float]:
        """Scrolls an element into view and returns its left, top, width and height in the window."""
        self.value(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
        self.value(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))"
        )  # waits until scrolling has ended
        script = "(() => { const b = document.querySelector(%s).getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })()"
        left, top, width, height = self.value(script % json.dumps(selector))
        return left, top, width, height

    def _mouse(self, kind: str, x: float, y: float, down: bool) -> None:
        button = "left" if kind != "mouseMoved" else "none"
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=int(down), clickCount=1)

    def _touch(self, kind: str, *places: tuple[float, float]) -> None:
        self.ask("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": x, "y": y} for x, y in places])

    def click(self, selector: str) -> None:
        """Clicks or taps the middle of an element."""
        left, top, width, height = self.box(selector)
        x, y = left + width / 2, top + height / 2
        if self.phone:
            self._touch("touchStart", (x, y))
            self._touch("touchEnd")
            return
        self._mouse("mousePressed", x, y, True)
        self._mouse("mouseReleased", x, y, False)

    def draw(self, selector: str, line: list[tuple[float, float]]) -> None:
        """Draws a line through these points (fractions of width and height) by mouse or finger."""
        left, top, width, height = self.box(selector)
        places = [(left + x * width, top + y * height) for x, y in line]
        if self.phone:
            self._touch("touchStart", places[0])
            for place in places[1:]:
                self._touch("touchMove", place)
            self._touch("touchEnd")
            return
        self._mouse("mouseMoved", *places[0], False)
        self._mouse("mousePressed", *places[0], True)
        for place in places[1:]:
            self._mouse("mouseMoved", *place, True)
        self._mouse("mouseReleased", *places[-1], False)

    def press(self, key: str, times: int = 1, shift: bool = False) -> None:
        """Presses a key."""
        code = {" ": "Space"}.get(key, key)
        told = {"key": key, "code": code, "windowsVirtualKeyCode": _KEYS[key], "modifiers": 8 if shift else 0}
        typed = {"Enter": "\r", " ": " "}.get(key)
        for _ in range(times):
            self.ask("Input.dispatchKeyEvent", type="keyDown", **told, **({"text": typed} if typed else {}))
            self.ask("Input.dispatchKeyEvent", type="keyUp", **told)

    def type(self, selector: str, text: str) -> None:
        """Replaces the text of a field."""
        self.value(f"document.querySelector({json.dumps(selector)}).select()")
        self.ask("Input.insertText", text=text)

    def picture(self, path: Path) -> None:
        """Saves the whole page as a PNG."""
        said = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(said["data"]))

    # Requests and messages of the page

    def hosts(self) -> set[str]:
        """Returns the scheme, host and port of each request, except for requests of data: addresses."""
        asked = (e["request"]["url"] for e in self.events("Network.requestWillBeSent"))
        return {"/".join(url.split("/")[:3]) for url in asked if not url.startswith("data:")}

    def complaints(self) -> list[str]:
        """Returns the page's errors and warnings, which come from the console, from scripts and from the content security
        policy.
        """
        said = [e["entry"]["text"] for e in self.events("Log.entryAdded") if e["entry"]["level"] in ("error", "warning")]
        said += [
            str(e["args"]) for e in self.events("Runtime.consoleAPICalled") if e["type"] in ("error", "warning", "assert")
        ]
        return said + [str(e["exceptionDetails"]) for e in self.events("Runtime.exceptionThrown")]


@contextmanager
def browser(*flags: str) -> Iterator[Browser]:
    """Starts a browser with a temporary profile."""
    with tempfile.TemporaryDirectory(prefix="heliograph-browser-", ignore_cleanup_errors=True) as folder:
        made = Browser(Path(folder), *flags)
        try:
            yield made
        finally:
            made.close()
