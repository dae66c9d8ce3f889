"""A headless Chromium, driven through the DevTools protocol over a pipe: no driver, no port, no package."""

from __future__ import annotations

import base64
import itertools
import json
import os
import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 60.0
"""Seconds until a browser that says nothing counts as broken."""
KEYS = {
    "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Enter": 13, "Escape": 27,
    "Home": 36, "End": 35, "Tab": 9, " ": 32,
}  # fmt: skip
CONTROL = 2


def program() -> str | None:
    """The browser: what ``HROOF_CHROMIUM`` names, else the first one on PATH."""
    named = os.environ.get("HROOF_CHROMIUM")
    return shutil.which(named) if named else next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """A browser process and its pipe."""

    def __init__(self, path: str, folder: Path) -> None:
        flags = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
            "--disable-extensions", "--disable-background-networking", "--disable-component-update",
            "--disable-dev-shm-usage", 
            "--disable-features=IsolateSandboxedIframes", "--force-device-scale-factor=1", "--remote-debugging-pipe",
            f"--user-data-dir={folder}", "about:blank",
        ]  # fmt: skip
        read, self._to = _pipe()
        self._from, write = _pipe()
        # The protocol's pipes are descriptors 3 and 4 of the browser.
        places = [(os.POSIX_SPAWN_DUP2, read, 3), (os.POSIX_SPAWN_DUP2, write, 4)]
        quiet = (
            os.POSIX_SPAWN_OPEN,
            2,
            str(folder / "browser.log"),
            os.O_WRONLY | os.O_CREAT,
            0o600,
        )
        self.pid = os.posix_spawn(path, [path, *flags], os.environ, file_actions=[*places, quiet])
        os.close(read)
        os.close(write)
        self._numbers = itertools.count(1)
        self._answers: dict[int, queue.Queue[dict[str, Any]]] = {}
        self.heard: list[tuple[str | None, str, dict[str, Any]]] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        rest = b""
        while chunk := os.read(self._from, 1 << 16):
            *messages, rest = (rest + chunk).split(b"\0")
            for message in map(json.loads, messages):
                if "id" in message:
                    self._answers[message["id"]].put(message)
                else:
                    what = message["method"], message.get("params", {})
                    self.heard.append((message.get("sessionId"), *what))

    def ask(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        number = next(self._numbers)
        self._answers[number] = queue.Queue()
        message = {"id": number, "method": method, "params": params}
        message |= {"sessionId": session} if session else {}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        answer = self._answers[number].get(timeout=PATIENCE)
        del self._answers[number]
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def close(self) -> None:
        """End the process."""
        self.ask("Browser.close")
        os.waitpid(self.pid, 0)
        os.close(self._to)

    def page(self, width: int = 1400, height: int = 1000) -> Page:
        """A new, empty page."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, target, session, width, height)


def _pipe() -> tuple[int, int]:
    """A pipe whose descriptors are none of those that the browser expects to be something else."""
    import fcntl  # there is none on Windows, where these tests are collected as well

    low = os.pipe()
    high = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 10) for one in low]
    for one in low:
        os.close(one)
    return high[0], high[1]


class Page:
    """One page, and what happened in it.

    Attributes:
        requests: Addresses that it asked for, itself included.
        complaints: Console messages of errors and warnings, and uncaught errors.
    """

    def __init__(
        self, browser: Browser, target: str, session: str, width: int, height: int
    ) -> None:
        self.browser, self.target, self.session = browser, target, session
        for domain in ("Page", "Runtime", "Network", "Log", "DOM"):
            self.ask(f"{domain}.enable")
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command to this page."""
        return self.browser.ask(method, self.session, **params)

    def open(self, address: str) -> Page:
        """Load a page, to the end."""
        before = self._loaded()
        self.ask("Page.navigate", url=address)
        self._wait(lambda: self._loaded() > before, f"{address} was not loaded")
        return self

    def _loaded(self) -> int:
        return sum(1 for _ in self._heard("Page.loadEventFired"))

    def _wait(self, is_done: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_done():
            if time.monotonic() > deadline:
                raise TimeoutError(otherwise)
            time.sleep(0.02)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, script: str) -> None:
        """Wait in the browser until an expression is true."""
        self.run(
            f"new Promise((done) => {{ const look = () => ({script}) ? done() : setTimeout(look, 10); look(); }})"
        )

    def until_file(self, path: Path) -> None:
        """Wait until the browser has written a file; it appears under its name when it is whole."""
        self._wait(path.exists, f"{path.name} was not written")

    def texts(self, selector: str) -> list[str]:
        """The visible text of every element that the selector finds."""
        found: list[str] = self.run(
            f"[...document.querySelectorAll({json.dumps(selector)})]"
            ".filter((one) => one.getClientRects().length).map((one) => one.textContent)"
        )
        return found

    def count(self, selector: str) -> int:
        """How many elements the selector finds."""
        return int(self.run(f"document.querySelectorAll({json.dumps(selector)}).length"))

    def place(self, selector: str) -> tuple[float, float]:
        """The middle of the first element that the selector finds, scrolled into view."""
        found = self.run(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)});"
            "one.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const box = one.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        return found[0], found[1]

    def hover(self, selector: str) -> None:
        """Move the mouse onto an element."""
        x, y = self.place(selector)
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector: str, modifiers: int = 0) -> None:
        """Press and release the mouse on an element."""
        x, y = self.place(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.ask(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1,
                modifiers=modifiers,
            )  # fmt: skip

    def choose(self, selector: str, start: str, inside: str = "") -> None:
        """Click on the first element whose text begins so, or on something inside of it."""
        within = f".querySelector({json.dumps(inside)})" if inside else ""
        self.run(
            f"[...document.querySelectorAll({json.dumps(selector)})]"
            f".find((one) => one.textContent.startsWith({json.dumps(start)})){within}.click()"
        )

    def press(self, *keys: str) -> None:
        """Press keys one after another."""
        for key in keys:
            text = {"text": "\r"} if key == "Enter" else {"text": " "} if key == " " else {}
            code = KEYS[key]
            self.ask(
                "Input.dispatchKeyEvent",
                type="keyDown",
                key=key,
                windowsVirtualKeyCode=code,
                **text,
            )
            self.ask("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.ask("Input.insertText", text=text)

    def media(self, **features: str) -> None:
        """Pretend other wishes of the reader, e.g. ``prefers_color_scheme="dark"``, or ``media="print"``."""
        media = features.pop("media", "")
        wishes = [{"name": k.replace("_", "-"), "value": v} for k, v in features.items()]
        self.ask("Emulation.setEmulatedMedia", media=media, features=wishes)

    def picture(self, path: Path, selector: str | None = None) -> Path:
        """A PNG of the window, or of one element."""
        area: Mapping[str, Any] = {}
        if selector is not None:
            self.place(selector)
            box = self.run(
                f"(() => {{ const b = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
                "return {x: b.x + scrollX, y: b.y + scrollY, width: b.width, height: b.height}; })()"
            )
            area = {"clip": {**box, "scale": 1}, "captureBeyondViewport": True}
        taken = self.ask("Page.captureScreenshot", format="png", **area)
        path.write_bytes(base64.b64decode(taken["data"]))
        return path

    def close(self) -> None:
        """Close the page."""
        self.browser.ask("Target.closeTarget", targetId=self.target)

    def _heard(self, *methods: str) -> Iterator[dict[str, Any]]:
        self.ask("Page.getFrameTree")  # what happened before is heard before the answer
        heard = list(self.browser.heard)
        return (told for page, name, told in heard if page == self.session and name in methods)

    @property
    def requests(self) -> list[str]:
        return [p["request"]["url"] for p in self._heard("Network.requestWillBeSent")]

    @property
    def complaints(self) -> list[str]:
        errors = [str(p["exceptionDetails"]) for p in self._heard("Runtime.exceptionThrown")]
        logged = [str(p["entry"]) for p in self._heard("Log.entryAdded")]
        said = [str(p) for p in self._heard("Runtime.consoleAPICalled")]
        return errors + logged + said


@contextmanager
def started(path: str, folder: Path) -> Iterator[Callable[..., Page]]:
    """A browser for a while; gives a function that makes pages."""
    browser = Browser(path, folder)
    try:
        yield browser.page
    finally:
        browser.close()
