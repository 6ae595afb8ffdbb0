"""A headless Chromium, which tests drive by its DevTools protocol.

`python -m tests.support.obtain.chromium` obtains it once, unless one is on the PATH. Tests only look for it: every
installation happens before them.
"""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import websocket

from tests.support.obtain import debian
from tests.support.obtain.cache import ObtainError, main

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PACKAGES = ("chromium-headless-shell", "fonts-dejavu-core")
ANSWER_TIMEOUT_S = 60
_TELLS_ITS_ADDRESS = re.compile(r"DevTools listening on (ws://\S+)")
_KEYS = {"Enter": ("\r", 13), "Tab": ("", 9), " ": (" ", 32)}
"""The text typed by a key, and the key's number."""


def chromium() -> str:
    """Path of Chromium. Raises ObtainError when there is none."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise ObtainError("no Chromium is on the PATH: `make chromium` installs it as root on Debian; else install it")
    return found


def obtain() -> Path:
    """Path of Chromium; install it if it is missing and this machine can. Raises ObtainError."""
    if not any(map(shutil.which, NAMES)) and debian.can_install():
        debian.install("chromium", *PACKAGES)
    return Path(chromium())


@contextmanager
def running_chromium(profile: Path) -> Iterator["Browser"]:
    """Run a Chromium that finds no host of any network, with its files in that folder."""
    command = [
        chromium(),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--no-first-run",
        "--hide-scrollbars",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--remote-debugging-port=0",
        f"--user-data-dir={profile}",
    ]
    # A separate session: the program on the PATH may be a script, and a Chromium is many processes.
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stderr is not None
        socket = websocket.create_connection(_address(process.stderr), ANSWER_TIMEOUT_S, suppress_origin=True)
        try:
            yield Browser(socket)
        finally:
            socket.close()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stderr is not None:
            # The pipe ends when the last process has ended.
            process.stderr.read()
            process.stderr.close()


def _address(stderr: IO[str]) -> str:
    said = []
    for line in stderr:
        if told := _TELLS_ITS_ADDRESS.search(line):
            return told[1]
        said.append(line)
    raise ObtainError(f"Chromium ended at once: {''.join(said)[-800:]}")


class Browser:
    """A client of the DevTools protocol: `call` returns an answer, and `events` collects what happened meanwhile."""

    def __init__(self, socket: websocket.WebSocket) -> None:
        self._socket = socket
        self._calls = 0
        self.events: list[tuple[str, dict[str, Any]]] = []

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        self._calls += 1
        number = self._calls
        request = {"id": number, "method": method, "params": parameters}
        self._socket.send(json.dumps(request | ({"sessionId": session} if session else {})))
        while (answer := self._next()).get("id") != number:
            pass
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def wait_for(self, method: str) -> None:
        """Wait until the event has happened since `events` were last cleared."""
        deadline_s = time.monotonic() + ANSWER_TIMEOUT_S
        while not any(name == method for name, _ in self.events):
            assert time.monotonic() < deadline_s, f"{method} did not happen"
            self._next()

    def _next(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._socket.recv())
        if "method" in message:
            self.events.append((message["method"], message["params"]))
        return message


class BrowserPage:
    """A page of a file, in a window of that width and with that preferred colour scheme."""

    def __init__(self, browser: Browser, path: Path, width: int, scheme: str) -> None:
        self._browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session: str = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        browser.events.clear()
        self._url = path.resolve().as_uri()
        self._call("Page.navigate", url=self._url)
        browser.wait_for("Page.loadEventFired")

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression. Raises AssertionError if it throws."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until a JavaScript expression is true. Raises AssertionError after ten seconds."""
        turns = f"const turn = () => {condition} || performance.now() > end ? done({condition}) : setTimeout(turn, 10);"
        waited = f"new Promise(done => {{ const end = performance.now() + 10_000; {turns} turn(); }})"
        assert self.ask(waited), f"{condition} did not become true"

    def faults(self) -> list[str]:
        """Errors of scripts, what was written to the console, and requests for anything but the page."""
        self.ask("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
        found = []
        for name, event in self._browser.events:
            if name in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
                found.append(json.dumps(event))
            elif name == "Network.requestWillBeSent" and event["request"]["url"] not in (self._url, "data:,"):
                found.append(event["request"]["url"])
        return found

    def click(self, selector: str) -> None:
        """Click with the mouse, in the middle of the element."""
        place = self.ask(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center', behavior: 'instant'}); const r = e.getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def point(self, selector: str, share: float) -> None:
        """Move the mouse to that share of the element's width, in the middle of its height."""
        place = self.ask(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center', behavior: 'instant'}); const r = e.getBoundingClientRect();"
            f" return [r.x + r.width * {share}, r.y + r.height / 2]; }})()"
        )
        self._call("Input.dispatchMouseEvent", type="mouseMoved", x=place[0], y=place[1])

    def drag(self, selector: str, begin: float, end: float) -> None:
        """Drag the mouse from one share of the element's width to another, in the middle of its height."""
        self.point(selector, begin)
        for kind, share in (("mousePressed", begin), ("mouseReleased", end)):
            x, y = self.ask(
                f"(() => {{ const r = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
                f" return [r.x + r.width * {share}, r.y + r.height / 2]; }})()"
            )
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str) -> None:
        text, number = _KEYS[key]
        typed = {"text": text} if text else {}
        code = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": number}
        self._call("Input.dispatchKeyEvent", type="keyDown", **code, **typed)
        self._call("Input.dispatchKeyEvent", type="keyUp", **code)

    def type(self, text: str) -> None:
        self._call("Input.insertText", text=text)

    def picture(self, first: str = "html", last: str = "html") -> bytes:
        """A PNG as wide as the page, from the top of one element to the end of another."""
        top, bottom, width = self.ask(
            f"[document.querySelector({json.dumps(first)}).getBoundingClientRect().top + scrollY,"
            f" document.querySelector({json.dumps(last)}).getBoundingClientRect().bottom + scrollY,"
            " document.documentElement.clientWidth]"
        )
        clip = {"x": 0, "y": max(0, top - 12), "width": width, "height": bottom - max(0, top - 12) + 12, "scale": 1}
        shot = self._call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **parameters)


if __name__ == "__main__":
    sys.exit(main(obtain))
