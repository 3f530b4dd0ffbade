"""A headless Chromium on a pipe: enough of its protocol to load a page, move the pointer and ask the page questions."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
_PATIENCE = 60

_START = """
import fcntl, os, sys
high = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3]]
os.dup2(high[0], 3)
os.dup2(high[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One tab. The browser reads commands from its descriptor 3 and writes to 4, each message ended by a zero byte."""

    def __init__(self, width: int = 1400, height: int = 1000) -> None:
        assert CHROMIUM is not None
        self._profile = tempfile.mkdtemp(prefix="eas-chromium-")
        to_read, self._out = os.pipe()
        self._in, to_write = os.pipe()
        browser = [CHROMIUM, *FLAGS, f"--window-size={width},{height}", f"--user-data-dir={self._profile}"]
        # Another Python gives the pipes their numbers: a function between fork and exec is not safe with threads.
        command = [sys.executable, "-S", "-c", _START, str(to_read), str(to_write), *browser]
        self.process = subprocess.Popen(command, pass_fds=(to_read, to_write), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self._pending, self._number = b"", 0
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = ""
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a command; events that come before it are kept."""
        self._number += 1
        number, message = self._number, {"id": self._number, "method": method, "params": params}
        if getattr(self, "_session", ""):
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                return dict(answer["result"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._pending:
            ready, _, _ = select.select([self._in], [], [], _PATIENCE)
            assert ready, f"the browser has said nothing for {_PATIENCE} s"
            more = os.read(self._in, 1 << 16)
            assert more, "the browser has ended"
            self._pending += more
        first, self._pending = self._pending.split(b"\0", 1)
        message: dict[str, Any] = json.loads(first)
        if "method" in message:
            self.events.append(message)
        return message

    def load(self, path: Path, fragment: str = "") -> None:
        """Show a file, once all of it has been read."""
        self.events.clear()
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url=path.as_uri() + (f"#{fragment}" if fragment else ""))
        while not any(e["method"] == "Page.loadEventFired" for e in self.events) or self.ask("document.readyState") != "complete" or self.ask("location.protocol") != "file:":
            self._next()

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def complaints(self) -> list[str]:
        """What the page has written to the console, and errors of scripts, of style and of policies."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(e["params"])[:500] for e in self.events if e["method"] in kinds]

    def requests(self) -> list[str]:
        """Addresses that the page has asked for, itself left out."""
        urls = [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [u for u in urls if not u.startswith(("file:", "about:", "data:"))]

    def point_at(self, selector: str) -> None:
        """Move the pointer to the middle of an element."""
        x, y = self.ask(f"(e => {{ e.scrollIntoView({{block: 'center', behavior: 'instant'}}); const r = e.getBoundingClientRect(); return [r.left + 60, r.top + r.height / 2]; }})(document.querySelector({json.dumps(selector)}))")
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self._spot = (x, y)

    def click(self, selector: str) -> None:
        self.point_at(selector)
        x, y = self._spot
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(20)
        os.close(self._out)
        os.close(self._in)
        shutil.rmtree(self._profile, ignore_errors=True)
