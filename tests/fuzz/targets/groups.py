"""Groups: records of __consumer_offsets, what members send inside of requests, and the frames of the push protocol."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from broker_runtime.errors import KafkaError
from broker_runtime.groups.classic.subscriptions import names_too_many, subscribed_topics
from broker_runtime.groups.consumer.embedded import (
    read_assignment,
    read_subscription,
    subscription_version,
    write_assignment,
)
from broker_runtime.groups.push.state.subscription import parse_topic_count
from broker_runtime.groups.record_codec import DamagedRecordError, decode, encode
from broker_runtime.slicing.steps import at_once
from kafka_bytes.errors import FormatError
from kafka_bytes.push import layouts
from kafka_bytes.push.layouts import Layout
from kafka_bytes.push.messages import (
    Broker,
    ClusterMetadataResponse,
    PartitionOffset,
    PingResponse,
    RegisterConsumerRequest,
    StartFetcherRequest,
    ThreadOwnership,
)
from kafka_bytes.push.partition_text import partition_text, read_partition
from tests.fuzz.target import Cut, Target, text_of

_TOPICS_MAX = 1_000
_SIZE_BYTES = 4


def _record(data: bytes) -> None:
    """Key and value of a record: what is read is written, and read again, unchanged."""
    cut = Cut(data)
    size = cut.number(256)
    rest = cut.rest()
    key, value = rest[:size], rest[size:] or None
    with suppress(DamagedRecordError):
        record = decode(key, value)
        if record is not None:
            with suppress(KafkaError):
                assert decode(*encode(record)) == record


def _embedded(data: bytes) -> None:
    names_too_many(data, _TOPICS_MAX)
    with suppress(ValueError):
        for names in subscribed_topics(data):
            assert len(names) <= _TOPICS_MAX
    with suppress(ValueError):
        subscription_version(data)
        at_once(read_subscription(data))
    with suppress(ValueError):
        found = at_once(read_assignment(data))
        again = at_once(read_assignment(write_assignment(0, found.partitions)))
        assert again.partitions == found.partitions


def _subscriptions() -> Iterable[bytes]:
    names = b"\x00\x00\x00\x02\x00\x01a\x00\x01b"
    yield b"\x00\x00" + names + b"\x00\x00\x00\x00"
    owned = b"\x00\x00\x00\x01\x00\x01a\x00\x00\x00\x01\x00\x00\x00\x05"
    yield b"\x00\x03" + names + b"\xff\xff\xff\xff" + owned + b"\x00\x00\x00\x07\x00\x01r"
    yield b"\x00\x00" + owned + b"\x00\x00\x00\x00"


def _topic_count(data: bytes) -> None:
    with suppress(KafkaError):
        found = parse_topic_count(text_of(data))
        assert found.threads > 0


def _topic_counts() -> Iterable[bytes]:
    yield b'{"orders": 2, "payments": 1}'
    yield b"*2*orders.*"
    yield b"!1!__.*"
    yield b"{" * 3_000


_LAYOUTS: tuple[Layout[tuple[object, ...]], ...] = tuple(
    each for each in vars(layouts).values() if isinstance(each, Layout)
)


def _push_frame(data: bytes) -> None:
    cut = Cut(data)
    layout = _LAYOUTS[cut.number(len(_LAYOUTS))]
    with suppress(FormatError):
        message = layout.read(memoryview(cut.rest()))
        assert layout.read(memoryview(layout.write(message))[_SIZE_BYTES:]) == message


def _push_frames() -> Iterable[bytes]:
    part = PartitionOffset("orders", partition_text(1, 0), 5)
    brokers = (Broker(1, "host", 9_092),)
    written: Sequence[tuple[Layout[Any], Any]] = (
        (layouts.CLUSTER_METADATA_RESPONSE, ClusterMetadataResponse(0, 1, brokers)),
        (layouts.REGISTER_CONSUMER_REQUEST, RegisterConsumerRequest("g", "c", '{"orders":1}', True, "latest", 6_000)),
        (layouts.PING_RESPONSE, PingResponse(0, "c", (part,))),
        (layouts.START_FETCHER_REQUEST, StartFetcherRequest("c", (ThreadOwnership("c-0", (part,)),), brokers)),
    )
    for layout, message in written:
        number = next(at for at, each in enumerate(_LAYOUTS) if each is layout)
        yield bytes((number,)) + layout.write(message)[_SIZE_BYTES:]


def _partition_text(data: bytes) -> None:
    with suppress(FormatError):
        leader, partition = read_partition(text_of(data))
        assert read_partition(partition_text(leader, partition)) == (leader, partition)


TARGETS = (
    Target("group-record", _record, lambda: ()),
    Target("member-metadata", _embedded, _subscriptions),
    Target("topic-count", _topic_count, _topic_counts),
    Target("push-frame", _push_frame, _push_frames),
    Target("push-partition", _partition_text, lambda: (b"1-0", b"-12"), 64),
)
