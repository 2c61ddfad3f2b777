"""A headless Chromium over the DevTools protocol: open a file, evaluate, press keys, look at errors.

Needs Debian's chromium-headless-shell (or any Chromium in $CHROMIUM) and python3-websocket.
"""

import base64
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request

import websocket


class PageError(Exception):
    """The page threw, or did not get ready."""


class Browser:
    def __init__(self):
        program = (
            os.environ.get("CHROMIUM")
            or shutil.which("chromium-headless-shell")
            or shutil.which("chromium")
        )
        if not program:
            raise PageError("no Chromium: install chromium-headless-shell or name one in $CHROMIUM")
        self.profile = tempfile.TemporaryDirectory(prefix="sftbench-page-", ignore_cleanup_errors=True)
        self.process = subprocess.Popen(
            [
                program,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--remote-debugging-port=0",
                "--remote-allow-origins=*",
                f"--user-data-dir={self.profile.name}",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            self.socket = websocket.create_connection(self._page_address(), timeout=120)
        except BaseException:
            self._end()
            raise
        self.number = 0
        self.errors = []  # what the console got as error or warning, and what was thrown
        self.requests = []  # addresses that the page asked for
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        self._end()

    def _end(self):
        # Debian's program is a script that waits for the browser: the signal has to reach its whole session.
        os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait()
        self.profile.cleanup()

    def _page_address(self):
        port_file = pathlib.Path(self.profile.name) / "DevToolsActivePort"
        for _ in range(300):
            if self.process.poll() is not None:
                raise PageError(f"Chromium ended with status {self.process.returncode}")
            if port_file.exists() and port_file.read_text().count("\n"):
                port = port_file.read_text().split("\n")[0]
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=10) as answer:
                    pages = [target for target in json.load(answer) if target["type"] == "page"]
                if pages:
                    return pages[0]["webSocketDebuggerUrl"]
            time.sleep(0.1)
        raise PageError("Chromium did not answer within 30 s")

    def call(self, method, **parameters):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv())
            self._note(message)
            if message.get("id") == self.number:
                if "error" in message:
                    raise PageError(f"{method}: {message['error']['message']}")
                return message["result"]

    def _note(self, message):
        event, details = message.get("method"), message.get("params", {})
        if event == "Runtime.exceptionThrown":
            thrown = details["exceptionDetails"]
            self.errors.append(thrown.get("exception", {}).get("description", thrown["text"]))
        elif event == "Runtime.consoleAPICalled" and details["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(a.get("value", a.get("description"))) for a in details["args"]))
        elif event == "Log.entryAdded" and details["entry"]["level"] in ("error", "warning"):
            self.errors.append(details["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])

    def evaluate(self, expression):
        """The value of a JavaScript expression; promises are waited for."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            thrown = result["exceptionDetails"]
            raise PageError(thrown.get("exception", {}).get("description", thrown["text"]))
        return result["result"].get("value")

    def open(self, path, width=1280, height=900, dark=False, within_s=60):
        """Opens a report and waits until it has drawn itself; returns how long that took, in seconds."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        begin = time.monotonic()
        self.call("Page.navigate", url=pathlib.Path(path).absolute().as_uri())
        while time.monotonic() - begin < within_s:
            if self.evaluate("document.documentElement?.dataset.ready ?? ''") == "true":
                return time.monotonic() - begin
            if self.errors:
                raise PageError("the page did not get ready: " + "; ".join(self.errors))
            time.sleep(0.02)
        raise PageError(f"the page was not ready within {within_s} s")

    def key(self, name):
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if name == "Enter" and kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=" " if name == "Space" else name,
                code=name,
                windowsVirtualKeyCode=KEYS[name],
                **text,
            )

    def screenshot(self, path, whole=True):
        image = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        pathlib.Path(path).write_bytes(base64.b64decode(image["data"]))


KEYS = {
    "Tab": 9,
    "Enter": 13,
    "Escape": 27,
    "Space": 32,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
}
