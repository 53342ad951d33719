"""A headless Chromium, driven over its debugging pipe: needs nothing but Python and the browser."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

TIMEOUT = 60  # seconds for any one answer: only a browser that hangs reaches it


def find_browser():
    names = [os.environ["LACONIC_BROWSER"]] if os.environ.get("LACONIC_BROWSER") else [
        "chromium", "chromium-browser", "google-chrome"]
    return next((path for path in map(shutil.which, names) if path), None)


class Browser:
    """One page. `complaints` gathers what it says on its console, its exceptions, and everything it tried to fetch."""

    def __init__(self, path):
        self.profile = tempfile.mkdtemp(prefix="laconic_browser_")
        from_us, self.to_browser = os.pipe()
        self.from_browser, from_browser = os.pipe()
        # The browser reads file descriptor 3 and writes 4; the shell puts ours there.
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{from_us} 4>&{from_browser}', "sh", path, "--headless", "--no-sandbox",
             "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run", "--remote-debugging-pipe",
             f"--user-data-dir={self.profile}", "about:blank"],
            pass_fds=(from_us, from_browser), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(from_us)
        os.close(from_browser)
        self.numbers = itertools.count(1)
        self.buffer = b""
        self.session = None
        self.complaints = []
        self.requests = []
        pages = self.call("Target.getTargets")["targetInfos"]
        target = next(page["targetId"] for page in pages if page["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, name, **parameters):
        number = next(self.numbers)
        message = {"id": number, "method": name, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.next_message()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{name}: {answer['error']}")
                return answer["result"]

    def wait_for(self, event):
        while self.next_message().get("method") != event:
            pass

    def next_message(self):
        end = time.monotonic() + TIMEOUT
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.from_browser], [], [], max(0.0, end - time.monotonic()))
            piece = os.read(self.from_browser, 1 << 20) if ready else b""
            if not piece:
                raise RuntimeError("the browser ended" if ready else f"the browser said nothing for {TIMEOUT} s")
            self.buffer += piece
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        self.note(message.get("method"), message.get("params", {}))
        return message

    def note(self, event, parameters):
        if event == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(parameters["exceptionDetails"])[:500])
        elif event == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(parameters["args"])[:500])
        elif event == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(parameters["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def show(self, address, width, height, scheme, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if phone else 1,
                  mobile=phone)
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=address)
        self.wait_for("Page.loadEventFired")

    def run(self, expression):
        """The value of a JavaScript expression; of a promise, what it becomes."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression[:200]}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def screenshot(self, path, whole=True):
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(picture["data"]))
