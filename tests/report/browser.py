"""A headless Chromium of the test's own, spoken to through its DevTools pipe: no port, no network, no driver program.

`need_chromium()` skips where there is none; `DISPATCHER_REQUIRE_CHROMIUM=1` makes that a failure.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--disable-background-networking",
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def need_chromium() -> str:
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        if os.environ.get("DISPATCHER_REQUIRE_CHROMIUM") == "1":
            pytest.fail("there is no Chromium here, and DISPATCHER_REQUIRE_CHROMIUM is set")
        pytest.skip("needs Chromium")
    return found


class Page:
    """One tab. `problems` collects what a person would see in the console: errors, warnings, blocked requests."""

    def __init__(self, send: int, receive: int) -> None:
        self._send = send
        self._receive = receive
        self._rest = b""
        self._last = 0
        self.session: str | None = None
        self.problems: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def wait_for(self, event: str) -> None:
        while (message := self._next()).get("method") != event:
            self._note(message)

    def open(self, file: Path, *, width: int, dark: bool = False, scripts: bool = True) -> None:
        """Load a file on a screen of this width; returns when it is loaded."""
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=file.as_uri())
        self.wait_for("Page.loadEventFired")

    def js(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self, file: Path, *, whole: bool = True) -> None:
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(shot["data"]))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            read = os.read(self._receive, 1 << 20)
            assert read, "Chromium has gone"
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found

    def _note(self, message: dict[str, Any]) -> None:
        method, data = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown" or (method == "Runtime.consoleAPICalled" and data["type"] != "log"):
            self.problems.append(json.dumps(data))
        elif method == "Log.entryAdded":
            self.problems.append(data["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(data["request"]["url"])


def _pipe() -> tuple[int, int]:
    """Both ends above 9: Chromium wants them on 3 and 4, and neither may be in the way of the other."""
    ends = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return high[0], high[1]


@contextmanager
def chromium() -> Iterator[Page]:
    """Starts Chromium, gives a tab, and ends it with all its children."""
    (to_read, send), (receive, to_write) = _pipe(), _pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        words = [need_chromium(), *OPTIONS, f"--user-data-dir={profile}"]
        silent = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (0, 1, 2)]
        pipes = [(os.POSIX_SPAWN_DUP2, to_read, 3), (os.POSIX_SPAWN_DUP2, to_write, 4)]
        environment = {**os.environ, "HOME": profile, "XDG_CONFIG_HOME": profile}
        process = os.posix_spawn(words[0], words, environment, file_actions=[*silent, *pipes], setsid=True)
        os.close(to_read)
        os.close(to_write)
        try:
            yield Page(send, receive)
        finally:
            os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            os.close(send)
            os.close(receive)
