"""The longest slice of requests at their limits: `.venv/bin/python -m benchmarks.request_limits [API ...]`.

For every array of every API, one request fills it as far as the limits allow: with names that do not exist, and again
with a topic that exists. The figure is processor time of one callback of the event loop. Without arguments the figures
are written to results/request-limits.json, from which docs/reference/request-limits.md is made.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from broker_runtime.apis.call import Api
from broker_runtime.config import broker_settings
from broker_runtime.limits import request_limits
from tests.simulation.measured_node import TOPIC, MeasuredNode, Taken, measured_node
from tests.support.filled_requests import filled_request
from tools.request_arrays import Path as ArrayPath
from tools.request_arrays import Role, arrays_of, served_apis

RESULTS = Path(__file__).parent / "results" / "request-limits.json"
_AGAIN_S = 0.004
_TIMES_MAX = 3
"""Other processes only add to a figure. A long one is measured again, and the smallest counts."""
_BYTES_KEPT_FREE = 1_024


def main(names: Sequence[str]) -> None:
    rows = []
    with measured_node({}) as node:
        for role, api in served_apis():
            if names and api.name not in names:
                continue
            for path, version in arrays_of(api).items():
                rows.append(_row(node, role, api, path, version))
                print(json.dumps(rows[-1]), flush=True)
    if not names:
        lines = ",\n".join(map(json.dumps, rows))
        RESULTS.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def _row(node: MeasuredNode, role: Role, api: Api, path: ArrayPath, version: int) -> dict[str, Any]:
    """Times in milliseconds."""
    longest_s = collection_s = total_s = 0.0
    requests = list(_requests(api, path, version))
    for body, _ in requests:
        taken = min(_asked(node, role, api.key, version, body), key=lambda each: each.longest_s)
        longest_s = max(longest_s, taken.longest_s)
        collection_s = max(collection_s, taken.longest_collection_s)
        total_s = max(total_s, taken.total_s)
    return {
        "api": api.name,
        "array": ".".join(path),
        "version": version,
        "items": requests[0][1],
        "longest_ms": round(longest_s * 1e3, 1),
        "collection_ms": round(collection_s * 1e3, 1),
        "total_ms": round(total_s * 1e3),
    }


def _asked(node: MeasuredNode, role: Role, key: int, version: int, body: bytes) -> Iterator[Taken]:
    for _ in range(_TIMES_MAX):
        taken = node.ask(role, key, version, body)
        yield taken
        if taken.longest_s < _AGAIN_S:
            return


def _requests(api: Api, path: ArrayPath, version: int) -> Iterator[tuple[bytes, int]]:
    """Each with its number of items."""
    limits = request_limits(broker_settings({"node.id": "1"}))
    items = limits.items_of(api.key)
    before = b""
    for topic in (None, TOPIC):
        body, count = filled_request(api.key, version, path, items, topic)
        if len(body) > limits.bytes_max - _BYTES_KEPT_FREE:
            fewer = items * (limits.bytes_max - _BYTES_KEPT_FREE) // len(body)
            body, count = filled_request(api.key, version, path, fewer, topic)
        if body != before:
            yield body, count
        before = body


if __name__ == "__main__":
    main(sys.argv[1:])
