"""What the operator says of itself: Prometheus metrics, and whether it lives."""

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, make_wsgi_app

REGISTRY = CollectorRegistry()

APPLY_TO_ENFORCED = Histogram(
    "sluicegate_apply_to_enforced_seconds",
    "From the operator learning of a changed ConnectionQuota to every broker enforcing it",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
    registry=REGISTRY,
)
RECONCILES = Counter("sluicegate_reconcile", "Reconciles by queue and result", ["queue", "result"], registry=REGISTRY)
DRIFT_MENDED = Counter(
    "sluicegate_quota_drift_mended", "Limits that somebody had changed by hand on the brokers", registry=REGISTRY
)
FENCED_AT_ONCE = Counter(
    "sluicegate_brokers_fenced", "Brokers fenced because their container, pod or node was gone", registry=REGISTRY
)
RESTARTS = Counter("sluicegate_node_restarts", "Nodes restarted by rolls", ["reason"], registry=REGISTRY)
QUEUE_DEPTH = Gauge("sluicegate_queue_depth", "Keys that wait or are worked on", ["queue"], registry=REGISTRY)
LEADING = Gauge("sluicegate_leading", "1 while this operator holds the Lease", registry=REGISTRY)


class Liveness:
    """Alive while the event loop turns: `beat` is called from it."""

    STALE_S = 60.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()

    def beat(self) -> None:
        self._last = self._clock()

    @property
    def alive(self) -> bool:
        return self._clock() - self._last < self.STALE_S


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """A scrape is no news."""


class TelemetryServer:
    """/metrics and /healthz in a thread of its own, so that a stuck event loop can be told."""

    def __init__(self, host: str, port: int, liveness: Liveness) -> None:
        metrics = make_wsgi_app(REGISTRY)

        def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            if environ.get("PATH_INFO") == "/healthz":
                status = "200 OK" if liveness.alive else "503 Service Unavailable"
                start_response(status, [("Content-Type", "text/plain")])
                return [b"ok\n" if liveness.alive else b"the event loop is stuck\n"]
            scraped: Iterable[bytes] = metrics(environ, start_response)
            return scraped

        self._server: WSGIServer = make_server(host, port, app, handler_class=_Quiet)
        self._thread = threading.Thread(target=self._server.serve_forever, name="telemetry", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
