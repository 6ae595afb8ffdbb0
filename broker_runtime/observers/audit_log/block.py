"""One block of events as it grows: rows of fixed size for requests and partitions, names once. Pure.

A block stands by itself: whoever reads it needs no other one, so that a damaged block costs its own events and no more.
"""

from typing import Any

from broker_runtime.apis.call import Call, Ending
from broker_runtime.apis.observed import error_code
from broker_runtime.observers.audit_log.admin_apis import ADMIN_APIS
from broker_runtime.observers.audit_log.clients import Client
from broker_runtime.observers.audit_log.layout import (
    ENDINGS,
    NO_ACKS,
    NO_REFUSAL,
    PARTITION_ROW,
    REQUEST_ROW,
    packed_block,
)
from broker_runtime.wire.reply import FileRegion

_ANSWERED = Ending.ANSWERED
_PRODUCE, _FETCH = 0, 1
_REFUSALS_MAX = NO_REFUSAL
_EVENTS_MAX = 1024
"""So that the places of clients fit their field, and that a kill -9 finds little that is not written."""
_REQUESTS_BYTES_MAX = _EVENTS_MAX * REQUEST_ROW.size
_PARTITIONS_BYTES_MAX = 64 * 1024
_pack_request, _pack_partition = REQUEST_ROW.pack, PARTITION_ROW.pack


class Block:
    """Events numbered from `first_seq` to `last_seq`; `wall_us` and `monotonic_s` are the moment at which it began."""

    __slots__ = (
        "_clients",
        "_monotonic_s",
        "_others",
        "_partitions",
        "_refusals",
        "_requests",
        "_topics",
        "_wall_us",
        "first_seq",
        "last_seq",
    )

    def __init__(self, first_seq: int, wall_us: int, monotonic_s: float) -> None:
        self.first_seq = first_seq
        self.last_seq = first_seq - 1
        self._wall_us = wall_us
        self._monotonic_s = monotonic_s
        self._clients: dict[Client, int] = {}
        self._topics: dict[str, int] = {}
        self._refusals: dict[str, int] = {}
        self._requests = bytearray()
        self._partitions = bytearray()
        self._others: list[tuple[Any, ...]] = []

    def wall_us(self, monotonic_s: float) -> int:
        """The time of day at a moment of the monotonic clock, reckoned from the block's beginning."""
        return self._wall_us + round((monotonic_s - self._monotonic_s) * 1e6)

    def add_request(self, call: Call, client: Client) -> bool:
        """A call with its details, of a client that is not left out. True when the block is full."""
        self.last_seq = seq = self.last_seq + 1
        number = seq - self.first_seq
        index = self._clients.get(client)
        if index is None:
            index = self._clients[client] = len(self._clients)
        rows = call.partitions
        if rows:
            topics = self._topics
            for name, partition, size, records, base, last, base_ms, max_ms, error in rows:
                topic = topics.get(name)
                if topic is None:
                    topic = topics[name] = len(topics)
                self._partitions += _pack_partition(
                    number, topic, partition, size, records, base, last, base_ms, max_ms, error
                )
        reply, key, ending, refusal = call.reply, call.api.key, 0, NO_REFUSAL
        if call.ending is not _ANSWERED:
            ending, refusal = ENDINGS[call.ending.value], self._refusal(call)
        self._requests += _pack_request(
            number,
            index,
            key,
            call.version,
            call.correlation_id,
            call.request_bytes,
            len(reply[0]) if len(reply) == 1 and type(reply[0]) is bytes else _size(reply),
            call.received_s,
            call.handled_s,
            call.completed_s,
            ending,
            refusal,
            call.acks if key == _PRODUCE else NO_ACKS,
            call.error or _error(call, key),
            call.replica_id if key == _FETCH else -1,
            len(rows) if rows else 0,
        )
        return len(self._requests) >= _REQUESTS_BYTES_MAX or len(self._partitions) >= _PARTITIONS_BYTES_MAX

    def add(self, table: str, seq: int, *values: object) -> bool:
        """An event of another table: its values in the table's order, behind seq. True when the block is full.

        It may cover several numbers, and several events the same ones.
        """
        self._others.append((table, seq, *values))
        self.last_seq = max(self.last_seq, seq)
        return len(self._others) >= _EVENTS_MAX

    def packed(self) -> bytes:
        return packed_block(
            "events",
            self.first_seq,
            self.last_seq,
            self._wall_us,
            self._monotonic_s,
            [client.facts for client in self._clients],
            list(self._topics),
            list(self._refusals),
            self._requests,
            self._partitions,
            self._others,
        )

    def _refusal(self, call: Call) -> int:
        """Its place among the refusals of this block; those beyond the first 255 kinds are not told apart."""
        if call.ending is not Ending.REFUSED:
            return NO_REFUSAL
        refusals = self._refusals
        if call.refusal not in refusals and len(refusals) == _REFUSALS_MAX:
            return NO_REFUSAL
        return refusals.setdefault(call.refusal, len(refusals))


def _size(reply: tuple[Any, ...]) -> int:
    return sum(chunk.length if isinstance(chunk, FileRegion) else len(chunk) for chunk in reply)


def _error(call: Call, api_key: int) -> int:
    """Of an answer with errors for many things only administrators' requests are looked through: others are long."""
    if call.fields is None:
        return 0
    code = call.fields.get("error_code", 0) if api_key not in ADMIN_APIS else error_code(call)
    return code if isinstance(code, int) else 0
