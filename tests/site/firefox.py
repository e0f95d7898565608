"""An installed Firefox, driven by WebDriver BiDi, which it speaks by itself: a page, its scripts,
and how it looks.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TIME_S = 300
# Letters as their outlines are: hints move them to whole pixels, by what other letters a font has.
FONTS = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>
<include ignore_missing="yes">/etc/fonts/fonts.conf</include>
<match target="pattern"><edit name="hinting" mode="assign"><bool>false</bool></edit></match>
<match target="font"><edit name="hinting" mode="assign"><bool>false</bool></edit></match></fontconfig>"""


class Page:
    """A page of Firefox, with those of Playwright's methods that the tests of both browsers use."""

    def __init__(self, address: str) -> None:
        from websocket import create_connection

        self.socket = create_connection(f"{address}/session", timeout=TIME_S, suppress_origin=True)
        self.asked = 0
        self._ask("session.new", capabilities={})
        self.context = self._ask("browsingContext.getTree")["contexts"][0]["context"]

    def _ask(self, method: str, **parameters: Any) -> Any:
        self.asked += 1
        self.socket.send(json.dumps({"id": self.asked, "method": method, "params": parameters}))
        while (answer := json.loads(self.socket.recv())).get("id") != self.asked:  # events
            pass
        if answer["type"] == "error":
            raise RuntimeError(f"{method}: {answer['message']}")
        return answer["result"]

    def goto(self, url: str) -> None:
        self._ask("browsingContext.navigate", context=self.context, url=url, wait="complete")

    def set_viewport_size(self, size: dict[str, int]) -> None:
        self._ask("browsingContext.setViewport", context=self.context, viewport=size)

    def evaluate(self, function: str, argument: Any = None) -> Any:
        """Return what a function of JavaScript returns for an argument."""
        code = f"(async () => JSON.stringify(await ({function})({json.dumps(argument)}) ?? null))()"
        answer = self._ask(
            "script.evaluate", expression=code, target={"context": self.context}, awaitPromise=True
        )
        if answer["type"] == "exception":
            raise RuntimeError(answer["exceptionDetails"]["text"])
        return json.loads(answer["result"]["value"])

    def screenshot(self, *, full_page: bool = False) -> bytes:
        """Return the page as a PNG."""
        origin = "document" if full_page else "viewport"
        return b64decode(
            self._ask("browsingContext.captureScreenshot", context=self.context, origin=origin)[
                "data"
            ]
        )


@contextmanager
def opened(program: str) -> Iterator[Page]:
    """Start Firefox without a window, and end it."""
    with tempfile.TemporaryDirectory(prefix="firefox-", ignore_cleanup_errors=True) as profile:
        (fonts := Path(profile) / "fonts.conf").write_text(FONTS, encoding="utf8")
        environment = os.environ | {"FONTCONFIG_FILE": str(fonts)}
        command = [
            program,
            "--headless",
            "--no-remote",
            "--profile",
            profile,
            "--remote-debugging-port",
            "0",
        ]
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, **pipes, text=True, env=environment) as process:
            assert process.stderr
            try:
                said = next(line for line in process.stderr if "BiDi listening" in line)
                address = re.search(r"ws://\S+", said)
                assert address
                page = Page(address[0])
                yield page
                page.socket.close()
            finally:
                process.terminate()
                process.stderr.close()
