"""The longest slice of requests at their limits: `.venv/bin/python -m benchmarks.request_limits [API ...]`.

For every array of every API, requests fill it as far as the limits allow: with names that do not exist and with a topic
that exists, and with one item and with none in every other array. Further requests have items that are all equal, and
names of _NAME_CHARACTERS. The others are not refused: they do all of their work, some of them in a transaction. The
figure is the processor time of one callback of the event loop. Without arguments the figures are written to
results/request-limits.json, from which docs/reference/request-limits.md is generated.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.transactions.wide import WIDE_NODE, wide_rows
from broker_runtime.apis.request.call import Api
from broker_runtime.config import broker_settings
from broker_runtime.node.limits import request_limits
from tests.simulation.measured_node import TOPIC, MeasuredNode, Taken, measured_node
from tests.support.requests.filled_requests import filled_request
from tests.support.requests.working_requests import WORKING_NODE, WORKING_REQUESTS, WorkingRequest
from tools.request_arrays import Path as ArrayPath
from tools.request_arrays import Role, arrays_of, served_apis

RESULTS = Path(__file__).parent / "results" / "request-limits.json"
_AGAIN_S = 0.004
_TIMES_MAX = 3
"""Maximum number of measurements: a long one is repeated, and the smallest counts, because other processes only add."""
_BYTES_KEPT_FREE = 1_024
_NAME_CHARACTERS = 60
"""With longer names, a request has fewer items than the limit."""
_VARIANTS: Sequence[Mapping[str, Any]] = (
    *({"others": others, "topic": topic} for others, topic in product((1, 0), (None, TOPIC))),
    {"alike": True},
    {"alike": True, "others": 0},
    {"name_characters": _NAME_CHARACTERS},
    {"name_characters": _NAME_CHARACTERS, "others": 0},
)
"""The ways to fill an array, as arguments of `filled_request`."""


def main(names: Sequence[str]) -> None:
    rows = []
    with measured_node({}) as node:
        for role, api in served_apis():
            if names and api.name not in names:
                continue
            for path, version in arrays_of(api).items():
                rows.append(_row(node, role, api, path, version))
                print(json.dumps(rows[-1]), flush=True)
    with measured_node(dict(WORKING_NODE)) as node:
        for each in WORKING_REQUESTS:
            if not names or each.api in names:
                rows.append(_working_row(node, each))
                print(json.dumps(rows[-1]), flush=True)
    with measured_node(dict(WIDE_NODE)) as node:
        for name, what, version, taken in wide_rows(node):
            if not names or name in names:
                rows.append({"api": name, "request": what, "version": version} | _figures([taken]))
                print(json.dumps(rows[-1]), flush=True)
    if not names:
        lines = ",\n".join(map(json.dumps, rows))
        RESULTS.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def _row(node: MeasuredNode, role: Role, api: Api, path: ArrayPath, version: int) -> dict[str, Any]:
    """Measure requests that fill this array. Times are in milliseconds."""
    requests = list(_requests(api, path, version))
    taken = [min(_asked(node, role, api.key, version, body), key=lambda each: each.longest_s) for body, _ in requests]
    about = {"api": api.name, "array": ".".join(path), "version": version, "items": requests[0][1]}
    return about | _figures(taken)


def _working_row(node: MeasuredNode, request: WorkingRequest) -> dict[str, Any]:
    """Measure a request that does all of its work. Times are in milliseconds."""
    # Each later request refers to objects that the earlier ones created.
    asked = [node.ask("broker", request.key, request.version, request.body(time)) for time in range(_TIMES_MAX)]
    refusals = [each.refusals for each in asked if each.refusals]
    if refusals:
        raise RuntimeError(f"{request.api}, {request.what}: {refusals}")
    about = {"api": request.api, "request": request.what, "version": request.version}
    return about | _figures([min(asked, key=lambda each: each.longest_s)])


def _figures(taken: Sequence[Taken]) -> dict[str, Any]:
    return {
        "longest_ms": round(max(each.longest_s for each in taken) * 1e3, 1),
        "collection_ms": round(max(each.longest_collection_s for each in taken) * 1e3, 1),
        "total_ms": round(max(each.total_s for each in taken) * 1e3),
    }


def _asked(node: MeasuredNode, role: Role, key: int, version: int, body: bytes) -> Iterator[Taken]:
    for _ in range(_TIMES_MAX):
        taken = node.ask(role, key, version, body)
        yield taken
        if taken.longest_s < _AGAIN_S:
            return


def _requests(api: Api, path: ArrayPath, version: int) -> Iterator[tuple[bytes, int]]:
    """Yield requests that fill the array, each with its number of items."""
    limits = request_limits(broker_settings({"node.id": "1"}))
    items = limits.items_of(api.key)
    seen = set[bytes]()
    for variant in _VARIANTS:
        body, count = filled_request(api.key, version, path, items, **variant)
        if len(body) > limits.bytes_max - _BYTES_KEPT_FREE:
            fewer = items * (limits.bytes_max - _BYTES_KEPT_FREE) // len(body)
            body, count = filled_request(api.key, version, path, fewer, **variant)
        if body not in seen:
            yield body, count
        seen.add(body)


if __name__ == "__main__":
    main(sys.argv[1:])
