"""EXAMPLE, SYNTHETIC: a small router behind HTTP that answers probes; standard library only.

It shows what a router has to do with the probe protocol (deploy/docs/before-a-release.md): check
the signature, decide as on any other request, act on nothing. Its thresholds can be changed while
it runs, which is what a bad release looks like::

    slicewatch probe router-key router.key
    python router.py --port 8900 --key-file router.key
    curl -X PUT http://127.0.0.1:8900/thresholds -d '{"conversational": 0.8}'

A request is scored from its own fields alone: ``completeness`` (0 to 1), and the text for a little
jitter. So every run of every probe has the same score.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ATTRIBUTE, DEFAULT = "language_variety", "default"
THRESHOLD = 0.70
VERSIONS = {"judge": "judge-1", "rubric": "rubric-1", "policy": "policy-1", "router": "example-1"}
FRESH_SECONDS = 300
LARGEST_BODY = 1 << 20
JITTER = 0.01


class ExampleRouter:
    """Decides; the threshold may differ by the value of one attribute."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._thresholds = {DEFAULT: THRESHOLD}
        self._lock = threading.Lock()
        self.probes = 0

    @property
    def thresholds(self) -> dict[str, float]:
        """By the attribute's value; ``default`` is everybody else's."""
        with self._lock:
            return dict(self._thresholds)

    def set_thresholds(self, thresholds: dict[str, float]) -> None:
        """Change those that are named, and keep the others."""
        for value in thresholds.values():
            if not (isinstance(value, int | float) and 0 <= value <= 1):
                raise ValueError("a threshold is a number from 0 to 1")
        with self._lock:
            self._thresholds |= thresholds

    def is_probe(self, body: bytes, timestamp: str, signature: str) -> bool:
        """Whether a request comes from who has the key, and is not an old one."""
        if not timestamp.isdigit() or abs(time.time() - int(timestamp)) > FRESH_SECONDS:
            return False
        signed = hmac.new(self._key.encode(), timestamp.encode() + b"." + body, hashlib.sha256)
        return hmac.compare_digest(signature.encode(), f"v1={signed.hexdigest()}".encode())

    def decide(self, attributes: dict[str, str], request: dict[str, object]) -> dict[str, object]:
        """Route, score and all that led to it; nothing is sent to anybody."""
        with self._lock:
            self.probes += 1
        passed = bool(request.get("evidence", True))
        judged = score(request)
        thresholds = self.thresholds
        threshold = thresholds.get(attributes.get(ATTRIBUTE, DEFAULT), thresholds[DEFAULT])
        served = "auto_serve" if judged >= threshold else "human_review"
        return {
            "route": served if passed else "blocked_by_evidence",
            "judge_score": judged if passed else None,
            "threshold": threshold,
            "evidence_passed": passed,
            "versions": VERSIONS,
        }


def score(request: dict[str, object]) -> float:
    """Between 0 and 1, by the request's own fields; the wording moves it by a hundredth at most."""
    text = str(request.get("text", ""))
    drawn = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") / 2**32
    completeness = float(str(request.get("completeness", 0)))
    return round(min(max(completeness + JITTER * (2 * drawn - 1), 0.0), 1.0), 4)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps the connection
    disable_nagle_algorithm = True  # or every answer waits 40 ms for the client's acknowledgement
    server: Server

    def do_POST(self) -> None:
        """A probe: refused unless it is signed, since this example serves nobody else."""
        body = self._body()
        timestamp = self.headers.get("Slicewatch-Timestamp", "")
        signature = self.headers.get("Slicewatch-Signature", "")
        if not self.server.router.is_probe(body, timestamp, signature):
            self._answer(401, {"error": "not signed as a probe"})
            return
        try:
            sent = json.loads(body)
            self._answer(200, self.server.router.decide(sent["attributes"], sent["request"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            self._answer(400, {"error": "not a probe of protocol 1"})

    def do_PUT(self) -> None:
        """Change thresholds."""
        try:
            self.server.router.set_thresholds(json.loads(self._body()))
            self._answer(200, self.server.router.thresholds)
        except (ValueError, TypeError, AttributeError):
            self._answer(400, {"error": 'send {"VALUE": 0.8}'})

    def do_GET(self) -> None:
        """The thresholds, and how many probes were answered."""
        router = self.server.router
        self._answer(200, {"thresholds": router.thresholds, "probes": router.probes})

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent: requests are nobody's to read in a log."""

    def _body(self) -> bytes:
        length = int(self.headers.get("Content-Length", 0))
        return self.rfile.read(min(length, LARGEST_BODY))

    def _answer(self, status: int, content: dict[str, object]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        if status != HTTPStatus.OK:  # a body that was not read to its end is no next request
            self.send_header("Connection", "close")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    """The router on a port; 0 takes a free one."""

    daemon_threads = True

    def __init__(self, router: ExampleRouter, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.router = router

    @property
    def url(self) -> str:
        """Where probes are sent."""
        return f"http://127.0.0.1:{self.server_address[1]}/probe"


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(description="An example router that answers signed probes.")
    parser.add_argument("--port", type=int, default=8900)
    parser.add_argument(
        "--key-file", type=Path, required=True, help="of slicewatch probe router-key"
    )
    arguments = parser.parse_args()
    server = Server(ExampleRouter(arguments.key_file.read_text().strip()), arguments.port)
    print(f"answers probes at {server.url}", flush=True)  # noqa: T201 - a script
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
