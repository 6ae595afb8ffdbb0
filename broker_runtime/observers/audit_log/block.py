"""A block of events under construction: rows of fixed size for requests and partitions, each name once. Pure.

A block is self-contained: it can be read without any other, so that a damaged block loses only its own events.
"""

from typing import Any

from broker_runtime.apis.request.call import Call, Ending, PartitionFacts
from broker_runtime.observers.audit_log.clients import AuditedClient
from broker_runtime.observers.audit_log.error_codes import error_of
from broker_runtime.observers.audit_log.layout import (
    ENDINGS,
    NO_REFUSAL,
    PAIR_ROW,
    PARTITION_ROW,
    REQUEST_ROW,
    UNKNOWN_ERROR,
    packed_block,
)

_ANSWERED = Ending.ANSWERED
_WAS_ANSWERED = ENDINGS[_ANSWERED.value]
_REFUSALS_MAX = NO_REFUSAL
_EVENTS_MAX = 1024
"""Keeps the indexes of clients within their field, and limits the unwritten events that a kill -9 loses."""
_NO_ROWS: list[PartitionFacts] = []
_LAST_NUMBER = _EVENTS_MAX - 1
_PARTITIONS_BYTES_MAX = 64 * 1024
_TOPIC_CHARS_MAX = 249
"""Kafka's limit. No topic has a longer name: the log truncates the name of a request for one."""
_pack_request, _pack_partition, _pack_pair = REQUEST_ROW.pack, PARTITION_ROW.pack, PAIR_ROW.pack


class EventBlock:
    """A block of audit events numbered from `first_seq` to `last_seq`.

    `wall_us` and `monotonic_s` are the time at which the block began.
    """

    __slots__ = (
        "_clients",
        "_monotonic_s",
        "_others",
        "_pairs",
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
        self._clients: dict[AuditedClient, int] = {}
        self._topics: dict[str, int] = {}
        self._refusals: dict[str, int] = {}
        self._requests = bytearray()
        self._pairs = bytearray()
        self._partitions = bytearray()
        self._others: list[tuple[Any, ...]] = []

    def wall_us(self, monotonic_s: float) -> int:
        """Convert a time of the monotonic clock to microseconds of wall time, relative to the start of the block."""
        return self._wall_us + round((monotonic_s - self._monotonic_s) * 1e6)

    def add_request(self, call: Call, client: AuditedClient, error: int | None = None) -> bool:
        """Add a call of a client that is not excluded, with its details. Return True when the block is full.

        `error` is the error code, or UNKNOWN_ERROR; None stands for the call's own code.
        """
        seq = self.last_seq + 1
        number = seq - self.first_seq
        index = self._clients.get(client)
        if index is None:
            index = self._clients[client] = len(self._clients)
        reply, rows = call.reply, call.partitions or _NO_ROWS
        count = len(rows)
        if call.ending is _ANSWERED:
            ending, refusal = _WAS_ANSWERED, NO_REFUSAL
        else:
            ending, refusal = ENDINGS[call.ending.value], self._refusal(call)
            error = call.error or UNKNOWN_ERROR
        size = len(reply[0]) if len(reply) == 1 and type(reply[0]) is bytes else _size(reply)
        if error is None:
            error = call.error if call.fields is None else error_of(call)
        if count == 1:
            # Most Produce and Fetch requests have one partition. Both calls repeat the same arguments: sharing them in
            # a tuple would cost a fifth of this method's time.
            name, partition, data, records, base, last, base_ms, max_ms, code = rows[0]
            topic = self._topics.get(name)
            if topic is None:
                topic = self._topic(name)
            self._pairs += _pack_pair(
                number, index, call.api.key, call.version, call.correlation_id, call.request_bytes, size,
                call.received_s, call.handled_s, call.completed_s, ending, refusal, call.acks, error, call.replica_id,
                1, number, topic, partition, data, records, base, last, base_ms, max_ms, code,
            )  # fmt: skip
        else:
            self._requests += _pack_request(
                number, index, call.api.key, call.version, call.correlation_id, call.request_bytes, size,
                call.received_s, call.handled_s, call.completed_s, ending, refusal, call.acks, error, call.replica_id,
                count,
            )  # fmt: skip
            for name, partition, data, records, base, last, base_ms, max_ms, code in rows:
                self._partitions += _pack_partition(
                    number, self._topic(name), partition, data, records, base, last, base_ms, max_ms, code
                )
        # Only after the row is added: a number without an event is a hole.
        self.last_seq = seq
        return number >= _LAST_NUMBER or (count > 1 and len(self._partitions) >= _PARTITIONS_BYTES_MAX)

    def _topic(self, name: str) -> int:
        """Return the topic's index in the block's list of names, and add it if it is new."""
        return self._topics.setdefault(name[:_TOPIC_CHARS_MAX], len(self._topics))

    def add(self, table: str, seq: int, *values: object) -> bool:
        """Add an audit event to this block. Return True when the block is full.

        `values` are those that follow seq in the table's order. One event may cover several numbers, and several events
        may share one.
        """
        self._others.append((table, seq, *values))
        if seq > self.last_seq:
            self.last_seq = seq
        return len(self._others) >= _EVENTS_MAX

    def packed(self) -> bytes:
        return packed_block(
            "events",
            self.first_seq,
            self.last_seq,
            self._wall_us,
            self._monotonic_s,
            [client.told for client in self._clients],
            list(self._topics),
            list(self._refusals),
            self._requests,
            self._partitions,
            self._pairs,
            self._others,
        )

    def _refusal(self, call: Call) -> int:
        """Return the index of the call's refusal in this block; a block distinguishes the first 255 kinds only."""
        if call.ending is not Ending.REFUSED:
            return NO_REFUSAL
        refusals = self._refusals
        if call.refusal not in refusals and len(refusals) == _REFUSALS_MAX:
            return NO_REFUSAL
        return refusals.setdefault(call.refusal, len(refusals))


def _size(reply: tuple[Any, ...]) -> int:
    return sum(map(len, reply))
