"""Answers of brokers, as the operator and the consumer read them: a broker may be broken, or may be somebody else."""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from broker_runtime.wire import versions
from broker_runtime.wire.messages import message_type
from kafka_bytes.messages.broker_metadata import BrokerMetadataResponse
from kafka_bytes.messages.log_damage import AcceptLogLossResponse, DescribeLogDamageResponse
from kafka_bytes.push import layouts, messages
from sluicegate_consumer.errors import ProtocolError
from sluicegate_consumer.wire import fetch, kafka, push
from sluicegate_consumer.wire import sasl as consumer_sasl
from sluicegate_operator.kafka_admin.connecting.frames import FrameSplitter, decode_reply
from sluicegate_operator.kafka_admin.connecting.reading import MalformedError
from sluicegate_operator.kafka_admin.errors import KafkaApiError
from tests.fuzz.target import Cut, Target
from tests.support.requests.random_answers import random_answer

_OWN = (BrokerMetadataResponse, DescribeLogDamageResponse, AcceptLogLossResponse)
_KINDS: Sequence[Any] = (
    *(
        message_type(key, version, "Response")
        for key, version in (
            (versions.API_VERSIONS, 0),
            (versions.API_VERSIONS, 3),
            (versions.METADATA, 11),
            (versions.CREATE_TOPICS, 7),
            (versions.DESCRIBE_CONFIGS, 4),
            (versions.DESCRIBE_CLIENT_QUOTAS, 1),
            (versions.INCREMENTAL_ALTER_CONFIGS, 1),
            (versions.DESCRIBE_CLUSTER, 2),
            (versions.DESCRIBE_QUORUM, 1),
            (versions.LIST_GROUPS, 5),
            (versions.DESCRIBE_GROUPS, 5),
            (versions.CONSUMER_GROUP_DESCRIBE, 0),
            (versions.LIST_OFFSETS, 6),
            (versions.DESCRIBE_ACLS, 2),
            (versions.DELETE_ACLS, 2),
            (versions.LIST_PARTITION_REASSIGNMENTS, 0),
        )
    ),
    *_OWN,
)
"""The answers that the operator reads, in its versions, and those of Sluicegate's own APIs."""
_SEED = 20_261_129


def _admin_reply(data: bytes) -> None:
    cut = Cut(data)
    kind = _KINDS[cut.number(len(_KINDS))]
    with suppress(MalformedError, KafkaApiError):
        decode_reply(kind, cut.rest())


def _admin_replies() -> Iterable[bytes]:
    rng = random.Random(_SEED)
    for number, kind in enumerate(_KINDS):
        yield bytes((number,)) + random_answer(kind, rng)


def _admin_stream(data: bytes) -> None:
    splitter = FrameSplitter()
    with suppress(MalformedError):
        for part in Cut(data).parts():
            for frame in splitter.feed(part):
                assert len(frame) <= len(data)


_READERS: Sequence[Callable[[memoryview], object]] = (
    kafka.read_api_versions,
    kafka.read_metadata,
    kafka.read_list_offsets,
    kafka.read_offset_commit,
    push.read_cluster_metadata,
    push.read_registered,
    push.read_call,
    consumer_sasl.read_handshake,
    consumer_sasl.read_authenticated,
    *(lambda body, version=version: fetch.read_fetch(version, body) for version in (4, 5, 7, 9, 11)),
)


def _consumer_answer(data: bytes) -> None:
    cut = Cut(data)
    read = _READERS[cut.number(len(_READERS))]
    with suppress(ProtocolError):
        read(memoryview(cut.rest()))


_ANSWERED: Mapping[int, tuple[int, int]] = {
    0: (versions.API_VERSIONS, kafka.API_VERSIONS_VERSION),
    1: (versions.METADATA, kafka.METADATA_VERSION),
    2: (versions.LIST_OFFSETS, kafka.LIST_OFFSETS_VERSION),
    3: (versions.OFFSET_COMMIT, kafka.OFFSET_COMMIT_VERSION),
    7: (versions.SASL_HANDSHAKE, 1),
    8: (versions.SASL_AUTHENTICATE, 1),
    13: (versions.FETCH, 11),
}
_CORRELATION_BYTES = 4


def _consumer_answers() -> Iterable[bytes]:
    rng = random.Random(_SEED)
    for number, (key, version) in _ANSWERED.items():
        yield bytes((number,)) + random_answer(message_type(key, version, "Response"), rng)[_CORRELATION_BYTES:]
    part = messages.PartitionOffset("orders", "1-0", 5)
    call = messages.StartFetcherRequest(
        "c", (messages.ThreadOwnership("c-0", (part,)),), (messages.Broker(1, "host", 9092),)
    )
    yield b"\x06" + layouts.START_FETCHER_REQUEST.write(call)[_CORRELATION_BYTES:]
    yield b"\x06" + layouts.PING_REQUEST.write(messages.PingRequest("c", 1))[_CORRELATION_BYTES:]


def _streams() -> Iterable[bytes]:
    yield b"\x08\x00\x00\x00\x05\x00\x00\x00\x01\x01x"


TARGETS = (
    Target("admin-reply", _admin_reply, _admin_replies),
    Target("admin-stream", _admin_stream, _streams),
    Target("consumer-answer", _consumer_answer, _consumer_answers),
)
