"""The longest slices of requests of one transaction that writes to all partitions of a topic, on a node in memory.

Requests with unknown producers are refused early, so `benchmarks.request_limits` measures these requests beside them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.transactions import frames
from benchmarks.transactions.in_memory import NODE, begin, content_of, initialized, load_coordinator
from broker_runtime.wire.messages import decode_response, encode_request_body
from broker_runtime.wire.versions import ADD_PARTITIONS_TO_TXN, END_TXN, FIND_COORDINATOR, TXN_OFFSET_COMMIT
from tests.simulation.measured_node import PARTITIONS, TOPIC, MeasuredNode, Taken

WIDE_NODE: Mapping[str, str] = NODE
"""The properties of the node."""
_GROUP = "wide-group"
_TRIES = 100
_PAUSE_S = 0.5
_MARKERS_S = 5.0
_NAME = "wide"
_HEADER_BYTES = 5
"""Size of a flexible response's header: the correlation id, and no tagged fields."""

Row = tuple[str, str, int, Taken]
"""The name of the API, the content of the request, its version, and its cost."""


def wide_rows(node: MeasuredNode) -> Iterator[Row]:
    """Measure the requests of one transaction in their order. Raises RuntimeError if one of them is refused."""
    load_coordinator(node)
    stamp = initialized(node, _NAME)
    producer = {"producer_id": stamp.producer_id, "producer_epoch": stamp.epoch}
    everywhere = {"name": TOPIC, "partitions": tuple(range(PARTITIONS))}
    named = {"transactional_id": _NAME, "topics": (everywhere,), **producer}
    added = {f"v3_and_below_{name}": value for name, value in named.items()}
    what = f"{PARTITIONS:,} partitions of a transaction"
    yield "AddPartitionsToTxn", what, 3, _carried_out(node, ADD_PARTITIONS_TO_TXN, 3, added)
    begin(node, _NAME, stamp, range(PARTITIONS))
    _carried_out(node, FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [_GROUP]})
    taken = _carried_out(node, TXN_OFFSET_COMMIT, 5, _offsets(producer))
    yield "TxnOffsetCommit", f"{PARTITIONS:,} offsets in a transaction", 5, taken
    ended = {"transactional_id": _NAME, "committed": True, **producer}
    yield "EndTxn", f"{PARTITIONS:,} partitions that get markers", 4, _carried_out(node, END_TXN, 4, ended)
    _check_committed(node, stamp)


def _offsets(producer: Mapping[str, int]) -> dict[str, Any]:
    partitions = [
        {"partition_index": index, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
        for index in range(PARTITIONS)
    ]
    group = {"group_id": _GROUP, "generation_id": -1, "member_id": "", "group_instance_id": None}
    topics = [{"name": TOPIC, "partitions": partitions}]
    return {"transactional_id": _NAME, "topics": topics, **group, **producer}


def _carried_out(node: MeasuredNode, key: int, version: int, content: Mapping[str, Any]) -> Taken:
    """Return the longest of the request that is carried out and the work after its answer.

    Raises RuntimeError if the request is refused, or each time with an error that may pass.
    """
    body = encode_request_body(key, version, content)
    for _ in range(_TRIES):
        taken = node.ask("broker", key, version, body)
        answer = memoryview(content_of(taken.answer))[_HEADER_BYTES:]
        if not taken.refusals and answer and not any(_errors(decode_response(key, version, answer))):
            return max(taken, node.rest(_MARKERS_S), key=lambda each: each.longest_s)
        node.rest(_PAUSE_S)
    raise RuntimeError(f"request {key} is still refused: {taken.refusals}, {taken.answer!r:.200}")


def _errors(answer: object) -> Iterator[int]:
    """Yield all error codes of a response, at any depth."""
    for name in getattr(answer, "__dataclass_fields__", ()):
        value = getattr(answer, name)
        if name == "error_code":
            yield int(value)
        for each in value if isinstance(value, tuple) else ():
            yield from _errors(each)


def _check_committed(node: MeasuredNode, before: frames.Stamp) -> None:
    """Check that the transaction is complete: then its producer gets another epoch at once. Raises RuntimeError."""
    after = initialized(node, _NAME)
    if after.epoch <= before.epoch:
        raise RuntimeError(f"the transaction is not complete: {before}, {after}")
